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
#include "report/report.h"

/* Write the text out and forget it. */
struct error *report_flush(struct strbuf *text, FILE *out) ERROR_MUST_CHECK;

/* The width to keep to. */
size_t report_columns(const struct report_style *style);

enum report_colour { REPORT_HEADING, REPORT_FIGURE, REPORT_WARNING, REPORT_DIM };

/* Between the two, text has a colour, where the style has any. */
void report_colour_on(struct strbuf *out, const struct report_style *style,
		      enum report_colour colour);
void report_colour_off(struct strbuf *out, const struct report_style *style);
/* A word in a colour. */
void report_put_coloured(struct strbuf *out, const struct report_style *style,
			 enum report_colour colour, const char *text);

/* The JSON's words. */
const char *report_how_word(enum analyze_how how);
const char *report_end_word(enum analyze_end end);
/* "at the peak", "live", "allocations" …, to follow a figure of an order. */
const char *report_order_words(enum analyze_order order);

/* Arguments one after the other from *at = 0 on; NULL after the last. */
const char *report_next_argument(const struct analyze_text *argv, size_t *at, size_t *length);

/* A path's last part. */
struct analyze_text report_base_name(const struct analyze_text *path);

/* "1 thread", "2 threads": the count grouped in threes. */
void report_put_plural(struct strbuf *out, uint64_t count, const char *one, const char *many);
/* "1 block", "1.70 M blocks" */
void report_put_blocks(struct strbuf *out, uint64_t blocks);
/* "74.8 MiB", or for counts "200,000": the figure an order goes by. */
void report_put_figure(struct strbuf *out, uint64_t value, enum analyze_order order);
/* 94.3: part of whole in percent with one decimal ("0.0" of nothing). */
void report_put_percent(struct strbuf *out, uint64_t part, uint64_t whole);
/* The same, with the decimals that a small part needs: 94.3, 0.01, < 0.01. */
void report_put_small_percent(struct strbuf *out, uint64_t part, uint64_t whole);
/* One word as a shell takes it, safe for a terminal. */
void report_put_quoted(struct strbuf *out, const char *argument, size_t length);
/* As one would type it, quoted where a shell needs it; what is wider than columns loses its
 * program's directory, then its end to " ...". */
void report_put_command(struct strbuf *out, const struct analyze_process *process, size_t columns);
/* "cc1plus", cut where it is long */
void report_put_program_name(struct strbuf *out, const struct analyze_process *process);
/* "cc1plus, pid 4711" */
void report_put_program(struct strbuf *out, const struct analyze_process *process);
/* "exit 0", "killed by SIGSEGV" … */
void report_put_end(struct strbuf *out, const struct analyze_process *process);

/* "libjq.so.1"; "[anonymous]" for code in no file. */
void report_put_module(struct strbuf *out, const struct analyze_model *model, uint32_t module);
/* A function without its parameters, or "libjq.so.1+0x1d306". */
void report_put_name(struct strbuf *out, const struct analyze_model *model, uint32_t name);
/* The same cut to columns. */
void report_put_name_in(struct strbuf *out, const struct analyze_model *model, uint32_t name,
			size_t columns);
/* A frame of a stack: "jv_parse (src/jv_parse.c:12:3)", "jq_next (libjq.so.1+0x1d306)". */
void report_put_line(struct strbuf *out, const struct analyze_model *model, uint32_t place,
		     uint32_t line);
/* text's first columns, "..." at the end where it has more. */
void report_put_cut(struct strbuf *out, const struct strbuf *text, size_t columns);

/* Whether it tells of something that was not recorded; else it is of what the file keeps. */
bool report_is_loss(const struct analyze_loss *loss);
/* A sentence without its full stop. */
void report_put_loss(struct strbuf *out, const struct analyze_loss *loss);
/* Text broken at spaces into lines of columns, the first of which begins where out ends and
 * the others at indent. */
void report_put_wrapped(struct strbuf *out, const char *text, size_t indent, size_t columns);

#endif
