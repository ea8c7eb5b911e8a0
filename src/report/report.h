/*
 * Reports over a model, written to a stream: the JSON of docs/JSON.md, and text for a
 * person: the summary that ends a run, the report with whole stacks, a tree, blocks,
 * histograms, and what a profile says of itself.
 *
 * Text is style.columns wide but for what cannot be broken, has colours where style says
 * so, and is safe for a terminal whatever the names hold. Errors: writing failed, the
 * profile's, no memory. The model is sorted by the order asked for and otherwise only read.
 */
#ifndef MALLOGRAPH_REPORT_REPORT_H
#define MALLOGRAPH_REPORT_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "analyze/model.h"
#include "analyze/sections.h"
#include "analyze/sizes.h"
#include "analyze/tree.h"
#include "base/error.h"

#define REPORT_SITES_DEFAULT 20u
#define REPORT_SITES_ALL     SIZE_MAX
#define REPORT_COLUMNS       80u /* at least */

#define REPORT_PROCESSES_DEFAULT 20u
#define REPORT_SECTIONS          20u /* listed, where not all sites are */
#define REPORT_SECTION_SITES     5u  /* the default of each */

struct report_style {
	unsigned int columns; /* 0 = REPORT_COLUMNS */
	bool has_colours;
};

struct report_options {
	enum analyze_order order; /* 0 = by peak */
	size_t sites;             /* how many are listed, of each section; the rest is summed */
	size_t processes;         /* lines of their list */
	enum analyze_split split; /* what sites are listed by; merged within */
	struct report_style style;
};

struct report_summary {
	const char *saved_path; /* NULL = no file was kept */
	uint64_t saved_bytes;
	bool is_newest_here; /* commands that are told no file take this one */
	const char *path;    /* of the file in question, kept or not; NULL = none is */
	struct report_style style;
};

struct report_hist {
	enum analyze_by by;
	bool bytes;
	size_t limit;                        /* distributions */
	const struct analyze_linear *linear; /* NULL = powers of two */
	struct report_style style;
};

struct error *report_json_print(struct analyze_model *model, const struct report_options *options,
				FILE *out) ERROR_MUST_CHECK;
struct error *report_text_print(struct analyze_model *model, const struct report_options *options,
				FILE *out) ERROR_MUST_CHECK;
/* Of a merged profile, split by rank, file or host. */
struct error *report_ranks_print(struct analyze_model *model, const struct report_options *options,
				 FILE *out) ERROR_MUST_CHECK;
struct error *report_tree_print(struct analyze_model *model, const struct report_options *options,
				enum analyze_direction direction, FILE *out) ERROR_MUST_CHECK;
struct error *report_summary_print(struct analyze_model *model,
				   const struct report_summary *options,
				   FILE *out) ERROR_MUST_CHECK;
struct error *report_blocks_print(struct analyze_model *model, FILE *out) ERROR_MUST_CHECK;
struct error *report_hist_print(struct analyze_model *model, const struct report_hist *options,
				FILE *out) ERROR_MUST_CHECK;
/* path: what it is called; of the options processes and style. */
struct error *report_info_print(struct analyze_model *model, const char *path,
				const struct report_options *options, FILE *out) ERROR_MUST_CHECK;

#endif
