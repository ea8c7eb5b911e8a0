/* The head of a report: one process's totals for a person. */
#ifndef MALLOGRAPH_REPORT_HEAD_H
#define MALLOGRAPH_REPORT_HEAD_H

#include "analyze/model.h"
#include "base/strbuf.h"

/* The process a report is about: the root, or what it became by exec. NULL if nothing
 * was recorded. */
const struct analyze_process *report_main_process(const struct analyze_model *model);

/* Program line, end, PEAK, AT END, ALLOCATED, NOT SEEN. */
void report_put_head(struct strbuf *out, const struct analyze_process *process);

/* "3 more processes were recorded …"; nothing if there are none. */
void report_put_others(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_process *process);

#endif
