/* /tmp/perf-PID.map: a line for each piece of code, START SIZE NAME, numbers in hexadecimal. */
#include "symbols/jit.h"

#include <string.h>
#include <unistd.h>

#define CHUNK 65536u

/* The place after the number; NULL = there is none. */
static const char *read_hex(const char *at, const char *end, uint64_t *ret)
{
	const char *start;

	while (at < end && *at == ' ')
		at++;
	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	start = at;
	*ret = 0;
	for (; at < end && at - start < 17; at++) {
		static const char digits[] = "0123456789abcdefABCDEF";
		const char *digit = *at ? strchr(digits, *at) : NULL;

		if (!digit)
			break;
		*ret = *ret << 4 |
		       (uint64_t)(digit - digits > 15 ? digit - digits - 6 : digit - digits);
	}
	return at > start && at - start <= 16 && at < end && *at == ' ' ? at : NULL;
}

static struct error *take_line(struct symbols_jit *jit, const char *line, size_t length)
{
	const char *end = line + length;
	uint64_t start, size;
	const char *at = read_hex(line, end, &start);

	if (at)
		at = read_hex(at, end, &size);
	if (!at)
		return NULL;
	while (at < end && *at == ' ')
		at++;
	return symbols_jit_name(jit, start, size, at, (size_t)(end - at));
}

/* Of a line too long for it the beginning is taken. */
static struct error *take_lines(struct symbols_jit *jit, char *chunk, size_t *held, bool *skipping)
{
	char *line = chunk, *end;
	size_t left = *held;

	while ((end = memchr(line, '\n', left))) {
		if (!*skipping)
			TRY(take_line(jit, line, (size_t)(end - line)));
		*skipping = false;
		left -= (size_t)(end + 1 - line);
		line = end + 1;
	}
	if (left == CHUNK) {
		if (!*skipping)
			TRY(take_line(jit, line, left));
		*skipping = true;
		left = 0;
	}
	memmove(chunk, line, left);
	*held = left;
	return NULL;
}

struct error *symbols_jit_read_map(struct symbols_jit *jit, int fd)
{
	CLEANUP_FREE char *chunk = malloc(CHUNK);
	uint64_t left = SYMBOLS_JIT_BYTES;
	size_t held = 0;
	bool skipping = false;

	if (!chunk)
		return error_no_memory();
	symbols_jit_sort(jit);
	while (left > 0 && jit->work <= SYMBOLS_JIT_WORK) {
		ssize_t n = read(fd, chunk + held, CHUNK - held);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_create_system(errno, NULL, "cannot read a perf map");
		if (n == 0)
			break;
		left -= (uint64_t)n < left ? (uint64_t)n : left;
		held += (size_t)n;
		TRY(take_lines(jit, chunk, &held, &skipping));
	}
	/* A program that was killed leaves its last line unfinished. */
	return NULL;
}
