/* A merged profile by rank, file or host: how far they differ. */
#include "analyze/ranks.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/report.h"
#include "report/table.h"
#include "report/words.h"

#define LABEL_COLUMNS 12u
#define SITE_COLUMN   52u
#define RANKS         20u

static const char *split_word(enum analyze_split split)
{
	return split == ANALYZE_SPLIT_RANK ? "rank" : split == ANALYZE_SPLIT_HOST ? "host" : "file";
}

static void put_label(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_ranks *ranks, uint32_t section,
		      const struct report_options *options, size_t columns)
{
	const struct analyze_process *process =
		&model->processes[ranks->sections.items[section].largest];
	const struct analyze_source *source = &model->sources[process->source];
	struct analyze_text text = options->split == ANALYZE_SPLIT_HOST
					   ? source->host
					   : report_base_name(&source->file);
	CLEANUP_STRBUF struct strbuf label = STRBUF_EMPTY;

	if (options->split == ANALYZE_SPLIT_RANK && source->rank != ANALYZE_UNKNOWN)
		strbuf_printf(&label, "rank %" PRIu64, source->rank);
	else if (text.length && options->split != ANALYZE_SPLIT_RANK)
		strbuf_printable(&label, text.bytes, text.length);
	else
		strbuf_append(&label, "[not known]");
	report_put_cut(out, &label, columns);
}

static void put_figures(struct strbuf *out, const struct analyze_spread *spread,
			enum analyze_order order)
{
	const uint64_t values[] = {spread->least, spread->median, spread->most};

	for (size_t i = 0; i < 3; i++) {
		CLEANUP_STRBUF struct strbuf figure = STRBUF_EMPTY;

		report_put_figure(&figure, values[i], order);
		if (figure.failed)
			out->failed = true;
		else
			strbuf_printf(out, "%10s", figure.text);
	}
	strbuf_append(out, "  ");
}

static struct error *put_spreads(struct strbuf *out, const struct analyze_model *model,
				 const struct analyze_ranks *ranks,
				 const struct report_options *options)
{
	static const struct {
		enum analyze_order order;
		const char *name;
	} lines[] = {
		{ANALYZE_BY_PEAK, "peak"},           {ANALYZE_BY_LIVE, "at end"},
		{ANALYZE_BY_BYTES, "allocated"},     {ANALYZE_BY_ALLOCATIONS, "allocations"},
		{ANALYZE_BY_TEMPORARY, "temporary"},
	};
	const char *word = split_word(options->split);

	report_colour_on(out, &options->style, REPORT_HEADING);
	strbuf_printf(out, "BY %s (%zu)", split_word(options->split), ranks->sections.count);
	report_colour_off(out, &options->style);
	strbuf_append_char(out, '\n');
	report_colour_on(out, &options->style, REPORT_DIM);
	strbuf_printf(out, "%12s%10s%10s%10s  %s with most", "", "min", "median", "max", word);
	report_colour_off(out, &options->style);
	strbuf_append_char(out, '\n');
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct analyze_spread spread;

		TRY(analyze_ranks_spread(ranks, lines[i].order, &spread));
		strbuf_printf(out, "%12s", lines[i].name);
		put_figures(out, &spread, lines[i].order);
		if (spread.most)
			put_label(out, model, ranks, spread.section, options,
				  report_columns(&options->style) - 44);
		else
			strbuf_append_char(out, '-');
		strbuf_append_char(out, '\n');
	}
	return NULL;
}

