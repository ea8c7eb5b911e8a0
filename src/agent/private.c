/*
 * Anonymous memory of the agent: a bump allocator over regions that double in size, and
 * whole pages for tables. Nothing here waits: a thread that loses a race for a new region
 * gives its own back.
 *
 * Regions ask for no huge pages (a sparse table would be charged 2 MiB a touch) and stay
 * out of core dumps.
 */
#include "agent/core.h"
#include "agent/syscall.h"

#define REGION_FIRST   ((size_t)128 << 10)
#define REGION_LARGEST ((size_t)16 << 20)

struct region {
	size_t bytes;
	_Atomic size_t used;
};

static _Atomic(struct region *) current;

static void *pages_map(size_t bytes, bool wiped)
{
	if (agent_frozen)
		return NULL;
	void *p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sys_failed(p))
		return NULL;
	sys_madvise(p, bytes, MADV_NOHUGEPAGE);
	sys_madvise(p, bytes, MADV_DONTDUMP);
	if (wiped && sys_madvise(p, bytes, MADV_WIPEONFORK) != 0) {
		sys_munmap(p, bytes);
		return NULL;
	}
	return p;
}

static struct region *region_next(struct region *old, size_t need)
{
	size_t bytes = old ? old->bytes * 2 : REGION_FIRST;

	if (bytes > REGION_LARGEST)
		bytes = REGION_LARGEST;
	while (bytes < need + sizeof(struct region))
		bytes *= 2;
	struct region *r = pages_map(bytes, false);

	if (!r)
		return NULL;
	r->bytes = bytes;
	atomic_store_explicit(&r->used, (sizeof(*r) + 15) & ~(size_t)15, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&current, &old, r)) {
		sys_munmap(r, bytes);
		return old;
	}
	return r;
}

void *private_alloc(size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
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

static size_t whole_pages(size_t bytes) { return (bytes + MGL_PAGE - 1) & ~(size_t)(MGL_PAGE - 1); }

void *private_pages(size_t bytes) { return pages_map(whole_pages(bytes), true); }

void *private_pages_kept(size_t bytes) { return pages_map(whole_pages(bytes), false); }

void private_pages_free(void *pages, size_t bytes)
{
	if (pages && !agent_frozen)
		sys_munmap(pages, whole_pages(bytes));
}

void private_reset(void) { atomic_store(&current, NULL); }
