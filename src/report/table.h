/* The table of sites, merged by title, one a line. */
#ifndef MALLOGRAPH_REPORT_TABLE_H
#define MALLOGRAPH_REPORT_TABLE_H

#include "analyze/groups.h"
#include "base/strbuf.h"
#include "report/report.h"

struct report_table {
	const struct analyze_model *model;
	const struct analyze_counts *whole;  /* what percentages are of */
	const struct analyze_groups *groups; /* by order */
	enum analyze_order order;
	size_t rows;      /* at most; those that have nothing of the figure are not listed */
	bool sums_others; /* in a last line */
	const struct report_style *style;
};

void report_put_table(struct strbuf *out, const struct report_table *table);
/* "libjq.so.1+0x1d306 < jv_parser_next", each cut where both do not fit. */
void report_put_place(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_group *group, size_t columns);
/* How many groups it lists. */
size_t report_table_rows(const struct report_table *table);

#endif
