/*
 * Anonymous memory of the agent. A process has one mapping, its arena, for what a small one
 * needs; what does not fit gets mappings of its own. Below lie pages that fork wipes, above
 * those it copies:
 *
 *     tables, bumped downwards | gates | their structs thread | the first region
 *
 * Structs are bumped from regions, which double in size. Nothing here waits: a thread that
 * loses a race for an arena or a region gives its own back.
 *
 * No huge pages (a sparse table would be charged 2 MiB a touch), and none in a core dump.
 */
#include <errno.h>
#include <sys/prctl.h>

#include "agent/core.h"
#include "agent/syscall.h"

#define ARENA_TABLES   ((size_t)(4096 + 640) << 10) /* the shadow's top level, and small ones */
#define REGION_FIRST   ((size_t)128 << 10)
#define REGION_LARGEST ((size_t)16 << 20)
#define CACHE_LINE     64u

struct region {
	size_t bytes; /* from here on */
	_Atomic size_t used;
};

/* At the start of what is copied, behind the structs thread. */
struct arena {
	struct region region;
	_Atomic size_t tables_used;
	_Atomic bool gates_taken;
};

static _Atomic(struct arena *) arena;
static _Atomic(struct region *) current;

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

/* So many bytes were refused; most who ask for as many are refused at once from then on, or a
 * program at its limit would make a call in vain for every allocation. */
static _Atomic size_t refused_bytes;
static _Atomic uint32_t refused_since;

static bool is_hopeless(size_t bytes)
{
	size_t refused = atomic_load_explicit(&refused_bytes, memory_order_relaxed);

	return refused && bytes >= refused && atomic_fetch_add(&refused_since, 1) % 1024 != 1023;
}

/* In a program that has all its memory locked from now on (mlockall), what is mapped is there whole
 * and counts towards RLIMIT_MEMLOCK, which is the program's. A locked mapping is one that
 * refuses to be emptied. */
static void pages_unlock(char *p, size_t bytes)
{
	if (sys_madvise(p, bytes, MADV_DONTNEED) != -EINVAL || sys_prctl(PR_GET_SECCOMP, 0) != 0)
		return;
	sys_munlock(p, bytes);
	sys_madvise(p, bytes, MADV_DONTNEED);
}

/* Both in whole pages. */
static char *pages_map(size_t wiped, size_t kept)
{
	bool first = atomic_load_explicit(&arena, memory_order_relaxed) == NULL;

	if (agent_frozen || is_hopeless(wiped + kept))
		return NULL;
	char *p = sys_mmap(NULL, wiped + kept, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sys_failed(p)) {
		atomic_store_explicit(&refused_bytes, wiped + kept, memory_order_relaxed);
		return NULL;
	}
	/* The arena is there before a program can ask for that. */
	if (!first)
		pages_unlock(p, wiped + kept);
	sys_madvise(p, wiped + kept, MADV_NOHUGEPAGE);
	sys_madvise(p, wiped + kept, MADV_DONTDUMP);
	if (wiped && sys_madvise(p, wiped, MADV_WIPEONFORK) != 0) {
		sys_munmap(p, wiped + kept);
		return NULL;
	}
	return p;
}

static void region_start(struct region *r, size_t bytes, size_t used)
{
	r->bytes = bytes;
	atomic_store_explicit(&r->used, round_up(used, 16), memory_order_relaxed);
}

/* --- the arena -------------------------------------------------------------------- */

static char *arena_gates(struct arena *a) { return (char *)a - 2 * GATE_DISTANCE; }

static struct arena *arena_get(void)
{
	struct arena *was = atomic_load_explicit(&arena, memory_order_acquire);

	if (AGENT_LIKELY(was != NULL))
		return was;
	size_t wiped = ARENA_TABLES + GATE_DISTANCE, kept = GATE_DISTANCE + REGION_FIRST;
	char *pages = pages_map(wiped, kept);

	if (!pages)
		return NULL;
	struct arena *a = (struct arena *)(pages + wiped + GATE_DISTANCE);

	region_start(&a->region, REGION_FIRST, sizeof(*a));
	if (atomic_compare_exchange_strong(&arena, &was, a))
		return a;
	sys_munmap(pages, wiped + kept);
	return was;
}

static void *table_take(size_t bytes)
{
	struct arena *a = arena_get();

	bytes = round_up(bytes, CACHE_LINE);
	if (!a || bytes > ARENA_TABLES - atomic_load(&a->tables_used))
		return NULL;
	size_t used = atomic_fetch_add(&a->tables_used, bytes) + bytes;

	return used <= ARENA_TABLES ? arena_gates(a) - used : NULL;
}

void *private_gates(void)
{
	struct arena *a = arena_get();

	return a && !atomic_exchange(&a->gates_taken, true)
		       ? arena_gates(a)
		       : pages_map(GATE_DISTANCE, GATE_DISTANCE);
}

/* --- structs ---------------------------------------------------------------------- */

/* The region after `old`, or the one that another thread has made; NULL = refused. */
static struct region *region_next(struct region *old, size_t need)
{
	size_t bytes = old ? old->bytes * 2 : REGION_FIRST;
	struct arena *a = old ? NULL : arena_get();
	struct region *r = a ? &a->region : NULL;

	if (bytes > REGION_LARGEST)
		bytes = REGION_LARGEST;
	while (bytes < need + sizeof(struct region))
		bytes *= 2;
	if (!r) {
		r = (struct region *)pages_map(0, bytes);
		if (!r)
			return NULL;
		region_start(r, bytes, sizeof(*r));
	}
	if (atomic_compare_exchange_strong(&current, &old, r))
		return r;
	if (!a)
		sys_munmap(r, bytes);
	return old;
}

void *private_alloc(size_t bytes)
{
	bytes = round_up(bytes, 16);
	if (bytes > REGION_LARGEST / 2)
		return NULL;
	struct region *r = atomic_load_explicit(&current, memory_order_acquire);

	for (;;) {
		if (r) {
			size_t at =
				atomic_fetch_add_explicit(&r->used, bytes, memory_order_relaxed);

			if (at <= r->bytes && bytes <= r->bytes - at)
				return (char *)r + at;
		}
		r = region_next(r, bytes);
		if (!r)
			return NULL;
	}
}

/* --- tables ----------------------------------------------------------------------- */

void *private_pages(size_t bytes)
{
	void *table = table_take(bytes);

	return table ? table : pages_map(round_up(bytes, MGL_PAGE), 0);
}

void *private_pages_kept(size_t bytes) { return pages_map(0, round_up(bytes, MGL_PAGE)); }

/* Tables share pages at their ends, and stay mapped: a child that a handler forked in the middle
 * of this may still return into another one's. */
void private_pages_free(void *pages, size_t bytes)
{
	uintptr_t from = round_up((uintptr_t)pages, MGL_PAGE);
	uintptr_t stop = ((uintptr_t)pages + bytes) & ~(uintptr_t)(MGL_PAGE - 1);

	if (pages && from < stop && !agent_frozen)
		sys_madvise((void *)from, stop - from, MADV_DONTNEED);
}

void private_reset(void)
{
	atomic_store(&arena, NULL);
	atomic_store(&current, NULL);
}
