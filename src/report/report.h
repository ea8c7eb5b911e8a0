/*
 * Reports over a model, written to a stream: the JSON of docs/JSON.md, the text for a
 * person, and the short summary that ends a run.
 *
 * Text is at most 80 columns wide but for names that do not fit, has no colours, and is
 * safe for a terminal whatever the names hold. Errors: writing failed, or no memory.
 * The model is sorted by the order asked for and otherwise only read.
 */
#ifndef MALLOGRAPH_REPORT_REPORT_H
#define MALLOGRAPH_REPORT_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "analyze/model.h"
#include "base/error.h"

#define REPORT_SITES_DEFAULT 20u
#define REPORT_SITES_ALL     SIZE_MAX

struct report_options {
	enum analyze_order order; /* 0 = by peak */
	size_t sites;             /* how many are listed; the rest is summed */
};

struct report_summary {
	const char *saved_path; /* NULL = no file was kept */
	uint64_t saved_bytes;
};

struct error *report_json_print(struct analyze_model *model, const struct report_options *options,
				FILE *out) ERROR_MUST_CHECK;
struct error *report_text_print(struct analyze_model *model, const struct report_options *options,
				FILE *out) ERROR_MUST_CHECK;
struct error *report_summary_print(struct analyze_model *model,
				   const struct report_summary *options,
				   FILE *out) ERROR_MUST_CHECK;

#endif
