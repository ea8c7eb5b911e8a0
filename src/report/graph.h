/* What lived when, drawn. */
#ifndef MALLOGRAPH_REPORT_GRAPH_H
#define MALLOGRAPH_REPORT_GRAPH_H

#include "analyze/timeline.h"
#include "base/strbuf.h"
#include "report/report.h"

/* Nothing where too little was seen to draw. */
void report_put_graph(struct strbuf *out, const struct analyze_timeline *timeline,
		      const struct analyze_process *process, const struct report_style *style);

#endif
