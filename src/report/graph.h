/* What lived when, drawn. */
#ifndef MALLOGRAPH_REPORT_GRAPH_H
#define MALLOGRAPH_REPORT_GRAPH_H

#include "analyze/timeline.h"
#include "base/strbuf.h"
#include "report/report.h"

/* Whether enough was seen to draw. */
bool report_graph_tells(const struct analyze_timeline *timeline);
/* Nothing where it was not. peak_ns: when the peak was, or ANALYZE_UNKNOWN; whose: what it is a
 * graph of, where that must be said, or NULL. */
void report_put_graph(struct strbuf *out, const struct analyze_timeline *timeline, uint64_t peak_ns,
		      const char *whose, const struct report_style *style);

#endif
