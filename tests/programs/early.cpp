/*
 * A library that is initialised before the agent and ends after it, since programs link it: makes
 * blocks for whoever asks, counts them, and, as the very last, says its tally.
 * Its own come and go in constructors and destructors of all kinds.
 */
#include "early.h"

#include <atomic>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "tally.h"
}

namespace
{

std::atomic<uint64_t> allocations, frees, bytes_in, bytes_out;
void *by_first, *by_last;
const char *path;
void (*before_the_end)();

/* Static storage that is made before the constructors below and destroyed after the program's. */
struct own {
	void *block;

	own() : block(early_make(48)) {}
	~own() { early_free(block); }
} own;

} // namespace

void *early_make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(90);
	memcpy(p, &size, sizeof(size));
	allocations++;
	bytes_in += size;
	return p;
}

void early_free(void *p)
{
	size_t size;

	if (p == NULL)
		return;
	memcpy(&size, p, sizeof(size));
	frees++;
	bytes_out += size;
	free(p);
}

void early_say_to(const char *where) { path = where; }

void early_at_the_end(void (*function)()) { before_the_end = function; }

void early_say()
{
	struct tally t = {};

	t.allocations = allocations;
	t.frees = frees;
	t.allocated_bytes = bytes_in;
	t.live_blocks = allocations - frees;
	t.live_bytes = bytes_in - bytes_out;
	say_open(path);
	say_process();
	say_tally(&t);
	say_flush();
}

__attribute__((constructor(101))) static void construct_first()
{
	by_first = early_make(16);
	early_free(early_make(24));
}

__attribute__((constructor)) static void construct_last()
{
	by_last = early_make(32);
	early_free(by_first);
	by_first = early_make(40);
}

__attribute__((destructor)) static void destroy_first()
{
	early_free(by_last);
	by_last = early_make(56);
	if (before_the_end != NULL)
		before_the_end();
}

/* Those without a priority have run, and the agent's. */
__attribute__((destructor(101))) static void destroy_last()
{
	early_free(by_first);
	early_free(early_make(64));
	early_say();
}
