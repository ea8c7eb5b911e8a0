/* The programs of a tree: what each did, in all its processes. */
#include "report/together.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "report/words.h"

#define PROGRAMS     6u
#define SMALL_PART   20u /* of the largest peak */
#define NAME_COLUMN  47u
#define HELPER_NAMES 8u
#define FEW          10000u /* allocations that cost nobody anything */

struct row {
	struct analyze_counts counts;
	uint64_t tree_peak_bytes;
	size_t processes;
};

static void put_row(struct strbuf *out, const struct analyze_together *together,
		    const struct row *row)
{
	char peak[UNITS_BYTES], allocations[UNITS_BYTES], bytes[UNITS_BYTES], count[UNITS_BYTES];
	CLEANUP_STRBUF struct strbuf percent = STRBUF_EMPTY;

	if (row->tree_peak_bytes != ANALYZE_UNKNOWN)
		report_put_percent(&percent, row->tree_peak_bytes, together->peak_low);
	else
		strbuf_append(&percent, "-");
	if (percent.failed) {
		out->failed = true;
		return;
	}
	strbuf_printf(out, "%9s ", units_format_size(peak, row->counts.peak_bytes));
	if (together->is_instant)
		strbuf_printf(out, "%6s ", percent.text);
	strbuf_printf(out, "%7s %10s %9s  ", units_format_count(count, row->processes),
		      units_format_short(allocations, row->counts.allocations),
		      units_format_size(bytes, row->counts.allocated_bytes));
}

static bool has_tail(const struct analyze_text *path, const char *tail, size_t length)
{
	return path->length >= length &&
	       memcmp(path->bytes + path->length - length, tail, length) == 0 &&
	       (path->length == length || path->bytes[path->length - length - 1] == '/');
}

/* "git", or with as many directories as tell it from the others: "git-core/git" */
static void put_name(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_sections *programs, uint32_t place)
{
	const struct analyze_process *process = &model->processes[programs->items[place].largest];
	struct analyze_text name = report_base_name(&process->exe);
	const char *path = process->exe.bytes;
	bool is_alone = name.length == 0;

	while (!is_alone) {
		is_alone = true;
		for (uint32_t i = 0; i < programs->count && is_alone; i++)
			is_alone = i == place ||
				   !has_tail(&model->processes[programs->items[i].largest].exe,
					     name.bytes, name.length);
		if (is_alone || name.bytes == path)
			break;
		do {
			name.bytes--;
			name.length++;
		} while (name.bytes > path && name.bytes[-1] != '/');
	}
	if (name.length == 0)
		report_put_program_name(out, process);
	else
		strbuf_printable(out, name.bytes, name.length);
}

static void put_program(struct strbuf *out, const struct analyze_model *model,
			const struct analyze_together *together, uint32_t place, size_t columns)
{
	const struct analyze_section *section = &together->programs.items[place];
	const struct analyze_process *largest = &model->processes[section->largest];
	CLEANUP_STRBUF struct strbuf name = STRBUF_EMPTY, pid = STRBUF_EMPTY;

	put_row(out, together,
		&((struct row){section->counts, section->tree_peak_bytes, section->process_count}));
	put_name(&name, model, &together->programs, place);
	if (largest->pid != ANALYZE_UNKNOWN)
		strbuf_printf(&pid,
			      section->process_count > 1 ? ", largest: pid %" PRIu64
							 : ", pid %" PRIu64,
			      largest->pid);
	report_put_cut(out, &name, columns - pid.length);
	if (pid.length)
		strbuf_append(out, pid.text);
	strbuf_append_char(out, '\n');
	out->failed |= pid.failed;
}

static bool is_small(const struct analyze_together *together, const struct analyze_section *section,
		     uint64_t largest)
{
	uint64_t part = section->tree_peak_bytes;

	return section->counts.peak_bytes <= largest / SMALL_PART &&
	       (section->counts.allocations <= together->counts.allocations / 10 ||
		section->counts.allocations < FEW) &&
	       (part == ANALYZE_UNKNOWN || part <= together->peak_low / SMALL_PART);
}

/* One that was there for the most part of the time is small, and no short helper. */
static bool is_long(const struct analyze_model *model, const struct analyze_together *together,
		    uint32_t process)
{
	const struct analyze_process *of = &model->processes[process];

	return of->end == ANALYZE_RUNNING ||
	       (of->duration_ns != ANALYZE_UNKNOWN && of->duration_ns > 1000000000 &&
		of->duration_ns > together->end_ns / 2);
}

struct folding {
	const struct analyze_model *model;
	const struct analyze_together *together;
	bool *is_folded; /* by program */
	struct row row;
	size_t count;
	bool is_small; /* all of them */
	bool has_long;
};

