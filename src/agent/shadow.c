#include "agent/shadow.h"

#include "agent/inherited.h"
#include "agent/signals.h"

#define TOP_ENTRIES ((size_t)1 << (SHADOW_ADDRESS_BITS - SHADOW_LEAF_SHIFT))
#define RUN_LARGEST 16u

bool shadow_start(struct agent *a)
{
	a->shadow_top = private_pages(TOP_ENTRIES * sizeof(*a->shadow_top));
	a->shadow_size = 1;
	return a->shadow_top != NULL;
}

static uint32_t chunk_shift(const struct agent *a) { return SHADOW_CHUNK_BITS + a->granule_shift; }

/* --- chunks -------------------------------------------------------------------- */

static bool run_take(struct thread *t, uint32_t pages)
{
	struct agent *a = t->agent;
	struct extent *e = atomic_load_explicit(&a->shadow, memory_order_acquire);

	if (a->inert)
		return false;
	for (;;) {
		uint32_t at = e ? atomic_fetch_add(&e->next_page, pages) : 0;

		if (e && at < e->pages) {
			if (pages > e->pages - at)
				pages = e->pages - at;
			t->shadow_page = (uint64_t *)(e->base + (size_t)at * MGL_PAGE);
			t->shadow_directory =
				(_Atomic uint64_t *)(e->base + MGL_SHADOW_DIRECTORY_OFFSET) +
				(at - e->units);
			if (!session_populate(t->shadow_page, (size_t)pages * MGL_PAGE))
				return false;
			t->shadow_pages = pages;
			return true;
		}
		if (e)
			atomic_store(&e->next_page, e->pages);
		uint32_t units = atomic_load(&a->shadow_size);
		struct extent *next = session_take_extent(a, MGL_EXTENT_SHADOW, units);

		if (!next)
			return false;
		if (units < MGL_MAX_EXTENT_UNITS)
			atomic_store(&a->shadow_size, units * 2);
		struct extent *expected = e; /* a lost race wastes the rest of this one */

		e = next;
		atomic_compare_exchange_strong(&a->shadow, &expected, next);
	}
}

void shadow_prepare(struct thread *t, uint32_t pages) { run_take(t, pages); }

static shadow_chunk *leaf_make(struct agent *a, uintptr_t block)
{
	size_t bytes = sizeof(shadow_chunk) << (SHADOW_LEAF_SHIFT - chunk_shift(a));
	shadow_chunk *leaf = private_pages(bytes);
	shadow_chunk *expected = NULL;

	if (!leaf)
		return NULL;
	if (atomic_compare_exchange_strong(&a->shadow_top[block >> SHADOW_LEAF_SHIFT], &expected,
					   leaf))
		return leaf;
	private_pages_free(leaf, bytes);
	return expected;
}

/* The directory entry stands before the pointer does, so no word is ever in a chunk that
 * readers do not know. */
static bool chunk_take(struct thread *t, uintptr_t block)
{
	struct agent *a = t->agent;

	if (block >> SHADOW_ADDRESS_BITS)
		return false;
	if (!atomic_load(&a->shadow_top[block >> SHADOW_LEAF_SHIFT]) && !leaf_make(a, block))
		return false;
	shadow_chunk *slot = shadow_slot(t, block);

	if (atomic_load(slot))
		return true;
	if (t->shadow_pages == 0) {
		t->shadow_run = t->shadow_run ? t->shadow_run * 2 : 1;
		if (t->shadow_run > RUN_LARGEST)
			t->shadow_run = RUN_LARGEST;
		if (!run_take(t, t->shadow_run))
			return false;
	}
	_Atomic uint64_t *expected = NULL;

	atomic_store(t->shadow_directory, block >> chunk_shift(a) << chunk_shift(a));
	if (!atomic_compare_exchange_strong(slot, &expected, (_Atomic uint64_t *)t->shadow_page)) {
		atomic_store(t->shadow_directory, 0);
		return true;
	}
	inherited_mark(block, chunk_shift(a));
	t->shadow_page += MGL_CHUNK_WORDS;
	t->shadow_directory++;
	t->shadow_pages--;
	return true;
}

static AGENT_COLD bool chunk_make(struct thread *t, uintptr_t block)
{
	hook_check_fork(t);
	struct signals signals = signals_hold();
	bool made = chunk_take(t, block);

	signals_release(&signals);
	return made;
}

AGENT_COLD _Atomic uint64_t *shadow_word_make(struct thread *t, uintptr_t block)
{
	return shadow_word(t, block) || chunk_make(t, block) ? shadow_word(t, block) : NULL;
}

/* --- large blocks -------------------------------------------------------------- */

AGENT_COLD uint64_t shadow_rest_take(struct thread *t, uintptr_t block, uint32_t size_class)
{
	uint64_t rest = 0;
	uintptr_t granule = (uintptr_t)1 << t->granule_shift;
	uint32_t shift = 0;

	for (uint64_t width = mgl_class_width(size_class) - 1; width && shift < 64;
	     width >>= MGL_SHADOW_LARGE_BITS, shift += MGL_SHADOW_LARGE_BITS) {
		_Atomic uint64_t *word = shadow_word(t, block += granule);
		uint64_t w = word ? LEDGER_GET(*word) : 0;

		if (!shadow_is_tag(w))
			break;
		rest |= (w & MGL_SHADOW_LARGE_MASK) << shift;
		LEDGER_SET(*word, 0);
	}
	return rest;
}

AGENT_COLD bool shadow_rest_store(struct thread *t, uintptr_t block, uint32_t size_class,
				  uint64_t rest)
{
	uintptr_t granule = (uintptr_t)1 << t->granule_shift;

	for (uint64_t width = mgl_class_width(size_class) - 1; width;
	     width >>= MGL_SHADOW_LARGE_BITS, rest >>= MGL_SHADOW_LARGE_BITS) {
		_Atomic uint64_t *word = shadow_word_make(t, block += granule);

		if (!word)
			return false;
		LEDGER_SET(*word, MGL_SHADOW_TAG | (rest & MGL_SHADOW_LARGE_MASK));
	}
	return true;
}
