#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void strbuf_free(struct strbuf *buffer)
{
	free(buffer->text);
	*buffer = (struct strbuf)STRBUF_EMPTY;
}

void strbuf_clear(struct strbuf *buffer)
{
	buffer->length = 0;
	if (buffer->text)
		buffer->text[0] = '\0';
}

/* Room for count bytes and a NUL. */
static bool make_room(struct strbuf *buffer, size_t count)
{
	size_t wanted;

	if (buffer->failed)
		return false;
	if (__builtin_add_overflow(buffer->length, count, &wanted) || wanted >= SIZE_MAX / 2) {
		buffer->failed = true;
		return false;
	}
	if (wanted < buffer->capacity)
		return true;

	size_t capacity = buffer->capacity + buffer->capacity / 2 + 64;

	if (capacity <= wanted)
		capacity = wanted + 1;
	char *text = realloc(buffer->text, capacity);

	if (!text) {
		buffer->failed = true;
		return false;
	}
	buffer->text = text;
	buffer->capacity = capacity;
	return true;
}

void strbuf_append_bytes(struct strbuf *buffer, const void *bytes, size_t count)
{
	if (!make_room(buffer, count))
		return;
	if (count)
		memcpy(buffer->text + buffer->length, bytes, count);
	buffer->length += count;
	buffer->text[buffer->length] = '\0';
}

void strbuf_append(struct strbuf *buffer, const char *text)
{
	strbuf_append_bytes(buffer, text, strlen(text));
}

void strbuf_append_char(struct strbuf *buffer, char c) { strbuf_append_bytes(buffer, &c, 1); }

void strbuf_fill(struct strbuf *buffer, char c, size_t count)
{
	if (!make_room(buffer, count))
		return;
	memset(buffer->text + buffer->length, c, count);
	buffer->length += count;
	buffer->text[buffer->length] = '\0';
}

void strbuf_printf(struct strbuf *buffer, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int count = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (count < 0 || !make_room(buffer, (size_t)count)) {
		buffer->failed = true;
		return;
	}
	va_start(arguments, format);
	vsnprintf(buffer->text + buffer->length, (size_t)count + 1, format, arguments);
	va_end(arguments);
	buffer->length += (size_t)count;
}

/* Bytes of the UTF-8 sequence at p (shortest form, no surrogates, up to U+10FFFF) and
 * its character; 0 = not UTF-8. */
static size_t utf8_decode(const uint8_t *p, size_t left, uint32_t *ret)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length;
	uint32_t c;

	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	if (p[0] >= 0xc2 && p[0] < 0xe0) {
		length = 2;
		c = p[0] & 0x1fu;
	} else if (p[0] >= 0xe0 && p[0] < 0xf0) {
		length = 3;
		c = p[0] & 0x0fu;
	} else if (p[0] >= 0xf0 && p[0] < 0xf5) {
		length = 4;
		c = p[0] & 0x07u;
	} else {
		return 0;
	}
	if (length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0u) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return length;
}

size_t strbuf_utf8_length(const void *bytes, size_t left)
{
	uint32_t c;

	return left ? utf8_decode(bytes, left, &c) : 0;
}

void strbuf_json_string(struct strbuf *buffer, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	strbuf_append_char(buffer, '"');
	for (size_t i = 0; i < count;) {
		uint32_t c;
		size_t length = utf8_decode(p + i, count - i, &c);

		if (length == 0) {
			strbuf_printf(buffer, "\\\\x%02x", p[i]);
			length = 1;
		} else if (c == '"' || c == '\\') {
			strbuf_printf(buffer, "\\%c", (int)c);
		} else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
			strbuf_printf(buffer, "\\u%04x", c);
		} else {
			strbuf_append_bytes(buffer, p + i, length);
		}
		i += length;
	}
	strbuf_append_char(buffer, '"');
}

static bool is_hostile(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

void strbuf_printable(struct strbuf *buffer, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < count;) {
		uint32_t c;
		size_t length = utf8_decode(p + i, count - i, &c);

		if (length && !is_hostile(c)) {
			strbuf_append_bytes(buffer, p + i, length);
			i += length;
			continue;
		}
		if (p[i] == '\n')
			strbuf_append(buffer, "\\n");
		else if (p[i] == '\t')
			strbuf_append(buffer, "\\t");
		else
			for (size_t j = 0; j < (length ? length : 1); j++)
				strbuf_printf(buffer, "\\x%02x", p[i + j]);
		i += length ? length : 1;
	}
}

/* The blocks that terminals draw two columns wide (East Asian Width W and F, emoji),
 * and combining marks that take none; coarse, since it only aligns a table. */
static size_t character_columns(uint32_t c)
{
	if ((c >= 0x0300 && c <= 0x036f) || (c >= 0x20d0 && c <= 0x20ff) ||
	    (c >= 0xfe00 && c <= 0xfe0f))
		return 0;
	if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf && c != 0x303f) ||
	    (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
	    (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
	    (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1f64f) ||
	    (c >= 0x1f900 && c <= 0x1f9ff) || (c >= 0x20000 && c <= 0x3fffd))
		return 2;
	return 1;
}

size_t strbuf_prefix(const char *text, size_t bytes, size_t columns)
{
	size_t i = 0;

	while (i < bytes) {
		uint32_t c;
		size_t length = utf8_decode((const uint8_t *)text + i, bytes - i, &c);
		size_t wide = length ? character_columns(c) : 1;

		if (wide > columns)
			break;
		columns -= wide;
		i += length ? length : 1;
	}
	return i;
}

size_t strbuf_columns(const char *text, size_t bytes)
{
	size_t columns = 0;

	for (size_t i = 0; i < bytes;) {
		uint32_t c;
		size_t length = utf8_decode((const uint8_t *)text + i, bytes - i, &c);

		columns += length ? character_columns(c) : 1;
		i += length ? length : 1;
	}
	return columns;
}

struct error *strbuf_result(const struct strbuf *buffer)
{
	return buffer->failed ? error_no_memory() : NULL;
}

char *strbuf_take(struct strbuf *buffer)
{
	strbuf_append_bytes(buffer, "", 0);
	if (buffer->failed) {
		strbuf_free(buffer);
		return NULL;
	}
	char *text = buffer->text;

	*buffer = (struct strbuf)STRBUF_EMPTY;
	return text;
}
