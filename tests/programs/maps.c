/*
 * maps OUT SEED: a random mix of mmap, munmap and mremap over a range of its own, of which
 * it keeps a map by pages, and says what must be counted: calls, bytes asked for, failures, pages
 * left and most pages at once.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tally.h"

enum { PAGE = 4096, PAGES = 400, ROUNDS = 4000 };

static char *base;
static bool pages[PAGES];
static uint64_t elsewhere; /* pages mapped where the kernel chose */
static uint64_t most;

static struct {
	uint64_t calls, failed, bytes;
} maps, unmaps, remaps;

static uint64_t mapped(void)
{
	uint64_t n = elsewhere;

	for (int i = 0; i < PAGES; i++)
		n += pages[i];
	return n;
}

static void set(uint64_t from, uint64_t n, bool to)
{
	for (uint64_t i = from; i < from + n && i < PAGES; i++)
		pages[i] = to;
	if (mapped() > most)
		most = mapped();
}

static void map_fixed(uint64_t at, uint64_t n, size_t less)
{
	void *p = mmap(base + at * PAGE, n * PAGE - less, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	maps.calls++;
	maps.bytes += n * PAGE - less;
	/* What was there goes first: the peak sees the difference. */
	for (uint64_t i = at; i < at + n; i++)
		pages[i] = false;
	set(at, n, true);
}

static void map_no_replace(uint64_t at)
{
	void *p = mmap(base + at * PAGE, PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != MAP_FAILED || errno != EEXIST)
		_exit(4);
	maps.failed++;
}

static void unmap(uint64_t at, uint64_t n)
{
	if (munmap(base + at * PAGE, n * PAGE) != 0)
		_exit(5);
	unmaps.calls++;
	unmaps.bytes += n * PAGE;
	set(at, n, false);
	/* Taken again at once: nobody else may come here. */
	if (mmap(base + at * PAGE, n * PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(6);
	maps.calls++;
	maps.bytes += n * PAGE;
	set(at, n, true);
}

static void move(uint64_t from, uint64_t n, uint64_t to, uint64_t m)
{
	void *p = mremap(base + from * PAGE, n * PAGE, m * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			 base + to * PAGE);

	if (p != base + to * PAGE)
		_exit(7);
	remaps.calls++;
	remaps.bytes += m * PAGE;
	for (uint64_t i = from; i < from + n; i++)
		pages[i] = false;
	for (uint64_t i = to; i < to + m; i++)
		pages[i] = false;
	set(to, m, true);
	map_fixed(from, n, 0);
}

static void grow_elsewhere(void)
{
	char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *q;

	if (p == MAP_FAILED)
		_exit(8);
	maps.calls++;
	maps.bytes += 3 * PAGE;
	elsewhere += 3;
	set(0, 0, false);
	q = mremap(p, 3 * PAGE, 9 * PAGE, MREMAP_MAYMOVE);
	if (q == MAP_FAILED)
		_exit(9);
	remaps.calls++;
	remaps.bytes += 9 * PAGE;
	elsewhere += 6;
	set(0, 0, false);
	if (mremap(q, 9 * PAGE, 2 * PAGE, 0) != q)
		_exit(10);
	remaps.calls++;
	remaps.bytes += 2 * PAGE;
	elsewhere -= 7;
	if (munmap(q, 2 * PAGE) != 0)
		_exit(11);
	unmaps.calls++;
	unmaps.bytes += 2 * PAGE;
	elsewhere -= 2;
}

static void fail(void)
{
	errno = 0;
	if (munmap(base + 1, PAGE) != -1 || errno != EINVAL)
		_exit(12);
	if (munmap(base, 0) != -1 || errno != EINVAL)
		_exit(13);
	if (mremap(base + 1, PAGE, PAGE, 0) != MAP_FAILED || errno != EINVAL)
		_exit(14);
	if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
	    errno != EINVAL)
		_exit(15);
	unmaps.failed += 2;
	remaps.failed++;
	maps.failed++;
}

static void say_kind(const char *name, uint64_t calls, uint64_t failed, uint64_t bytes)
{
	say_word(name);
	say_number((int64_t)calls);
	say_number((int64_t)failed);
	say_number((int64_t)bytes);
	say_end();
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? number_of(argv[2]) : 1;

	say_open(argv[1]);
	base = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (base == MAP_FAILED)
		return 2;
	maps.calls++;
	maps.bytes += PAGES * PAGE;
	set(0, PAGES, true);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t at = random_below(&seed, PAGES / 2 - 20);
		uint64_t n = 1 + random_below(&seed, 9), m = 1 + random_below(&seed, 9);

		switch (random_below(&seed, 6)) {
		case 0:
			map_fixed(at, n, random_below(&seed, PAGE));
			break;
		case 1:
			unmap(at, n);
			break;
		case 2:
			/* One piece with one protection: what mremap moves. */
			map_fixed(at, n, 0);
			move(at, n, PAGES / 2 + at, m);
			break;
		case 3:
			grow_elsewhere();
			break;
		case 4:
			map_no_replace(at);
			break;
		default:
			fail();
		}
	}
	if (munmap(base + PAGES / 4 * PAGE, PAGES / 2 * PAGE) != 0)
		return 16;
	unmaps.calls++;
	unmaps.bytes += PAGES / 2 * PAGE;
	set(PAGES / 4, PAGES / 2, false);
	say_process();
	say_kind("mmap", maps.calls, maps.failed, maps.bytes);
	say_kind("munmap", unmaps.calls, unmaps.failed, unmaps.bytes);
	say_kind("mremap", remaps.calls, remaps.failed, remaps.bytes);
	say_count("live_bytes", mapped() * PAGE);
	say_count("peak_bytes", most * PAGE);
	say_flush();
	_exit(0);
}
