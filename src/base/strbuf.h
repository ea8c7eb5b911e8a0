/*
 * A growing string, and the escapes that make hostile bytes safe to print.
 *
 * Owner: whoever declares it; CLEANUP_STRBUF frees it. A failed allocation is
 * remembered: later appends do nothing and strbuf_result() (or strbuf_take()'s NULL)
 * tells, so that a writer checks once at its end. text is NUL-terminated once anything
 * was appended; length does not count that NUL.
 */
#ifndef MALLOGRAPH_BASE_STRBUF_H
#define MALLOGRAPH_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct strbuf {
	char *text;
	size_t length;
	size_t capacity;
	bool failed;
};

#define STRBUF_EMPTY              \
	{                         \
		NULL, 0, 0, false \
	}
#define CLEANUP_STRBUF CLEANUP(strbuf_free)

void strbuf_free(struct strbuf *buffer);
/* Forget the text, keep the memory. */
void strbuf_clear(struct strbuf *buffer);

void strbuf_append(struct strbuf *buffer, const char *text);
void strbuf_append_bytes(struct strbuf *buffer, const void *bytes, size_t count);
void strbuf_append_char(struct strbuf *buffer, char c);
void strbuf_fill(struct strbuf *buffer, char c, size_t count);
void strbuf_printf(struct strbuf *buffer, const char *format, ...) ERROR_PRINTF(2, 3);

/* Bytes of the UTF-8 sequence that text begins with; 0 = none, or it is not UTF-8. */
size_t strbuf_utf8_length(const void *bytes, size_t left);

/* A JSON string with its quotes. Bytes that are not UTF-8 stand as the four characters
 * \xNN; control characters as \u00NN. */
void strbuf_json_string(struct strbuf *buffer, const void *bytes, size_t count);

/* For a terminal: what could move the cursor, change colours or reorder text (control
 * characters, bidirectional overrides, bytes that are not UTF-8) stands as \n, \t, \xNN. */
void strbuf_printable(struct strbuf *buffer, const void *bytes, size_t count);

/* Columns that printable text takes on a terminal: its characters, wide ones twice. */
size_t strbuf_columns(const char *text, size_t bytes);
/* Bytes of text's longest prefix that takes at most columns. */
size_t strbuf_prefix(const char *text, size_t bytes, size_t columns);

struct error *strbuf_result(const struct strbuf *buffer) ERROR_MUST_CHECK;
/* The text, malloc'd ("" if nothing was appended), and an empty buffer; NULL = no memory. */
char *strbuf_take(struct strbuf *buffer);

#endif
