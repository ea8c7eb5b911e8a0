/* The report for a person: totals, then each leading site with its whole stack. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/stacks.h"
#include "base/units.h"
#include "report/head.h"
#include "report/words.h"

#define PROCESS_LINES 20u

static void put_process_line(struct strbuf *out, const struct analyze_process *process,
			     const struct report_style *style)
{
	char size[UNITS_BYTES];

	strbuf_printf(out, "  %-6s %7" PRIu64 "  peak ", report_how_word(process->how),
		      process->pid == ANALYZE_UNKNOWN ? 0 : process->pid);
	strbuf_printf(out, "%10s, ", units_format_size(size, process->counts.peak_bytes));
	report_put_plural(out, process->counts.allocations, "allocation", "allocations");
	strbuf_append(out, ", ");
	report_put_end(out, process);
	strbuf_append(out, "\n          ");
	report_put_command(out, process, report_columns(style) - 10);
	strbuf_append_char(out, '\n');
}

/* Processes that have a line: those with the largest peaks, in the order they began. */
struct shown {
	uint32_t processes[PROCESS_LINES];
	size_t count;
};

static uint64_t peak_of(const struct analyze_model *model, uint32_t process)
{
	return model->processes[process].counts.peak_bytes;
}

static void show_larger(const struct analyze_model *model, uint32_t process, struct shown *shown)
{
	uint32_t *list = shown->processes;
	size_t least = 0;

	if (shown->count < PROCESS_LINES) {
		list[shown->count++] = process;
		return;
	}
	for (size_t i = 1; i < PROCESS_LINES; i++)
		if (peak_of(model, list[i]) <= peak_of(model, list[least]))
			least = i;
	if (peak_of(model, process) <= peak_of(model, list[least]))
		return;
	memmove(&list[least], &list[least + 1], (PROCESS_LINES - 1 - least) * sizeof(*list));
	list[PROCESS_LINES - 1] = process;
}

static void put_processes(struct strbuf *out, const struct analyze_model *model,
			  const struct analyze_process *main, const struct report_style *style)
{
	struct shown shown = {.count = 0};
	size_t others = model->process_count - 1;

	strbuf_append_char(out, '\n');
	report_put_coloured(out, style, REPORT_HEADING, "OTHER PROCESSES");
	strbuf_append_char(out, '\n');
	for (uint32_t i = 0; i < model->process_count; i++)
		if (&model->processes[i] != main)
			show_larger(model, i, &shown);
	for (size_t i = 0; i < shown.count; i++)
		put_process_line(out, &model->processes[shown.processes[i]], style);
	if (others > shown.count) {
		strbuf_append(out, "  and ");
		report_put_plural(out, others - shown.count, "more", "more");
		strbuf_append(out, " with smaller peaks: report --json\n");
	}
}

static void put_counts(struct strbuf *out, const struct analyze_counts *counts)
{
	char number[UNITS_BYTES];

	strbuf_append(out, "     ");
	report_put_plural(out, counts->allocations, "allocation", "allocations");
	if (counts->temporary)
		strbuf_printf(out, " (%s temporary)",
			      units_format_count(number, counts->temporary));
	strbuf_printf(out, ", %s\n     ", units_format_size(number, counts->allocated_bytes));
	strbuf_printf(out, "peak %s in ", units_format_size(number, counts->peak_bytes));
	report_put_blocks(out, counts->peak_blocks);
	strbuf_printf(out, "; live %s in ", units_format_size(number, counts->live_bytes));
	report_put_blocks(out, counts->live_blocks);
	strbuf_append_char(out, '\n');
}

/* The frame a site is named after has a mark, if there are others before it. */
static void put_stack(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_site *site)
{
	struct analyze_walk walk = ANALYZE_WALK(model, site->frame);
	bool first = true;

	if (site->frame == 0)
		strbuf_append(out, "       [stack not known]\n");
	while (analyze_walk_next(&walk)) {
		uint32_t place = model->frames[walk.frame].place;
		uint32_t module = model->places[place].module;
		bool is_title =
			!first && walk.frame == site->title_frame && walk.line == site->title_line;

		first = false;
		strbuf_append(out, is_title ? "     > " : "       ");
		report_put_line(out, model, place, walk.line);
		if (model->lines[walk.line].file) {
			strbuf_append(out, " in ");
			report_put_module(out, model, module);
		}
		strbuf_append(out, walk.is_inlined ? " [inlined]\n" : "\n");
	}
}

static void put_site(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_site *site, size_t number,
		     const struct report_options *options)
{
	const struct analyze_process *process = &model->processes[site->process];
	const char *called = analyze_api_name(site->api);
	uint64_t value = analyze_order_value(&site->counts, options->order);

	strbuf_printf(out, "\n%3zu. ", number);
	report_colour_on(out, &options->style, REPORT_FIGURE);
	report_put_figure(out, value, options->order);
	report_colour_off(out, &options->style);
	strbuf_printf(out, " %s (", report_order_words(options->order));
	report_put_percent(out, value, analyze_order_value(&process->counts, options->order));
	strbuf_printf(out, " %%) by %s", called ? called : "a function not known");
	if (model->process_count > 1 && process->pid != ANALYZE_UNKNOWN)
		strbuf_printf(out, ", pid %" PRIu64, process->pid);
	strbuf_append_char(out, '\n');
	put_counts(out, &site->counts);
	put_stack(out, model, site);
}

static bool has_any(const struct analyze_counts *counts, enum analyze_order order)
{
	switch (order) {
	case ANALYZE_BY_LIVE:
		return counts->live_blocks > 0;
	case ANALYZE_BY_TEMPORARY:
		return counts->temporary > 0;
	default:
		return true;
	}
}

/* Sites without what was asked for come last, and are no answer. */
static size_t listed_sites(const struct analyze_model *model, const struct report_options *options)
{
	size_t count = options->sites < model->site_count ? options->sites : model->site_count;

	if (options->sites == REPORT_SITES_ALL)
		return count;
	while (count && !has_any(&model->sites[count - 1].counts, options->order))
		count--;
	return count;
}

static struct error *print_sites(struct analyze_model *model, const struct report_options *options,
				 struct strbuf *text, FILE *out)
{
	struct analyze_counts others = {0};
	size_t listed;

	analyze_sites_sort(model, options->order);
	listed = listed_sites(model, options);
	for (size_t i = 0; i < model->site_count; i++) {
		if (i >= listed) {
			analyze_counts_add(&others, &model->sites[i].counts);
			continue;
		}
		put_site(text, model, &model->sites[i], i + 1, options);
		TRY(report_flush(text, out));
	}
	if (model->site_count > listed) {
		strbuf_append(text, "\n     ");
		report_put_plural(text, model->site_count - listed, "other site: --sites all",
				  "other sites: --sites all");
		strbuf_append_char(text, '\n');
		put_counts(text, &others);
	}
	return report_flush(text, out);
}

struct error *report_text_print(struct analyze_model *model, const struct report_options *options,
				FILE *out)
{
	const struct analyze_process *process = analyze_main_process(model);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!process) {
		strbuf_append(&text, "Nothing was recorded: no process in it began a ledger.\n");
		return report_flush(&text, out);
	}
	report_put_head(&text, process, &options->style);
	if (!model->is_finished)
		strbuf_append(&text, "  NOT WHOLE  this profile was not written to its end\n");
	if (model->process_count > 1)
		put_processes(&text, model, process, &options->style);
	return print_sites(model, options, &text, out);
}
