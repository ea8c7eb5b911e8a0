/* The report for a person: totals, then each leading site with its whole stack. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/stacks.h"
#include "base/units.h"
#include "report/head.h"
#include "report/lineage.h"
#include "report/together.h"
#include "report/words.h"

/* peak_of: the process that had this peak, where that must be said. has_peak: sums have none. */
static void put_counts(struct strbuf *out, const struct analyze_counts *counts, bool has_peak,
		       const struct analyze_process *peak_of)
{
	char number[UNITS_BYTES];

	strbuf_append(out, "     ");
	report_put_plural(out, counts->allocations, "allocation", "allocations");
	if (counts->temporary)
		strbuf_printf(out, " (%s temporary)",
			      units_format_count(number, counts->temporary));
	strbuf_printf(out, ", %s\n     ", units_format_size(number, counts->allocated_bytes));
	if (has_peak) {
		strbuf_printf(out, "peak %s in ", units_format_size(number, counts->peak_bytes));
		report_put_blocks(out, counts->peak_blocks);
		if (peak_of && peak_of->pid != ANALYZE_UNKNOWN)
			strbuf_printf(out, " of pid %" PRIu64, peak_of->pid);
		strbuf_append(out, "; ");
	}
	strbuf_printf(out, "live %s in ", units_format_size(number, counts->live_bytes));
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
		strbuf_append(out, model->has_folded
					   ? "       [stacks not kept: small sites, summed]\n"
					   : "       [stack not known]\n");
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

/* "sort, pid 4711", or how many, where there are several. */
static void put_whose(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_site *site)
{
	if (model->process_count == 1)
		return;
	strbuf_append(out, ", ");
	if (site->process_count > 1) {
		strbuf_append(out, "in ");
		report_put_plural(out, site->process_count, "process", "processes");
	} else {
		report_put_program(out, &model->processes[site->process]);
	}
}

/* What a site's figure is a part of: of its process at the peak, else of its section. */
static uint64_t whole_of(const struct analyze_model *model, const struct analyze_site *site,
			 const struct analyze_section *section, enum analyze_order order)
{
	return analyze_order_value(order == ANALYZE_BY_PEAK
					   ? &model->processes[site->process].counts
					   : &section->counts,
				   order);
}

static void put_site(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_site *site, size_t number,
		     const struct analyze_section *section, const struct report_options *options)
{
	const char *called = analyze_api_name(site->api);
	uint64_t value = analyze_order_value(&site->counts, options->order);

	strbuf_printf(out, "\n%3zu. ", number);
	report_colour_on(out, &options->style, REPORT_FIGURE);
	report_put_figure(out, value, options->order);
	report_colour_off(out, &options->style);
	strbuf_printf(out, " %s (", report_order_words(options->order));
	report_put_percent(out, value, whole_of(model, site, section, options->order));
	strbuf_printf(out, " %%) by %s", called ? called : "a function not known");
	if (options->split != ANALYZE_SPLIT_PROCESS)
		put_whose(out, model, site);
	strbuf_append_char(out, '\n');
	put_counts(out, &site->counts, true,
		   site->process_count > 1 ? &model->processes[site->process] : NULL);
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

/* Of a section's sites, by their order: those that are listed. Sites without what was asked for
 * come last, and are no answer. */
static size_t listed_sites(const struct analyze_model *model, const uint32_t *sites, size_t count,
			   const struct report_options *options)
{
	if (options->sites == REPORT_SITES_ALL)
		return count;
	count = options->sites < count ? options->sites : count;
	while (count && !has_any(&model->sites[sites[count - 1]].counts, options->order))
		count--;
	return count;
}

static struct error *print_sites(const struct analyze_model *model, const uint32_t *sites,
				 size_t count, const struct analyze_section *section,
				 const struct report_options *options, struct strbuf *text,
				 FILE *out)
{
	size_t listed = listed_sites(model, sites, count, options);
	struct analyze_counts others = {0};

	for (size_t i = 0; i < count; i++) {
		const struct analyze_site *site = &model->sites[sites[i]];

		if (i >= listed) {
			analyze_counts_add(&others, &site->counts);
			continue;
		}
		put_site(text, model, site, i + 1, section, options);
		TRY(report_flush(text, out));
	}
	if (count > listed) {
		strbuf_append(text, "\n     ");
		report_put_plural(text, count - listed, "other site: --sites all",
				  "other sites: --sites all");
		strbuf_append_char(text, '\n');
		put_counts(text, &others, section->process_count == 1, NULL);
	}
	return report_flush(text, out);
}

/* --- sections --------------------------------------------------------------------------- */

/* "git, 3 processes: peak 16 KiB (pid 2936), 288 allocations, 100 KiB" */
static void put_section(struct strbuf *out, const struct analyze_model *model,
			const struct analyze_section *section, const struct report_options *options)
{
	const struct analyze_process *largest = &model->processes[section->largest];
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	char size[UNITS_BYTES];

	if (section->process_count == 1) {
		report_put_program(&text, largest);
	} else {
		report_put_program_name(&text, largest);
		strbuf_append(&text, ", ");
		report_put_plural(&text, section->process_count, "process", "processes");
	}
	strbuf_printf(&text, ": peak %s", units_format_size(size, section->counts.peak_bytes));
	if (section->process_count > 1 && largest->pid != ANALYZE_UNKNOWN)
		strbuf_printf(&text, " (pid %" PRIu64 ")", largest->pid);
	strbuf_append(&text, ", ");
	report_put_plural(&text, section->counts.allocations, "allocation", "allocations");
	strbuf_printf(&text, ", %s", units_format_size(size, section->counts.allocated_bytes));
	strbuf_append_char(out, '\n');
	if (text.failed)
		out->failed = true;
	else
		report_put_coloured(out, &options->style, REPORT_HEADING, text.text);
	strbuf_append_char(out, '\n');
}

/* Sites by section, each in the order they have. */
struct sorted {
	uint32_t *sites; /* places */
	size_t *first;   /* by section */
};

static struct error *sort_by_section(const struct analyze_model *model,
				     const struct analyze_sections *sections, struct sorted *ret)
{
	CLEANUP_FREE size_t *next = calloc(sections->count + 1, sizeof(*next));

	ret->sites = calloc(model->site_count + 1, sizeof(*ret->sites));
	ret->first = calloc(sections->count + 1, sizeof(*ret->first));
	if (!next || !ret->sites || !ret->first)
		return error_no_memory();
	for (size_t i = 0; i < model->site_count; i++)
		ret->first[sections->of[model->sites[i].process] + 1]++;
	for (size_t i = 0; i < sections->count; i++) {
		ret->first[i + 1] += ret->first[i];
		next[i] = ret->first[i];
	}
	for (uint32_t i = 0; i < model->site_count; i++)
		ret->sites[next[sections->of[model->sites[i].process]]++] = i;
	return NULL;
}

static struct error *print_sections(const struct analyze_model *model,
				    const struct analyze_sections *sections,
				    const struct sorted *sorted,
				    const struct report_options *options, struct strbuf *text,
				    FILE *out)
{
	CLEANUP_FREE uint32_t *order = NULL;
	size_t limit = options->sites == REPORT_SITES_ALL ? SIZE_MAX : REPORT_SECTIONS;

	TRY(analyze_sections_order(sections, options->order, &order));
	for (size_t i = 0; i < sections->count && i < limit; i++) {
		const struct analyze_section *section = &sections->items[order[i]];
		size_t first = sorted->first[order[i]];

		if (options->split != ANALYZE_SPLIT_NOTHING)
			put_section(text, model, section, options);
		TRY(print_sites(model, sorted->sites + first, sorted->first[order[i] + 1] - first,
				section, options, text, out));
	}
	if (sections->count > limit) {
		strbuf_append_char(text, '\n');
		report_put_plural(text, sections->count - limit, "other: --sites all\n",
				  "others: --sites all\n");
	}
	return report_flush(text, out);
}

static struct error *print_all_sites(struct analyze_model *model,
				     const struct report_options *options, struct strbuf *text,
				     FILE *out)
{
	struct analyze_sections sections;
	struct sorted sorted = {0};

	TRY(analyze_sections_make(model, options->split, &sections));
	struct error *error = NULL;

	if (options->split != ANALYZE_SPLIT_PROCESS && model->process_count > 1)
		error = analyze_sites_merge(model, &sections);
	if (!error) {
		analyze_sites_sort(model, options->order);
		error = sort_by_section(model, &sections, &sorted);
	}
	if (!error)
		error = print_sections(model, &sections, &sorted, options, text, out);
	free(sorted.sites);
	free(sorted.first);
	analyze_sections_free(&sections);
	return error;
}

static struct error *put_head(struct strbuf *out, struct analyze_model *model,
			      const struct report_options *options)
{
	struct analyze_together together;

	TRY(analyze_together_make(model, &together));
	struct error *error = NULL;

	if (together.matters) {
		report_put_tree_head(out, model, &together, &options->style);
		error = report_put_programs(out, model, &together, &options->style);
	} else {
		report_put_head(out, model, &options->style);
	}
	analyze_together_free(&together);
	return error;
}

struct error *report_text_print(struct analyze_model *model, const struct report_options *options,
				FILE *out)
{
	const struct report_lineage lineage = {
		.limit = options->processes,
		.style = &options->style,
	};
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!analyze_main_process(model)) {
		strbuf_append(&text, "Nothing was recorded: no process in it began a ledger.\n");
		return report_flush(&text, out);
	}
	TRY(put_head(&text, model, options));
	if (!model->is_finished)
		strbuf_append(&text, "  NOT WHOLE  this profile was not written to its end\n");
	if (model->process_count > 1) {
		strbuf_append_char(&text, '\n');
		report_put_coloured(&text, &options->style, REPORT_HEADING, "PROCESSES");
		strbuf_append_char(&text, '\n');
		TRY(report_put_lineage(&text, model, &lineage));
	}
	return print_all_sites(model, options, &text, out);
}
