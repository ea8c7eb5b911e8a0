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
#include "report/table.h"
#include "report/words.h"

#define SITES         6u
#define FURTHER_SITES 3u
#define TIMES_LEAST   1000u /* fewer calls cost nobody anything */
#define MODULES       4u
#define INDENT        9u

struct summary {
	struct analyze_model *model;
	const struct analyze_process *process;
	uint32_t place; /* of the process */
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
	strbuf_append(text, " of the peak was allocated ");
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
static struct error *put_finding(const struct summary *summary)
{
	uint64_t peak = summary->process->counts.peak_bytes;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_finding finding;

	TRY(analyze_finding_make(summary->model, summary->place, &finding));
	if (finding.most.name == 0 && finding.module == 0)
		return NULL;
	put_most(summary, &text, &finding);
	if (finding.narrower.name) {
		strbuf_append(&text, ", ");
		put_percent(&text, finding.narrower.peak_bytes, peak);
		strbuf_append(&text, finding.narrower.is_title ? " by " : " below ");
		put_function(summary, &text, finding.narrower.name);
	}
	for (size_t i = 0; i < finding.branch_count; i++) {
		strbuf_append(&text, i ? ", " : ": ");
		put_function(summary, &text, finding.branches[i].name);
		strbuf_append_char(&text, ' ');
		put_percent(&text, finding.branches[i].peak_bytes, peak);
	}
	strbuf_append_char(&text, '.');
	TRY(strbuf_result(&text));
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

/* Whether the leader of a list has so much that it should be known. */
static bool matters(const struct summary *summary, const struct analyze_group *leader,
		    enum analyze_order order)
{
	const struct analyze_counts *all = &summary->process->counts;
	uint64_t value = analyze_order_value(&leader->counts, order);

	if (value == 0)
		return false;
	switch (order) {
	case ANALYZE_BY_LIVE:
		return value >= all->peak_bytes / 20 || value >= UINT64_C(1) << 20;
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
		.process = summary->process,
		.groups = groups,
		.order = list->order,
		.rows = rows,
		.sums_others = is_first,
		.style = summary->style,
	};

	TRY(analyze_groups_sort(summary->model, groups, list->order));
	put_heading(summary, list->heading, list->note);
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

static struct error *put_tables(const struct summary *summary)
{
	static const char merged[] =
		"(stacks merged at the first frame outside allocator wrappers)";
	static const struct list first = {ANALYZE_BY_PEAK, "PEAK BY SITE", merged};
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

	TRY(analyze_groups_make(summary->model, summary->place, main->order, &groups));
	struct error *error = put_list(summary, main, SITES, true, &groups, &shown);

	for (size_t i = 0; i < sizeof(further) / sizeof(further[0]) && !error; i++)
		error = put_further(summary, &further[i], &groups, &shown);
	analyze_groups_free(&groups);
	return error;
}

/* --- pictures ----------------------------------------------------------------------- */

static struct error *put_sizes(const struct summary *summary)
{
	struct analyze_distributions_options options = {.process = summary->place, .limit = 1};
	struct analyze_distributions distributions;
	struct analyze_buckets buckets = {0};

	TRY(analyze_distributions_make(summary->model, &options, &distributions));
	struct error *error =
		distributions.count ? analyze_quantize(&distributions.items[0], &buckets) : NULL;

