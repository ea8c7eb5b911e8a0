#include "report/table.h"

#include "base/units.h"
#include "report/words.h"

static const char *order_heading(enum analyze_order order)
{
	switch (order) {
	case ANALYZE_BY_LIVE:
		return "live";
	case ANALYZE_BY_ALLOCATIONS:
		return "times";
	case ANALYZE_BY_BYTES:
		return "bytes";
	case ANALYZE_BY_TEMPORARY:
		return "temporary";
	case ANALYZE_BY_PEAK:
	default:
		return "peak";
	}
}

const char *report_order_words(enum analyze_order order)
{
	switch (order) {
	case ANALYZE_BY_LIVE:
		return "live";
	case ANALYZE_BY_ALLOCATIONS:
		return "allocations";
	case ANALYZE_BY_BYTES:
		return "allocated";
	case ANALYZE_BY_TEMPORARY:
		return "temporary";
	case ANALYZE_BY_PEAK:
	default:
		return "at the peak";
	}
}

void report_put_figure(struct strbuf *out, const struct analyze_counts *counts,
		       enum analyze_order order)
{
	uint64_t value = analyze_order_value(counts, order);
	char text[UNITS_BYTES];

	if (order == ANALYZE_BY_ALLOCATIONS || order == ANALYZE_BY_TEMPORARY)
		strbuf_append(out, units_format_short(text, value));
	else
		strbuf_append(out, units_format_size(text, value));
}

/* "libjq.so.1+0x1d306 < +0x1c20 < jq+0x22f1": the module only where it changes, as many
 * callers as fit on the line, two at most. */
static void put_place(struct strbuf *out, const struct analyze_model *model, uint32_t frame,
		      size_t columns)
{
	size_t start = out->length;

	report_put_frame(out, model, frame);
	for (unsigned int i = 0; i < 2 && frame && model->frames[frame].parent; i++) {
		CLEANUP_STRBUF struct strbuf caller = STRBUF_EMPTY;

		strbuf_append(&caller, " < ");
		report_put_caller(&caller, model, frame);
		frame = model->frames[frame].parent;
		if (caller.failed || out->failed) {
			out->failed = true;
			return;
		}
		if (strbuf_columns(out->text + start, out->length - start) +
			    strbuf_columns(caller.text, caller.length) >
		    columns)
			return;
		strbuf_append_bytes(out, caller.text, caller.length);
	}
}

#define PLACE_COLUMN 45u

static void put_figures(struct strbuf *out, const struct analyze_counts *counts,
			const struct analyze_counts *whole, enum analyze_order order)
{
	CLEANUP_STRBUF struct strbuf figure = STRBUF_EMPTY, percent = STRBUF_EMPTY;
	char allocations[UNITS_BYTES], temporary[UNITS_BYTES];

	report_put_figure(&figure, counts, order);
	report_put_percent(&percent, analyze_order_value(counts, order),
			   analyze_order_value(whole, order));
	if (figure.failed || percent.failed) {
		out->failed = true;
		return;
	}
	strbuf_printf(out, "%10s %5s %9s", figure.text, percent.text,
		      units_format_short(allocations, counts->allocations));
	units_format_short(temporary, counts->temporary);
	if (counts->allocations) {
		char each[UNITS_BYTES];

		strbuf_printf(
			out, " %9s",
			units_format_size(each, counts->allocated_bytes / counts->allocations));
	} else {
		strbuf_printf(out, " %9s", "-");
	}
	strbuf_printf(out, " %6s ", temporary);
}

void report_put_table(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_process *process, enum analyze_order order, size_t count)
{
	struct analyze_counts others = {0};
	size_t other_count = 0, listed = 0;

	strbuf_printf(out, "%10s %5s %9s %9s %6s  %s\n", order_heading(order), "%", "allocs",
		      "each", "temp", "site < caller");
	for (size_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];

		if (&model->processes[site->process] != process)
			continue;
		if (listed == count) {
			analyze_counts_add(&others, &site->counts);
			other_count++;
			continue;
		}
		listed++;
		put_figures(out, &site->counts, &process->counts, order);
		strbuf_append_char(out, ' ');
		put_place(out, model, site->frame, REPORT_COLUMNS - PLACE_COLUMN);
		strbuf_append_char(out, '\n');
	}
	if (other_count == 0)
		return;
	put_figures(out, &others, &process->counts, order);
	strbuf_append_char(out, ' ');
	report_put_plural(out, other_count, "other", "others");
	strbuf_append_char(out, '\n');
}
