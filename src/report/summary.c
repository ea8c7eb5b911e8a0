/* What ends a run: the totals, who is behind the peak, and where the rest is. */
#include "report/report.h"

#include <inttypes.h>

#include "analyze/finding.h"
#include "analyze/groups.h"
#include "analyze/timeline.h"
#include "base/units.h"
#include "report/bars.h"
#include "report/graph.h"
#include "report/head.h"
#include "report/lacks.h"
#include "report/table.h"
#include "report/together.h"
#include "report/words.h"

#define SITES         6u
#define FURTHER_SITES 3u
#define TIMES_LEAST   1000u /* fewer calls cost nobody anything */
#define INDENT        9u

struct summary {
	struct analyze_model *model;
	const struct analyze_process *process; /* whose peak it tells */
	uint32_t place;                        /* of the process */
	struct analyze_together together;
	bool is_tree; /* of several processes: the process is the leader, figures are of all */
	const struct report_summary *options;
	const struct report_style *style;
	struct analyze_timeline timeline;
	struct strbuf *out;
};

static void put_heading(const struct summary *summary, const char *heading, const char *note)
{
	strbuf_append_char(summary->out, '\n');
	report_put_coloured(summary->out, summary->style, REPORT_HEADING, heading);
	strbuf_printf(summary->out, "%s%s\n", *note ? " " : "", note);
}

/* --- the sentence ------------------------------------------------------------------- */

static void put_percent(struct strbuf *text, uint64_t part, uint64_t whole)
{
	strbuf_printf(text, "%u %%", (unsigned int)((unsigned __int128)part * 100 / whole));
}

static void put_function(const struct summary *summary, struct strbuf *text, uint32_t name)
{
	CLEANUP_STRBUF struct strbuf whole = STRBUF_EMPTY;

	report_put_name(&whole, summary->model, name);
	report_put_cut(text, &whole, report_columns(summary->style) - 4);
}

static void put_most(const struct summary *summary, struct strbuf *text,
		     const struct analyze_finding *finding)
{
	const struct analyze_model *model = summary->model;
	uint64_t peak = summary->process->counts.peak_bytes;
	uint32_t name = finding->most.name;
	uint64_t bytes = name ? finding->most.peak_bytes : finding->module_bytes;

	if (bytes >= peak)
		strbuf_append(text, "All");
	else
		put_percent(text, bytes, peak);
	strbuf_append(text, summary->is_tree ? " of its peak was allocated "
					     : " of the peak was allocated ");
	if (name == 0) {
		strbuf_append(text, "by ");
		report_put_module(text, model, finding->module);
		return;
	}
	strbuf_append(text, finding->most.is_title ? "by " : "below ");
	put_function(summary, text, name);
	strbuf_append(text, " (");
	report_put_module(text, model, model->names[name].module);
	strbuf_append_char(text, ')');
}

/* "87 % of the peak was allocated below loop (server), 58 % below call: get 30 %, set 20 %." */
static void put_function_parts(const struct summary *summary, struct strbuf *out,
			       const struct analyze_finding *finding)
{
	uint64_t peak = summary->process->counts.peak_bytes;

	if (finding->most.name == 0 && finding->module == 0)
		return;
	put_most(summary, out, finding);
	if (finding->narrower.name) {
		strbuf_append(out, ", ");
		put_percent(out, finding->narrower.peak_bytes, peak);
		strbuf_append(out, finding->narrower.is_title ? " by " : " below ");
		put_function(summary, out, finding->narrower.name);
	}
	for (size_t i = 0; i < finding->branch_count; i++) {
		strbuf_append(out, i ? ", " : ": ");
		put_function(summary, out, finding->branches[i].name);
		strbuf_append_char(out, ' ');
		put_percent(out, finding->branches[i].peak_bytes, peak);
	}
	strbuf_append_char(out, '.');
}

