/*
 * Words and small pieces that several reports print. Nothing here fails but by memory,
 * which the strbuf remembers.
 */
#ifndef MALLOGRAPH_REPORT_WORDS_H
#define MALLOGRAPH_REPORT_WORDS_H

#include <stdio.h>
#include <string.h>

#include "analyze/model.h"
#include "base/strbuf.h"

#define REPORT_COLUMNS 80u

/* Write the text out and forget it. */
struct error *report_flush(struct strbuf *text, FILE *out) ERROR_MUST_CHECK;

/* The JSON's words. */
const char *report_how_word(enum analyze_how how);
const char *report_end_word(enum analyze_end end);

/* Arguments one after the other from *at = 0 on; NULL after the last. */
const char *report_next_argument(const struct analyze_text *argv, size_t *at, size_t *length);

/* A path's last part. */
struct analyze_text report_base_name(const struct analyze_text *path);

/* "1 thread", "2 threads": the count grouped in threes. */
void report_put_plural(struct strbuf *out, uint64_t count, const char *one, const char *many);
/* "1 block", "1.70 M blocks" */
void report_put_blocks(struct strbuf *out, uint64_t blocks);
/* 94.3: part of whole in percent with one decimal ("0.0" of nothing). */
void report_put_percent(struct strbuf *out, uint64_t part, uint64_t whole);
/* As one would type it, quoted where a shell needs it, cut to columns by " ...". */
void report_put_command(struct strbuf *out, const struct analyze_process *process, size_t columns);
/* "exit 0", "killed by SIGSEGV" … */
void report_put_end(struct strbuf *out, const struct analyze_process *process);
/* "libjq.so.1+0x1d306" */
void report_put_frame(struct strbuf *out, const struct analyze_model *model, uint32_t frame);
/* The frame outside of frame, without its module where that is the same. */
void report_put_caller(struct strbuf *out, const struct analyze_model *model, uint32_t frame);
/* A sentence without its full stop. */
void report_put_loss(struct strbuf *out, const struct analyze_loss *loss);
/* Text broken at spaces into lines of REPORT_COLUMNS, the first of which begins where out
 * ends and the others at indent. */
void report_put_wrapped(struct strbuf *out, const char *text, size_t indent);

#endif
