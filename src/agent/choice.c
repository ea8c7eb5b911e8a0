#include "agent/choice.h"

#include <string.h>

static const char *lines; /* in the head: "f", "oPATTERN", "nPATTERN"; read where it asks */
static bool asks, stays;
static _Atomic uint32_t *left_out;

void choice_write(char page[MGL_CHOICE_BYTES], const char *text)
{
	size_t n = strlen(text);

	if (n < MGL_CHOICE_BYTES)
		memcpy(page, text, n + 1);
}

/* --- patterns -------------------------------------------------------------------- */

/* "[…]" at pattern, of which n bytes are left: how long it is, 0 = no such thing. */
static size_t set_matches(const char *pattern, size_t n, char c, bool *ret)
{
	size_t i = 1;
	bool negated = i < n && (pattern[i] == '!' || pattern[i] == '^'), found = false;

	i += negated;
	for (size_t first = i; i < n && (pattern[i] != ']' || i == first); i++) {
		unsigned char low = (unsigned char)pattern[i], high = low;

		if (i + 2 < n && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
			high = (unsigned char)pattern[i + 2];
			i += 2;
		}
		found |= (unsigned char)c >= low && (unsigned char)c <= high;
	}
	*ret = found != negated;
	return i < n ? i + 1 : 0;
}

/* One character of text against what stands at pattern; its length there, 0 = no match. */
static size_t one_matches(const char *pattern, size_t n, char c)
{
	size_t length;
	bool found;

	if (n == 0 || c == 0)
		return 0;
	if (*pattern == '?')
		return 1;
	if (*pattern == '[' && (length = set_matches(pattern, n, c, &found)) > 0)
		return found ? length : 0;
	if (*pattern == '\\' && n > 1)
		return pattern[1] == c ? 2 : 0;
	return *pattern == c;
}

/* Where a part fails, only the last star needs to take more. */
bool choice_matches(const char *pattern, size_t pattern_bytes, const char *text)
{
	const char *stop = pattern + pattern_bytes, *star = NULL, *held = NULL;
	size_t length;

	while (*text) {
		if (pattern < stop && *pattern == '*') {
			star = ++pattern;
			held = text;
		} else if ((length = one_matches(pattern, (size_t)(stop - pattern), *text)) > 0) {
			pattern += length;
			text++;
		} else if (star) {
			pattern = star;
			text = ++held;
		} else {
			return false;
		}
	}
	while (pattern < stop && *pattern == '*')
		pattern++;
	return pattern == stop;
}

/* --- the choice ------------------------------------------------------------------- */

static size_t line_bytes(size_t at)
{
	size_t n = at;

	while (n < MGL_CHOICE_BYTES && lines[n] && lines[n] != '\n')
		n++;
	return n - at;
}

/* The start of the line after the one at a place; MGL_CHOICE_BYTES = there is none. */
static size_t line_next(size_t at)
{
	at += line_bytes(at);
	return at + 1 < MGL_CHOICE_BYTES && lines[at] == '\n' ? at + 1 : MGL_CHOICE_BYTES;
}

void choice_read(const struct mgl_session *head)
{
	lines = (const char *)head + MGL_CONTROL_OFFSET + MGL_CHOICE_OFFSET;
	left_out = (_Atomic uint32_t *)&head->left_out;
	asks = false;
	stays = false;
	for (size_t at = 0; at < MGL_CHOICE_BYTES && lines[at]; at = line_next(at)) {
		stays |= lines[at] == MGL_CHOICE_NO_FOLLOW;
		asks |= lines[at] == MGL_CHOICE_ONLY || lines[at] == MGL_CHOICE_NOT;
	}
}

bool choice_asks(void) { return asks; }

bool choice_follows(void) { return !stays; }

void choice_left_out(int count)
{
	if (left_out)
		atomic_fetch_add_explicit(left_out, (uint32_t)count, memory_order_relaxed);
}

static bool names_match(const char *pattern, size_t n, const char *name)
{
	const char *slash = strrchr(name, '/');

	if (slash && !memchr(pattern, '/', n))
		name = slash + 1;
	return *name && choice_matches(pattern, n, name);
}

bool choice_admits(const char *file, const char *called)
{
	bool only = false, chosen = false;

	for (size_t at = 0; asks && at < MGL_CHOICE_BYTES && lines[at]; at = line_next(at)) {
		const char *pattern = &lines[at + 1];
		size_t n = line_bytes(at);

		if (n == 0 || (lines[at] != MGL_CHOICE_ONLY && lines[at] != MGL_CHOICE_NOT))
			continue;
		bool matches =
			names_match(pattern, n - 1, file) || names_match(pattern, n - 1, called);

		if (lines[at] == MGL_CHOICE_ONLY) {
			only = true;
			chosen |= matches;
		} else if (matches) {
			return false;
		}
	}
	return chosen || !only;
}
