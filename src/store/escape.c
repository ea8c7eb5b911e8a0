#include <string.h>

#include "store/store.h"

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

static bool is_escape(const char *text, size_t left)
{
	return left >= 4 && text[0] == '\\' && text[1] == 'x' && is_hex(text[2]) && is_hex(text[3]);
}

/* Bytes from text on that stay as they are: at most one character; 0 = it is escaped. */
static size_t plain(const char *text, size_t left)
{
	if (*text == '\0' || is_escape(text, left))
		return 0;
	return strbuf_utf8_length(text, left);
}

bool store_escape_needed(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t count = plain(bytes + i, length - i);

		if (count == 0)
			return true;
		i += count;
	}
	return false;
}

void store_escape(struct strbuf *buffer, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t count = plain(bytes + i, length - i);

		if (count)
			strbuf_append_bytes(buffer, bytes + i, count);
		else
			strbuf_printf(buffer, "\\x%02x", (unsigned char)bytes[i]);
		i += count ? count : 1;
	}
}

static unsigned int digit(char c) { return (unsigned int)(c <= '9' ? c - '0' : c - 'a' + 10); }

size_t store_unescape(char *text, size_t length)
{
	size_t to = 0;

	for (size_t i = 0; i < length;) {
		if (is_escape(text + i, length - i)) {
			text[to++] = (char)(digit(text[i + 2]) << 4 | digit(text[i + 3]));
			i += 4;
		} else {
			text[to++] = text[i++];
		}
	}
	return to;
}