static void fold(struct folding *folding, uint32_t place, bool small)
{
	const struct analyze_section *section = &folding->together->programs.items[place];
	struct row *row = &folding->row;
	uint64_t peak = row->counts.peak_bytes;

	folding->is_folded[place] = true;
	folding->count++;
	folding->is_small &= small;
	analyze_counts_add(&row->counts, &section->counts);
	row->counts.peak_bytes =
		section->counts.peak_bytes > peak ? section->counts.peak_bytes : peak;
	row->processes += section->process_count;
	if (section->tree_peak_bytes == ANALYZE_UNKNOWN)
		row->tree_peak_bytes = ANALYZE_UNKNOWN;
	else if (row->tree_peak_bytes != ANALYZE_UNKNOWN)
		row->tree_peak_bytes += section->tree_peak_bytes;
}

static int most_processes(const void *a, const void *b, void *context)
{
	const struct analyze_section *items = context;
	const uint32_t *x = a, *y = b;

	if (items[*x].process_count != items[*y].process_count)
		return items[*x].process_count < items[*y].process_count ? 1 : -1;
	return (*x > *y) - (*x < *y);
}

/* "41 short helpers: git, sed, sh" */
static struct error *put_folded(struct strbuf *out, struct folding *folding, size_t columns)
{
	const struct analyze_sections *programs = &folding->together->programs;
	CLEANUP_FREE uint32_t *places = calloc(folding->count + 1, sizeof(*places));
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	size_t count = 0;

	if (!places)
		return error_no_memory();
	for (uint32_t i = 0; i < programs->count; i++)
		if (folding->is_folded[i])
			places[count++] = i;
	for (uint32_t i = 0; i < folding->model->process_count; i++)
		folding->has_long |= folding->is_folded[programs->of[i]] &&
				     is_long(folding->model, folding->together, i);
	qsort_r(places, count, sizeof(*places), most_processes, programs->items);
	put_row(out, folding->together, &folding->row);
	if (!folding->is_small)
		report_put_plural(&text, folding->row.processes, "other", "others");
	else if (folding->has_long)
		report_put_plural(&text, folding->row.processes, "small one", "small ones");
	else
		report_put_plural(&text, folding->row.processes, "short helper", "short helpers");
	for (size_t i = 0; i < count && i < HELPER_NAMES; i++) {
		strbuf_append(&text, i ? ", " : ": ");
		put_name(&text, folding->model, programs, places[i]);
	}
	if (count > HELPER_NAMES)
		strbuf_append(&text, ", ...");
	report_put_cut(out, &text, columns);
	strbuf_append_char(out, '\n');
	return NULL;
}

static void choose(struct folding *folding, const uint32_t *order)
{
	const struct analyze_sections *programs = &folding->together->programs;
	uint32_t main =
		programs->of[analyze_main_process(folding->model) - folding->model->processes];
	uint64_t largest = programs->items[order[0]].counts.peak_bytes;
	size_t listed = 0;

	for (size_t i = 0; i < programs->count; i++) {
		bool small = is_small(folding->together, &programs->items[order[i]], largest);

		if (order[i] == main || order[i] == programs->of[folding->together->leader])
			continue;
		if (small || ++listed > PROGRAMS)
			fold(folding, order[i], small);
	}
}

struct error *report_put_programs(struct strbuf *out, const struct analyze_model *model,
				  const struct analyze_together *together,
				  const struct report_style *style)
{
	const struct analyze_sections *programs = &together->programs;
	size_t columns =
		report_columns(style) - (together->is_instant ? NAME_COLUMN : NAME_COLUMN - 7);
	CLEANUP_FREE bool *is_folded = calloc(programs->count + 1, sizeof(*is_folded));
	CLEANUP_FREE uint32_t *order = NULL;
	struct folding folding = {
		.model = model,
		.together = together,
		.is_folded = is_folded,
		.is_small = true,
	};

	if (!is_folded)
		return error_no_memory();
	TRY(analyze_sections_order(programs, ANALYZE_BY_PEAK, &order));
	choose(&folding, order);
	strbuf_append_char(out, '\n');
	report_put_coloured(out, style, REPORT_HEADING, "PROGRAMS");
	strbuf_append(out,
		      together->is_instant
			      ? " (peak: of the largest process of each; %: of the tree's peak)\n"
			      : " (peak: of the largest process of each)\n");
	report_colour_on(out, style, REPORT_DIM);
	strbuf_printf(out, "%9s ", "peak");
	if (together->is_instant)
		strbuf_printf(out, "%6s ", "%");
	strbuf_printf(out, "%7s %10s %9s  program", "runs", "allocs", "bytes");
	report_colour_off(out, style);
	strbuf_append_char(out, '\n');
	for (size_t i = 0; i < programs->count; i++)
		if (!is_folded[order[i]] || folding.count == 1)
			put_program(out, model, together, order[i], columns);
	return folding.count > 1 ? put_folded(out, &folding, columns) : NULL;
}