/* "93 % of the tree's peak was in cc1plus, pid 4711, which g++, pid 4710, started. " */
static void put_leader(const struct summary *summary, struct strbuf *out)
{
	const struct analyze_process *leader = summary->process;
	const struct analyze_together *together = &summary->together;
	const struct analyze_process *parent = analyze_forked_by(summary->model, leader);

	if (!together->is_instant || leader->tree_peak_bytes == ANALYZE_UNKNOWN) {
		strbuf_append(out, "The largest is ");
	} else {
		put_percent(out, leader->tree_peak_bytes, together->peak_low);
		strbuf_append(out, " of the tree's peak was in ");
	}
	report_put_program(out, leader);
	if (parent) {
		strbuf_append(out, ", a child of ");
		report_put_program(out, parent);
	}
	strbuf_append(out, ". ");
}

static struct error *put_finding(const struct summary *summary)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_finding finding;

	TRY(analyze_finding_make(summary->model, summary->place, &finding));
	if (summary->is_tree)
		put_leader(summary, &text);
	put_function_parts(summary, &text, &finding);
	TRY(strbuf_result(&text));
	if (text.length == 0)
		return NULL;
	strbuf_append(summary->out, "\n  ");
	report_put_wrapped(summary->out, text.text, 2, report_columns(summary->style));
	strbuf_append_char(summary->out, '\n');
	return NULL;
}

/* --- tables ------------------------------------------------------------------------- */

/* Groups that are shown already, by title and caller. */
struct shown {
	struct analyze_group groups[SITES + 4 * FURTHER_SITES];
	size_t count;
};

static void add_shown(struct shown *shown, const struct report_table *table)
{
	size_t rows = report_table_rows(table);

	for (size_t i = 0; i < rows; i++)
		shown->groups[shown->count++] = table->groups->items[i];
}

static bool is_shown(const struct shown *shown, const struct analyze_group *group)
{
	for (size_t i = 0; i < shown->count; i++)
		if (shown->groups[i].title == group->title &&
		    shown->groups[i].caller == group->caller)
			return true;
	return false;
}

struct list {
	enum analyze_order order;
	const char *heading;
	const char *note;
};

/* What everything but the peak is a part of. */
static const struct analyze_counts *counts_of(const struct summary *summary)
{
	return summary->is_tree ? &summary->together.counts : &summary->process->counts;
}

/* Whether the leader of a list has so much that it should be known. */
static bool matters(const struct summary *summary, const struct analyze_group *leader,
		    enum analyze_order order)
{
	const struct analyze_counts *all = counts_of(summary);
	uint64_t value = analyze_order_value(&leader->counts, order);

	if (value == 0)
		return false;
	switch (order) {
	case ANALYZE_BY_LIVE:
		return value >= summary->process->counts.peak_bytes / 20 || value >= UINT64_C(1)
											     << 20;
	case ANALYZE_BY_TEMPORARY:
	case ANALYZE_BY_ALLOCATIONS:
		return value >= TIMES_LEAST && value >= all->allocations / 10;
	default:
		return value >= analyze_order_value(all, order) / 10;
	}
}

static struct error *put_list(const struct summary *summary, const struct list *list, size_t rows,
			      bool is_first, struct analyze_groups *groups, struct shown *shown)
{
	const struct report_table table = {
		.model = summary->model,
		.whole = is_first ? &summary->process->counts : counts_of(summary),
		.groups = groups,
		.order = list->order,
		.rows = rows,
		.sums_others = is_first,
		.style = summary->style,
	};

	TRY(analyze_groups_sort(summary->model, groups, list->order));
	if (list->heading)
		put_heading(summary, list->heading,
			    summary->is_tree ? "of all processes together" : list->note);
	report_put_table(summary->out, &table);
	add_shown(shown, &table);
	return NULL;
}

static struct error *put_further(const struct summary *summary, const struct list *list,
				 struct analyze_groups *groups, struct shown *shown)
{
	const struct analyze_group *leader =
		analyze_groups_leader(summary->model, groups, list->order);

	if (!leader || is_shown(shown, leader) || !matters(summary, leader, list->order))
		return NULL;
	return put_list(summary, list, FURTHER_SITES, false, groups, shown);
}

