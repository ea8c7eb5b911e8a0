/* A histogram, as DTrace draws it. */
#ifndef MALLOGRAPH_REPORT_BARS_H
#define MALLOGRAPH_REPORT_BARS_H

#include "analyze/sizes.h"
#include "base/strbuf.h"
#include "report/report.h"

struct report_bars {
	const struct analyze_buckets *buckets;
	uint64_t total;
	bool is_linear;   /* the last bucket is open */
	bool bytes;       /* values are bytes */
	bool skips_empty; /* runs of empty buckets are "..." */
	const struct report_style *style;
};

/* heading stands in front of the first line, "" = nothing. */
void report_put_bars(struct strbuf *out, const char *heading, const struct report_bars *bars);

#endif
