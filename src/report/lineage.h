/* The list of processes, as a tree: one a line, many alike on one. */
#ifndef MALLOGRAPH_REPORT_LINEAGE_H
#define MALLOGRAPH_REPORT_LINEAGE_H

#include "analyze/model.h"
#include "base/strbuf.h"
#include "report/report.h"

struct report_lineage {
	size_t limit; /* lines; those with the largest peaks */
	bool has_ids; /* their ids in the profile, too */
	const struct report_style *style;
};

struct error *report_put_lineage(struct strbuf *out, const struct analyze_model *model,
				 const struct report_lineage *options) ERROR_MUST_CHECK;

#endif