/* "PEAK BY SITE of cc1plus, pid 4711: what made up its own peak of 120 MiB" */
static void put_whose_peak(const struct summary *summary)
{
	CLEANUP_STRBUF struct strbuf note = STRBUF_EMPTY;
	char size[UNITS_BYTES];

	strbuf_append(&note, "of ");
	report_put_program(&note, summary->process);
	strbuf_printf(&note, " (its own peak, %s)",
		      units_format_size(size, summary->process->counts.peak_bytes));
	if (note.failed)
		summary->out->failed = true;
	else
		put_heading(summary, "PEAK BY SITE", note.text);
}

static struct error *put_tables(const struct summary *summary)
{
	static const char merged[] =
		"(stacks merged at the first frame outside allocator wrappers)";
	static const struct list first = {ANALYZE_BY_PEAK, "PEAK BY SITE", merged};
	static const struct list unnamed = {ANALYZE_BY_PEAK, NULL, NULL};
	static const struct list sizeless = {ANALYZE_BY_ALLOCATIONS, "ALLOCATIONS BY SITE", ""};
	static const struct list further[] = {
		{ANALYZE_BY_LIVE, "LIVE BY SITE", ""},
		{ANALYZE_BY_ALLOCATIONS, "ALLOCATIONS BY SITE", ""},
		{ANALYZE_BY_BYTES, "ALLOCATED BY SITE", ""},
		{ANALYZE_BY_TEMPORARY, "TEMPORARY BY SITE", "(freed before the next allocation)"},
	};
	const struct list *main = summary->process->counts.peak_bytes ? &first : &sizeless;
	struct shown shown = {.count = 0};
	struct analyze_groups groups;

	if (summary->is_tree)
		put_whose_peak(summary);
	TRY(analyze_groups_make(summary->model, summary->place, main->order, &groups));
	struct error *error =
		put_list(summary, summary->is_tree ? &unnamed : main, SITES, true, &groups, &shown);

	if (!error && summary->is_tree) {
		analyze_groups_free(&groups);
		error = analyze_groups_make(summary->model, ANALYZE_ALL_PROCESSES, main->order,
					    &groups);
	}
	for (size_t i = 0; i < sizeof(further) / sizeof(further[0]) && !error; i++)
		error = put_further(summary, &further[i], &groups, &shown);
	analyze_groups_free(&groups);
	return error;
}

/* --- pictures ----------------------------------------------------------------------- */

static struct error *put_sizes(const struct summary *summary)
{
	struct analyze_distributions_options options = {
		.process = summary->is_tree ? ANALYZE_ALL_PROCESSES : summary->place,
		.limit = 1,
	};
	struct analyze_distributions distributions;
	struct analyze_buckets buckets = {0};

	TRY(analyze_distributions_make(summary->model, &options, &distributions));
	struct error *error =
		distributions.count ? analyze_quantize(&distributions.items[0], &buckets) : NULL;

	if (!error && buckets.list.count) {
		if (summary->is_tree)
			put_heading(summary, "SIZES", "of all processes together");
		else
			strbuf_append_char(summary->out, '\n');
		report_put_bars(summary->out, summary->is_tree ? "" : "SIZES",
				&(struct report_bars){
					.buckets = &buckets,
					.total = distributions.items[0].total,
					.skips_empty = true,
					.style = summary->style,
				});
	}
	analyze_buckets_free(&buckets);
	analyze_distributions_free(&distributions);
	return error;
}

/* --- the end ------------------------------------------------------------------------ */

