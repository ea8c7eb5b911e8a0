/* Whose symbols would tell more, and what to do: the summary's SYMBOLS. */
#ifndef MALLOGRAPH_REPORT_LACKS_H
#define MALLOGRAPH_REPORT_LACKS_H

#include "analyze/model.h"
#include "base/strbuf.h"
#include "report/report.h"

/* process: its place, or ANALYZE_ALL_PROCESSES. Nothing where nothing is lacking. */
struct error *report_put_lacks(struct strbuf *out, const struct analyze_model *model,
			       uint32_t process,
			       const struct report_summary *options) ERROR_MUST_CHECK;

#endif
