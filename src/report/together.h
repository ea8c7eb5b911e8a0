/* A tree of processes told as one: its totals, and its programs. */
#ifndef MALLOGRAPH_REPORT_TOGETHER_H
#define MALLOGRAPH_REPORT_TOGETHER_H

#include "analyze/together.h"
#include "base/strbuf.h"
#include "report/report.h"

/* Program line of the main process, TREE PEAK, AT END, ALLOCATED, NOT SEEN. */
void report_put_tree_head(struct strbuf *out, const struct analyze_model *model,
			  const struct analyze_together *together,
			  const struct report_style *style);

/* Who they were: a line for each program that matters, one for all others. */
struct error *report_put_programs(struct strbuf *out, const struct analyze_model *model,
				  const struct analyze_together *together,
				  const struct report_style *style) ERROR_MUST_CHECK;

#endif
