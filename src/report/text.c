/* The report for a person: totals, then each leading site with its whole stack. */
#include "report/report.h"

#include <inttypes.h>

#include "base/strbuf.h"
#include "base/units.h"
#include "report/head.h"
#include "report/table.h"
#include "report/words.h"

#define PROCESS_LINES 20u

static void put_process_line(struct strbuf *out, const struct analyze_process *process)
{
	char size[UNITS_BYTES];

	strbuf_printf(out, "  %-6s %7" PRId32 "  peak ", report_how_word(process->how),
		      process->pid);
	strbuf_printf(out, "%10s, ", units_format_size(size, process->counts.peak_bytes));
	report_put_plural(out, process->counts.allocations, "allocation", "allocations");
	strbuf_append(out, ", ");
	report_put_end(out, process);
	strbuf_append(out, "\n          ");
	report_put_command(out, process, REPORT_COLUMNS - 10);
	strbuf_append_char(out, '\n');
}

static void put_processes(struct strbuf *out, const struct analyze_model *model,
			  const struct analyze_process *main)
{
	size_t listed = 0;

	strbuf_append(out, "\nOTHER PROCESSES\n");
	for (size_t i = 0; i < model->process_count; i++) {
		if (&model->processes[i] == main)
			continue;
		if (listed++ < PROCESS_LINES)
			put_process_line(out, &model->processes[i]);
	}
	if (listed > PROCESS_LINES) {
		strbuf_append(out, "  and ");
		report_put_plural(out, listed - PROCESS_LINES, "more", "more");
		strbuf_append(out, ": report --json\n");
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

static void put_site(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_site *site, size_t number, enum analyze_order order)
{
	const struct analyze_process *process = &model->processes[site->process];
	const char *called = analyze_api_name(site->api);

	strbuf_printf(out, "\n%3zu. ", number);
	report_put_figure(out, &site->counts, order);
	strbuf_printf(out, " %s (", report_order_words(order));
	report_put_percent(out, analyze_order_value(&site->counts, order),
			   analyze_order_value(&process->counts, order));
	strbuf_printf(out, " %%) by %s", called ? called : "a function not known");
	if (model->process_count > 1)
		strbuf_printf(out, ", pid %" PRId32, process->pid);
	strbuf_append_char(out, '\n');
	put_counts(out, &site->counts);
	if (site->frame == 0)
		strbuf_append(out, "       [stack not known]\n");
	for (uint32_t frame = site->frame; frame; frame = model->frames[frame].parent) {
		strbuf_append(out, "       ");
		report_put_frame(out, model, frame);
		strbuf_append_char(out, '\n');
	}
}

static struct error *print_sites(struct analyze_model *model, const struct report_options *options,
				 struct strbuf *text, FILE *out)
{
	struct analyze_counts others = {0};

	analyze_sites_sort(model, options->order);
	for (size_t i = 0; i < model->site_count; i++) {
		if (i >= options->sites) {
			analyze_counts_add(&others, &model->sites[i].counts);
			continue;
		}
		put_site(text, model, &model->sites[i], i + 1, options->order);
		TRY(report_flush(text, out));
	}
	if (model->site_count > options->sites) {
		strbuf_append(text, "\n     ");
		report_put_plural(text, model->site_count - options->sites,
				  "other site: --sites all", "other sites: --sites all");
		strbuf_append_char(text, '\n');
		put_counts(text, &others);
	}
	return report_flush(text, out);
}

struct error *report_text_print(struct analyze_model *model, const struct report_options *options,
				FILE *out)
{
	const struct analyze_process *process = report_main_process(model);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!process) {
		strbuf_append(&text, "Nothing was recorded: no process in it began a ledger.\n");
		return report_flush(&text, out);
	}
	report_put_head(&text, process);
	if (model->process_count > 1)
		put_processes(&text, model, process);
	return print_sites(model, options, &text, out);
}
