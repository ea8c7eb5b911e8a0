#include "report/table.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/words.h"

#define PLACE_COLUMN 44u
/* What a place may be cut to for its caller's name: "libsq...+0xa7504". */
#define PLACE_LEAST 16u
/* Less of a caller's name says nothing. */
#define CALLER_LEAST 8u

static const char *heading_of(enum analyze_order order)
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

/* A place in the title's own module needs no more than its offset. */
static void put_caller(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_group *group, size_t columns)
{
	const struct analyze_name *title = &model->names[group->title];
	const struct analyze_name *caller = &model->names[group->caller];

	if (caller->function == 0 && caller->module && caller->module == title->module)
		strbuf_printf(out, "+0x%" PRIx64, caller->offset);
	else
		report_put_name_in(out, model, group->caller, columns);
}

static bool is_place(const struct analyze_model *model, uint32_t name)
{
	return model->names[name].function == 0 && model->names[name].module;
}

void report_put_place(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_group *group, size_t columns)
{
	CLEANUP_STRBUF struct strbuf title = STRBUF_EMPTY;
	CLEANUP_STRBUF struct strbuf caller = STRBUF_EMPTY;

	report_put_name(&title, model, group->title);
	if (group->caller)
		put_caller(&caller, model, group, SIZE_MAX);
	if (title.failed || caller.failed) {
		out->failed = true;
		return;
	}
	size_t wide = strbuf_columns(title.text, title.length);
	size_t right = caller.length ? strbuf_columns(caller.text, caller.length) + 3 : 0;

	if (wide + right <= columns) {
		/* As it is. */
	} else if (is_place(model, group->title) && model->names[group->caller].function &&
		   columns > PLACE_LEAST + CALLER_LEAST + 3) {
		wide = right + PLACE_LEAST < columns ? columns - right : PLACE_LEAST;
		right = columns - wide;
	} else if (right && columns > wide && columns - wide >= CALLER_LEAST + 3) {
		right = columns - wide;
	} else {
		size_t share = columns * 2 / 5;

		right = right > share ? share : right;
		wide = columns - right;
	}
	strbuf_clear(&title);
	report_put_name_in(&title, model, group->title, wide);
	report_put_cut(out, &title, columns);
	/* Cutting may have left it more. */
	wide = title.failed ? 0 : strbuf_columns(title.text, title.length);
	if (right && columns > wide + 3) {
		strbuf_append(out, " < ");
		put_caller(out, model, group, columns - wide - 3);
	}
}

/* "226,000" is too wide for its column, "226k" is not. */
static char *format_narrow(char buffer[UNITS_BYTES], uint64_t count)
{
	static const char names[] = "kMGTPE";
	uint64_t unit = 1000;
	size_t i = 0;

	if (count < 10000)
		return units_format_count(buffer, count);
	while (names[i + 1] && count / unit >= 1000) {
		unit *= 1000;
		i++;
	}
	snprintf(buffer, UNITS_BYTES, "%" PRIu64 "%c", count / unit, names[i]);
	return buffer;
}

static void put_figures(struct strbuf *out, const struct report_table *table,
			const struct analyze_counts *counts, bool is_one)
{
	uint64_t value = analyze_order_value(counts, table->order);
	CLEANUP_STRBUF struct strbuf figure = STRBUF_EMPTY, percent = STRBUF_EMPTY;
	char allocations[UNITS_BYTES], each[UNITS_BYTES], temporary[UNITS_BYTES];

	report_put_figure(&figure, value, table->order);
	report_put_percent(&percent, value, analyze_order_value(table->whole, table->order));
	if (figure.failed || percent.failed) {
		out->failed = true;
		return;
	}
	units_format_count(allocations, counts->allocations);
	if (strlen(allocations) > 10)
		units_format_short(allocations, counts->allocations);
	if (is_one && counts->allocations)
		units_format_size(each, counts->allocated_bytes / counts->allocations);
	else
		memcpy(each, "-", 2);
	strbuf_printf(out, "%9s %6s %10s %8s %5s  ", figure.text, percent.text, allocations, each,
		      format_narrow(temporary, counts->temporary));
}

size_t report_table_rows(const struct report_table *table)
{
	size_t count = 0;

	while (count < table->groups->count && count < table->rows &&
	       analyze_order_value(&table->groups->items[count].counts, table->order) > 0)
		count++;
	return count;
}

void report_put_table(struct strbuf *out, const struct report_table *table)
{
	const struct analyze_groups *groups = table->groups;
	size_t columns = report_columns(table->style) - PLACE_COLUMN;
	size_t rows = report_table_rows(table);
	struct analyze_counts others = {0};
	size_t sites = 0;

	report_colour_on(out, table->style, REPORT_DIM);
	strbuf_printf(out, "%9s %6s %10s %8s %5s  %s", heading_of(table->order), "%", "allocs",
		      "each", "temp", "site < caller");
	report_colour_off(out, table->style);
	strbuf_append_char(out, '\n');
	for (size_t i = 0; i < groups->count; i++) {
		if (i >= rows) {
			analyze_counts_add(&others, &groups->items[i].counts);
			sites++;
			continue;
		}
		put_figures(out, table, &groups->items[i].counts, true);
		report_put_place(out, table->model, &groups->items[i], columns);
		strbuf_append_char(out, '\n');
	}
	if (sites == 0 || !table->sums_others)
		return;
	put_figures(out, table, &others, false);
	report_put_plural(out, sites, "other", "others");
	strbuf_append_char(out, '\n');
}
