/*
 * ways OUT: every way to a block in C, from a function named after it, twice: one block is
 * freed, one kept. Says `way FUNCTION_CALLED FUNCTION BYTES` a line, and `mapped BYTES`, what stays
 * mapped by mmap and its kin.
 */
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tally.h"

extern void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t at);

static void *volatile kept[16];

#define WAY(name, call)                          \
	SITE static void *by_##name(size_t size) \
	{                                        \
		void *p = call;                  \
		KEEP_FRAME();                    \
		return p;                        \
	}
WAY(malloc, malloc(size))
WAY(calloc, calloc(3, size / 3))
WAY(realloc, realloc(NULL, size))
WAY(reallocarray, reallocarray(NULL, 3, size / 3))
WAY(memalign, memalign(256, size))
WAY(aligned_alloc, aligned_alloc(64, size))
WAY(valloc, valloc(size))
WAY(pvalloc, pvalloc(size))

SITE static void *by_posix_memalign(size_t size)
{
	void *p = NULL;
	int error = posix_memalign(&p, 128, size);

	KEEP_FRAME();
	return error == 0 ? p : NULL;
}

static const struct {
	const char *name;
	const char *function;
	void *(*make)(size_t);
} ways[] = {
	{"malloc", "by_malloc", by_malloc},
	{"calloc", "by_calloc", by_calloc},
	{"realloc", "by_realloc", by_realloc},
	{"reallocarray", "by_reallocarray", by_reallocarray},
	{"memalign", "by_memalign", by_memalign},
	{"posix_memalign", "by_posix_memalign", by_posix_memalign},
	{"aligned_alloc", "by_aligned_alloc", by_aligned_alloc},
	{"valloc", "by_valloc", by_valloc},
	{"pvalloc", "by_pvalloc", by_pvalloc},
};

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* What stays: 3 MiB of a 4 MiB mapping, 2 MiB grown from 1, 5 MiB by mmap64. */
static uint64_t map_some(void)
{
	const size_t mib = 1 << 20;
	char *a = map(4 * mib), *b = map(mib);

	if (a == NULL || b == NULL || munmap(a + mib, mib) != 0)
		_exit(3);
	if (mremap(b, mib, 2 * mib, MREMAP_MAYMOVE) == MAP_FAILED)
		_exit(3);
	if (mmap64(NULL, 5 * mib, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		_exit(3);
	b = map(7 * mib);
	if (b == NULL || munmap(b, 7 * mib) != 0)
		_exit(3);
	return 10 * mib;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	say_open(argv[1]);
	say_process();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		size_t size = 192 * (i + 1);

		free(ways[i].make(size));
		kept[i] = ways[i].make(size);
		if (kept[i] == NULL)
			_exit(4);
		say_word("way");
		say_word(ways[i].name);
		say_word(ways[i].function);
		say_number((int64_t)size);
		say_end();
	}
	say_count("mapped", map_some());
	say_flush();
	return 0;
}