	if (!error && buckets.list.count) {
		strbuf_append_char(summary->out, '\n');
		report_put_bars(summary->out, "SIZES",
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

/* What modules are said to lack together. */
struct lack_kind {
	enum analyze_symbols symbols;
	bool has_nameless; /* told apart where some functions have names */
};

static bool is_kind(const struct summary *summary, const struct analyze_lack *lack,
		    const struct lack_kind *kind)
{
	return summary->model->modules[lack->module].symbols == kind->symbols &&
	       (kind->symbols != ANALYZE_SYMBOLS_SYMTAB ||
		lack->has_nameless == kind->has_nameless);
}

static const char *lack_words(const struct lack_kind *kind)
{
	switch (kind->symbols) {
	case ANALYZE_SYMBOLS_SYMTAB:
		return kind->has_nameless ? "only some function names, no line numbers"
					  : "function names only, no line numbers";
	case ANALYZE_SYMBOLS_PENDING:
		return "not looked for yet";
	default:
		return "no function names";
	}
}

static void put_lacking(const struct summary *summary, const struct analyze_lack *lacks,
			size_t count, const struct lack_kind *kind, bool *first)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	size_t named = 0, left = 0;

	for (size_t i = 0; i < count; i++) {
		if (!is_kind(summary, &lacks[i], kind))
			continue;
		if (named == MODULES) {
			left++;
			continue;
		}
		strbuf_append(&text, named++ ? ", " : "");
		report_put_module(&text, summary->model, lacks[i].module);
	}
	if (named == 0)
		return;
	if (left)
		strbuf_printf(&text, " and %zu more", left);
	strbuf_printf(&text, ": %s", lack_words(kind));
	if (text.failed) {
		summary->out->failed = true;
		return;
	}
	if (*first) {
		strbuf_append_char(summary->out, '\n');
		report_put_coloured(summary->out, summary->style, REPORT_HEADING, "SYMBOLS");
		strbuf_append(summary->out, "  ");
	} else {
		strbuf_fill(summary->out, ' ', INDENT);
	}
	*first = false;
	report_put_wrapped(summary->out, text.text, INDENT, report_columns(summary->style));
	strbuf_append_char(summary->out, '\n');
}

static bool is_pending(const struct summary *summary, const struct analyze_lack *lacks,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (summary->model->modules[lacks[i].module].symbols == ANALYZE_SYMBOLS_PENDING)
			return true;
	return false;
}

static void put_next_step(const struct summary *summary, bool pending)
{
	const char *path = summary->options->path;

	strbuf_fill(summary->out, ' ', INDENT);
	strbuf_append(summary->out, pending ? "to look for them:  mallograph symbolize"
					    : "what to install:  mallograph doctor");
	if (!summary->options->is_newest_here) {
		strbuf_append_char(summary->out, ' ');
		report_put_quoted(summary->out, path, strlen(path));
	}
	strbuf_append_char(summary->out, '\n');
}

static struct error *put_symbols(const struct summary *summary)
{
	static const struct lack_kind kinds[] = {
		{.symbols = ANALYZE_SYMBOLS_NONE},
		{.symbols = ANALYZE_SYMBOLS_SYMTAB, .has_nameless = true},
		{.symbols = ANALYZE_SYMBOLS_SYMTAB},
		{.symbols = ANALYZE_SYMBOLS_PENDING},
	};
	CLEANUP_FREE struct analyze_lack *lacks = NULL;
	size_t count;
	bool first = true;

	TRY(analyze_lacks_make(summary->model, summary->place, &lacks, &count));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		put_lacking(summary, lacks, count, &kinds[i], &first);
	if (!first && summary->options->path)
		put_next_step(summary, is_pending(summary, lacks, count));
	return NULL;
}

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

static struct error *put_parts(const struct summary *summary)
{
	TRY(put_finding(summary));
	TRY(put_tables(summary));
	report_put_graph(summary->out, &summary->timeline, summary->process, summary->style);
	TRY(put_sizes(summary));
	return put_symbols(summary);
}

static struct error *put_process(struct summary *summary)
{
	const struct analyze_counts *counts = &summary->process->counts;
	struct error *error = NULL;

	TRY(analyze_timeline_load(summary->model, summary->place, &summary->timeline));
	report_put_head(summary->out, summary->process, summary->style);
	report_put_mapped(summary->out, summary->process, &summary->timeline, summary->style);
	report_put_others(summary->out, summary->model, summary->process, summary->style);
	if (counts->allocations || counts->live_blocks)
		error = put_parts(summary);
	analyze_timeline_free(&summary->timeline);
	return error;
}

struct error *report_summary_print(struct analyze_model *model,
				   const struct report_summary *options, FILE *out)
{
	const struct analyze_process *process = analyze_main_process(model);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct summary summary = {
		.model = model,
		.process = process,
		.options = options,
		.style = &options->style,
		.out = &text,
	};

	if (process) {
		summary.place = (uint32_t)(process - model->processes);
		TRY(put_process(&summary));
	} else {
		strbuf_append(&text, "mallograph: nothing was recorded\n");
	}
	if (options->saved_path)
		put_saved(&text, options, process && process->counts.live_blocks > 0);
	return report_flush(&text, out);
}
