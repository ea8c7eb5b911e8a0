/* The table of sites, one a line. */
#ifndef MALLOGRAPH_REPORT_TABLE_H
#define MALLOGRAPH_REPORT_TABLE_H

#include "analyze/model.h"
#include "base/strbuf.h"

/* The first sites of a process in the model's order, at most count, and a line that sums
 * the others. Percentages are of the process's figure by the same order. */
void report_put_table(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_process *process, enum analyze_order order,
		      size_t count);

/* "74.8 MiB", or for counts "200,000": the figure an order goes by. */
void report_put_figure(struct strbuf *out, const struct analyze_counts *counts,
		       enum analyze_order order);
/* "at the peak", "live", "allocations" …, to follow the figure. */
const char *report_order_words(enum analyze_order order);

#endif
