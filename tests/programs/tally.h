/*
 * What the test programs keep and say: their own exact counts, which the profile must equal.
 *
 * Nothing here calls malloc, not even through the C library: counts stand in static
 * arrays and lines leave by write(2). A program says lines of words and numbers into the file
 * named by its first argument; a block of lines leaves in one write, so processes may
 * share the file. Sizes are bytes, as requested. Not thread-safe: one thread says.
 */
#ifndef TALLY_H
#define TALLY_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* A frame of its own in every stack, and the call in it no tail call. */
#define SITE         __attribute__((noinline, noclone, used))
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

/* The counting rules of the reports: a successful realloc is one free and one allocation. */
struct tally {
	uint64_t allocations;
	uint64_t frees;
	uint64_t failed;
	uint64_t allocated_bytes;
	uint64_t temporary;
	uint64_t moved;
	uint64_t live_blocks;
	uint64_t live_bytes;
	uint64_t peak_blocks;
	uint64_t peak_bytes;
};

static inline void tally_peak(struct tally *t)
{
	if (t->live_bytes > t->peak_bytes) {
		t->peak_bytes = t->live_bytes;
		t->peak_blocks = t->live_blocks;
	}
}

static inline void tally_in(struct tally *t, uint64_t size)
{
	t->allocations++;
	t->allocated_bytes += size;
	t->live_blocks++;
	t->live_bytes += size;
	tally_peak(t);
}

static inline void tally_out(struct tally *t, uint64_t size)
{
	t->frees++;
	t->live_blocks--;
	t->live_bytes -= size;
}

static struct {
	const char *path;
	int fd;
	size_t used;
	char text[1 << 19];
} said;

static inline void say_flush(void)
{
	for (size_t at = 0; at < said.used;) {
		ssize_t n = write(said.fd, said.text + at, said.used - at);

		if (n <= 0)
			_exit(99);
		at += (size_t)n;
	}
	said.used = 0;
}

static inline void say_open(const char *path)
{
	said.path = path;
	said.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (said.fd < 0)
		_exit(98);
}

static inline void say_word(const char *word)
{
	size_t n = strlen(word);

	if (said.used + n + 2 > sizeof(said.text))
		_exit(97);
	memcpy(said.text + said.used, word, n);
	said.used += n;
	said.text[said.used++] = ' ';
}

static inline void say_number(int64_t value)
{
	char digits[24];
	size_t at = sizeof(digits) - 1;
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + rest % 10);
	while ((rest /= 10) != 0);
	if (value < 0)
		digits[--at] = '-';
	say_word(digits + at);
}

static inline void say_end(void) { said.text[said.used - 1] = '\n'; }

static inline void say_count(const char *key, uint64_t value)
{
	say_word(key);
	say_number((int64_t)value);
	say_end();
}

/* A process's block of lines starts with this one. */
static inline void say_process(void) { say_count("process", (uint64_t)getpid()); }

static inline void say_tally(const struct tally *t)
{
	say_count("allocations", t->allocations);
	say_count("frees", t->frees);
	say_count("failed", t->failed);
	say_count("allocated_bytes", t->allocated_bytes);
	say_count("temporary", t->temporary);
	say_count("moved", t->moved);
	say_count("live_blocks", t->live_blocks);
	say_count("live_bytes", t->live_bytes);
	say_count("peak_blocks", t->peak_blocks);
	say_count("peak_bytes", t->peak_bytes);
}

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
	return random_next(state) % bound;
}

static inline uint64_t number_of(const char *text)
{
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

#endif
