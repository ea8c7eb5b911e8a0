/*
 * Reading untrusted bytes in order: a cursor never leaves its bounds. The first read
 * that would marks it failed; from then on every read gives zeros, so that a parser
 * checks once at its end. Little-endian. Owns nothing; the bytes must outlive it, and
 * must not change meanwhile (copy what another process can still write).
 */
#ifndef MALLOGRAPH_BASE_CURSOR_H
#define MALLOGRAPH_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *start;
	size_t size;
	size_t at;
	bool failed;
};

static inline struct cursor cursor_over(const void *bytes, size_t size)
{
	return (struct cursor){.start = bytes, .size = size};
}

static inline size_t cursor_left(const struct cursor *c) { return c->size - c->at; }

/* The next count bytes, or NULL. */
static inline const void *cursor_bytes(struct cursor *c, size_t count)
{
	if (c->failed || count > c->size - c->at) {
		c->failed = true;
		return NULL;
	}
	const void *bytes = c->start + c->at;

	c->at += count;
	return bytes;
}

static inline void cursor_seek(struct cursor *c, size_t at)
{
	if (at > c->size)
		c->failed = true;
	else
		c->at = at;
}

static inline void cursor_skip(struct cursor *c, size_t count) { cursor_bytes(c, count); }

/* Copy the next count bytes into destination; zeros if they are not there. */
static inline bool cursor_copy(struct cursor *c, void *destination, size_t count)
{
	const void *bytes = cursor_bytes(c, count);

	if (bytes)
		memcpy(destination, bytes, count);
	else
		memset(destination, 0, count);
	return bytes != NULL;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	uint8_t value;

	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	uint16_t value;

	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	uint32_t value;

	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint64_t cursor_u64(struct cursor *c)
{
	uint64_t value;

	cursor_copy(c, &value, sizeof(value));
	return value;
}

/* A string up to its NUL, which is skipped; NULL if there is none in bounds. */
static inline const char *cursor_string(struct cursor *c, size_t *length)
{
	if (c->failed)
		return NULL;
	const uint8_t *text = c->start + c->at;
	const uint8_t *end = c->at < c->size ? memchr(text, 0, c->size - c->at) : NULL;

	if (!end) {
		c->failed = true;
		return NULL;
	}
	*length = (size_t)(end - text);
	c->at += *length + 1;
	return (const char *)text;
}

#endif