/* Each of them, the largest first. */
static struct error *put_list(struct strbuf *out, const struct analyze_model *model,
			      const struct analyze_ranks *ranks,
			      const struct report_options *options)
{
	size_t limit = options->sites == REPORT_SITES_ALL ? SIZE_MAX : RANKS;
	size_t columns = report_columns(&options->style) - 48;
	CLEANUP_FREE uint32_t *order = NULL;
	char peak[UNITS_BYTES], live[UNITS_BYTES], count[UNITS_BYTES], bytes[UNITS_BYTES];

	TRY(analyze_sections_order(&ranks->sections, options->order, &order));
	strbuf_append_char(out, '\n');
	report_colour_on(out, &options->style, REPORT_DIM);
	strbuf_printf(out, "%10s%10s%10s%10s%6s  %s", "peak", "at end", "allocs", "bytes", "procs",
		      split_word(options->split));
	report_colour_off(out, &options->style);
	strbuf_append_char(out, '\n');
	for (size_t i = 0; i < ranks->sections.count && i < limit; i++) {
		const struct analyze_section *section = &ranks->sections.items[order[i]];

		strbuf_printf(out, "%10s%10s%10s%10s%6zu  ",
			      units_format_size(peak, section->counts.peak_bytes),
			      units_format_size(live, section->counts.live_bytes),
			      units_format_short(count, section->counts.allocations),
			      units_format_size(bytes, section->counts.allocated_bytes),
			      section->process_count);
		put_label(out, model, ranks, order[i], options, columns);
		strbuf_append_char(out, '\n');
	}
	if (ranks->sections.count > limit) {
		strbuf_fill(out, ' ', 48);
		report_put_plural(out, ranks->sections.count - limit, "other: --sites all\n",
				  "others: --sites all\n");
	}
	return NULL;
}

static void put_sites(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_ranks *ranks, const struct report_options *options)
{
	size_t columns = report_columns(&options->style) - SITE_COLUMN;
	const char *word = split_word(options->split);
	size_t i;

	strbuf_append_char(out, '\n');
	report_colour_on(out, &options->style, REPORT_HEADING);
	strbuf_printf(out, "SITES by %s", word);
	report_colour_off(out, &options->style);
	strbuf_printf(out, " (%s; %ss that have it)\n", report_order_words(options->order), word);
	report_colour_on(out, &options->style, REPORT_DIM);
	strbuf_printf(out, "%10s%10s%10s  %-*s%6ss  site < caller", "min", "median", "max",
		      (int)LABEL_COLUMNS, "most in", word);
	report_colour_off(out, &options->style);
	strbuf_append_char(out, '\n');
	for (i = 0; i < ranks->site_count && i < options->sites; i++) {
		const struct analyze_ranked_site *site = &ranks->sites[i];
		CLEANUP_STRBUF struct strbuf label = STRBUF_EMPTY;

		put_figures(out, &site->spread, options->order);
		put_label(&label, model, ranks, site->spread.section, options, LABEL_COLUMNS);
		out->failed |= label.failed;
		strbuf_append(out, label.failed ? "" : label.text);
		strbuf_fill(out, ' ',
			    LABEL_COLUMNS -
				    (label.failed ? 0 : strbuf_columns(label.text, label.length)));
		strbuf_printf(out, "%7zu  ", site->sections);
		report_put_place(out, model, &ranks->groups.items[site->group], columns - 1);
		strbuf_append_char(out, '\n');
	}
	if (i < ranks->site_count) {
		strbuf_fill(out, ' ', SITE_COLUMN + 1);
		report_put_plural(out, ranks->site_count - i, "other: --sites all\n",
				  "others: --sites all\n");
	}
}

struct error *report_ranks_print(struct analyze_model *model, const struct report_options *options,
				 FILE *out)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_ranks ranks;

	if (model->source_count == 0)
		return error_remedy(error_create(ERROR_USAGE,
						 "this profile is not a merged one: "
						 "it has no %ss to compare",
						 split_word(options->split)),
				    "mallograph merge -o OUT FILE... makes one of many.");
	TRY(analyze_ranks_make(model, options->split, options->order, &ranks));
	struct error *error = put_spreads(&text, model, &ranks, options);

	if (!error)
		error = put_list(&text, model, &ranks, options);
	if (!error)
		put_sites(&text, model, &ranks, options);
	analyze_ranks_free(&ranks);
	return error ? error : report_flush(&text, out);
}
