#include "agent/mappings.h"

#include <stdatomic.h>

#define MAPPING_FREE UINT64_C(0)
#define MAPPING_BUSY UINT64_C(1)

/* How long to look at an entry another thread is changing: a few instructions of its. */
#define PATIENCE 200

static void raise_used(struct mapping_table table, uint32_t used)
{
	uint32_t was = atomic_load(table.used);

	while (was < used && !atomic_compare_exchange_weak(table.used, &was, used))
		;
}

bool mappings_add(struct mapping_table table, uint64_t start, uint64_t bytes)
{
	for (uint32_t i = 0; i < MGL_MAPPINGS; i++) {
		struct mgl_mapping *m = table.entries + i;
		uint64_t was = MAPPING_FREE;

		if (atomic_load_explicit(&m->start, memory_order_relaxed) != MAPPING_FREE ||
		    !atomic_compare_exchange_strong(&m->start, &was, MAPPING_BUSY))
			continue;
		raise_used(table, i + 1);
		atomic_store_explicit(&m->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&m->start, start, memory_order_release);
		return true;
	}
	return false;
}

/* Claims the entry if it overlaps the range; its start then, else MAPPING_FREE. */
static uint64_t claim(struct mgl_mapping *m, uint64_t start, uint64_t stop)
{
	for (int tries = 0; tries < PATIENCE; tries++) {
		uint64_t at = atomic_load_explicit(&m->start, memory_order_acquire);

		if (at == MAPPING_BUSY) {
			__builtin_ia32_pause();
			continue;
		}
		if (at == MAPPING_FREE || at >= stop || at + atomic_load(&m->bytes) <= start)
			return MAPPING_FREE;
		if (atomic_compare_exchange_strong(&m->start, &at, MAPPING_BUSY))
			return at;
	}
	return MAPPING_FREE;
}

static void remember(struct mappings_removed *ret, uint64_t start, uint64_t bytes)
{
	ret->bytes += bytes;
	if (ret->count == MAPPINGS_REMOVED) {
		ret->forgotten++;
		return;
	}
	ret->pieces[ret->count].start = start;
	ret->pieces[ret->count++].bytes = bytes;
}

void mappings_remove(struct mapping_table table, uint64_t start, uint64_t bytes,
		     struct mappings_removed *ret)
{
	uint64_t stop = start + bytes;
	uint32_t used = atomic_load(table.used);

	*ret = (struct mappings_removed){.count = 0};
	for (uint32_t i = 0; i < used && i < MGL_MAPPINGS; i++) {
		struct mgl_mapping *m = table.entries + i;
		uint64_t at = claim(m, start, stop), end, from, to;

		if (at == MAPPING_FREE)
			continue;
		end = at + atomic_load_explicit(&m->bytes, memory_order_relaxed);
		from = at > start ? at : start;
		to = end < stop ? end : stop;
		if (from >= to) { /* it changed before it was claimed */
			atomic_store_explicit(&m->start, at, memory_order_release);
			continue;
		}
		remember(ret, from, to - from);
		/* What is left below stays in the entry, else what is left above. */
		if (at < from) {
			atomic_store_explicit(&m->bytes, from - at, memory_order_relaxed);
			atomic_store_explicit(&m->start, at, memory_order_release);
			if (to < end && !mappings_add(table, to, end - to)) {
				ret->bytes += end - to;
				ret->lost++;
			}
		} else if (to < end) {
			atomic_store_explicit(&m->bytes, end - to, memory_order_relaxed);
			atomic_store_explicit(&m->start, to, memory_order_release);
		} else {
			atomic_store_explicit(&m->start, MAPPING_FREE, memory_order_release);
		}
	}
}
