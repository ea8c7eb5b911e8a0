/* The head of a report: one process's totals for a person. */
#ifndef MALLOGRAPH_REPORT_HEAD_H
#define MALLOGRAPH_REPORT_HEAD_H

#include "analyze/model.h"
#include "analyze/timeline.h"
#include "base/strbuf.h"
#include "report/report.h"

/* Of the main process: program lines, PEAK, AT END, ALLOCATED, NOT SEEN. */
void report_put_head(struct strbuf *out, const struct analyze_model *model,
		     const struct report_style *style);

/* Its pieces, of which a head of several processes is made, too. Facts: pid, end and duration, of
 * the command that was typed, whatever it went on as; program lines: that command, and facts
 * below it; "PEAK   74.8 MiB  "; ALLOCATED; a line of NOT SEEN. */
#define REPORT_HEAD_INDENT  12u
#define REPORT_VALUE_INDENT 24u
void report_put_facts(struct strbuf *out, const struct analyze_model *model);
void report_put_program_lines(struct strbuf *out, const struct analyze_model *model,
			      const struct strbuf *facts, const struct report_style *style);
void report_put_size(struct strbuf *out, const struct report_style *style, const char *label,
		     uint64_t bytes);
void report_put_allocated(struct strbuf *out, const struct analyze_counts *counts, uint64_t failed,
			  const struct report_style *style);
void report_put_loss_line(struct strbuf *out, const struct strbuf *text, bool first,
			  const struct report_style *style);

/* A child of fork frees blocks that are its parent's: those are none. */
bool report_has_unknown_frees(const struct analyze_process *process);
bool report_is_complete(const struct analyze_process *process);
/* Children that were not to be recorded. */
uint64_t report_left_out(const struct analyze_process *process);
/* ", 3 still run"; nothing of none. */
void report_put_some(struct strbuf *out, uint64_t count, const char *one, const char *many);

/* What a program maps besides, where it is what most of its memory is: a heap of its own.
 * is_named: it is one of several. */
void report_put_mapped(struct strbuf *out, const struct analyze_process *process,
		       const struct analyze_timeline *timeline, bool is_named,
		       const struct report_style *style);

/* "3 more were recorded …"; nothing if there are none. */
void report_put_others(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_process *process, const struct report_style *style);

#endif