static void put_saved(struct strbuf *out, const struct report_summary *options, bool has_live)
{
	CLEANUP_STRBUF struct strbuf word = STRBUF_EMPTY;
	char size[UNITS_BYTES];

	strbuf_append_char(out, '\n');
	report_put_coloured(out, &options->style, REPORT_HEADING, "SAVED");
	strbuf_append(out, "    ");
	strbuf_printable(out, options->saved_path, strlen(options->saved_path));
	if (options->saved_bytes)
		strbuf_printf(out, " (%s)", units_format_size(size, options->saved_bytes));
	if (!options->is_newest_here) {
		strbuf_append_char(&word, ' ');
		report_put_quoted(&word, options->saved_path, strlen(options->saved_path));
	}
	strbuf_printf(out, "\n%*sfull stacks:  mallograph report", (int)INDENT, "");
	if (word.length)
		strbuf_printf(out, "%s\n%*s", word.text, (int)INDENT, "");
	else
		strbuf_fill(out, ' ', 6);
	strbuf_printf(out, "a tree:  mallograph report --tree%s\n", word.length ? word.text : "");
	if (has_live)
		strbuf_printf(out, "%*swhat is left:  mallograph report --live%s\n", (int)INDENT,
			      "", word.length ? word.text : "");
	out->failed |= word.failed;
}

/* Of all processes where that was kept, else of the one that leads. */
static void put_graph(const struct summary *summary)
{
	const struct analyze_process *process = summary->process;
	CLEANUP_STRBUF struct strbuf whose = STRBUF_EMPTY;

	if (!summary->is_tree) {
		report_put_graph(summary->out, &summary->timeline, process->peak_time_ns, NULL,
				 summary->style);
		return;
	}
	if (report_graph_tells(&summary->together.timeline)) {
		report_put_graph(summary->out, &summary->together.timeline,
				 summary->together.peak_ns, "all processes together",
				 summary->style);
		return;
	}
	report_put_program(&whose, process);
	if (whose.failed)
		summary->out->failed = true;
	else
		report_put_graph(summary->out, &summary->timeline, process->peak_time_ns,
				 whose.text, summary->style);
}

static struct error *put_parts(const struct summary *summary)
{
	TRY(put_finding(summary));
	TRY(put_tables(summary));
	put_graph(summary);
	TRY(put_sizes(summary));
	return report_put_lacks(summary->out, summary->model,
				summary->is_tree ? ANALYZE_ALL_PROCESSES : summary->place,
				summary->options);
}

static struct error *put_head(const struct summary *summary)
{
	if (!summary->is_tree) {
		report_put_head(summary->out, summary->model, summary->style);
		report_put_mapped(summary->out, summary->process, &summary->timeline, false,
				  summary->style);
		report_put_others(summary->out, summary->model, summary->process, summary->style);
		return NULL;
	}
	report_put_tree_head(summary->out, summary->model, &summary->together, summary->style);
	report_put_mapped(summary->out, summary->process, &summary->timeline, true, summary->style);
	return report_put_programs(summary->out, summary->model, &summary->together,
				   summary->style);
}

static struct error *put_process(struct summary *summary)
{
	const struct analyze_counts *counts = &summary->process->counts;

	TRY(analyze_timeline_load(summary->model, summary->place, &summary->timeline));
	struct error *error = put_head(summary);

	if (!error && (counts->allocations || counts->live_blocks))
		error = put_parts(summary);
	analyze_timeline_free(&summary->timeline);
	return error;
}

static struct error *put_all(struct summary *summary)
{
	const struct analyze_process *main = analyze_main_process(summary->model);

	if (!main) {
		strbuf_append(summary->out, "mallograph: nothing was recorded\n");
		if (summary->options->saved_path)
			put_saved(summary->out, summary->options, false);
		return NULL;
	}
	TRY(analyze_together_make(summary->model, &summary->together));
	summary->is_tree = summary->together.matters;
	summary->place = summary->is_tree ? summary->together.leader
					  : (uint32_t)(main - summary->model->processes);
	summary->process = &summary->model->processes[summary->place];
	struct error *error = put_process(summary);

	if (!error && summary->options->saved_path)
		put_saved(summary->out, summary->options, counts_of(summary)->live_blocks > 0);
	analyze_together_free(&summary->together);
	return error;
}

struct error *report_summary_print(struct analyze_model *model,
				   const struct report_summary *options, FILE *out)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct summary summary = {
		.model = model,
		.options = options,
		.style = &options->style,
		.out = &text,
	};

	TRY(put_all(&summary));
	return report_flush(&text, out);
}
