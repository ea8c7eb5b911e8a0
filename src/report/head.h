/* The head of a report: one process's totals for a person. */
#ifndef MALLOGRAPH_REPORT_HEAD_H
#define MALLOGRAPH_REPORT_HEAD_H

#include "analyze/model.h"
#include "analyze/timeline.h"
#include "base/strbuf.h"
#include "report/report.h"

/* Program line, end, PEAK, AT END, ALLOCATED, NOT SEEN. */
void report_put_head(struct strbuf *out, const struct analyze_process *process,
		     const struct report_style *style);

/* What a program maps besides, where it is what most of its memory is: a heap of its own. */
void report_put_mapped(struct strbuf *out, const struct analyze_process *process,
		       const struct analyze_timeline *timeline, const struct report_style *style);

/* "3 more were recorded …"; nothing if there are none. */
void report_put_others(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_process *process, const struct report_style *style);

#endif
