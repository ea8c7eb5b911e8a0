/*
 * The shadow: from the address of a live block to its word (layout.h, "shadow words").
 *
 * Two private levels of pointers lead to 4 KiB chunks in the ledger. A chunk pointer that
 * is set means the chunk is populated. The words need no atomic read-modify-write: the
 * allocator hands an address to one thread at a time, and a word is stored after the
 * real malloc returned and cleared before the real free is called.
 */
#include "agent/core.h"
#include "agent/signals.h"

#define ADDRESS_BITS 47u
#define LEAF_SHIFT   28u /* a leaf of pointers serves 256 MiB */
#define TOP_ENTRIES  ((size_t)1 << (ADDRESS_BITS - LEAF_SHIFT))
#define CHUNK_BITS   9u /* log2 of MGL_CHUNK_WORDS */
#define RUN_LARGEST  16u

typedef _Atomic(_Atomic uint64_t *) chunk_pointer;

bool shadow_start(struct agent *a)
{
	a->shadow_top = private_pages(TOP_ENTRIES * sizeof(*a->shadow_top));
	a->shadow_size = 1;
	return a->shadow_top != NULL;
}

static inline uint32_t chunk_shift(const struct agent *a) { return CHUNK_BITS + a->granule_shift; }

static inline chunk_pointer *chunk_slot(struct agent *a, uintptr_t block)
{
	if (AGENT_UNLIKELY(block >> ADDRESS_BITS))
		return NULL;
	chunk_pointer *leaf =
		atomic_load_explicit(&a->shadow_top[block >> LEAF_SHIFT], memory_order_acquire);

	if (AGENT_UNLIKELY(!leaf))
		return NULL;
	return &leaf[(block & ((UINT64_C(1) << LEAF_SHIFT) - 1)) >> chunk_shift(a)];
}

/* The word of the granule that holds this address; NULL = no chunk there. */
static inline _Atomic uint64_t *word_of(struct agent *a, uintptr_t block)
{
	chunk_pointer *slot = chunk_slot(a, block);
	_Atomic uint64_t *chunk = slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;

	if (AGENT_UNLIKELY(!chunk))
		return NULL;
	return &chunk[(block >> a->granule_shift) & (MGL_CHUNK_WORDS - 1)];
}

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
				(_Atomic uint64_t *)(e->base + MGL_SHADOW_DIRECTORY_OFFSET) + at;
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

static chunk_pointer *leaf_make(struct agent *a, uintptr_t block)
{
	size_t bytes = sizeof(chunk_pointer) << (LEAF_SHIFT - chunk_shift(a));
	chunk_pointer *leaf = private_pages(bytes);
	chunk_pointer *expected = NULL;

	if (!leaf)
		return NULL;
	if (atomic_compare_exchange_strong(&a->shadow_top[block >> LEAF_SHIFT], &expected, leaf))
		return leaf;
	private_pages_free(leaf, bytes);
	return expected;
}

/* The directory entry stands before the pointer does, so no word is ever in a chunk that
 * readers do not know. */
static bool chunk_take(struct thread *t, uintptr_t block)
{
	struct agent *a = t->agent;

	if (block >> ADDRESS_BITS)
		return false;
	if (!atomic_load(&a->shadow_top[block >> LEAF_SHIFT]) && !leaf_make(a, block))
		return false;
	chunk_pointer *slot = chunk_slot(a, block);

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
	t->shadow_page += MGL_CHUNK_WORDS;
	t->shadow_directory++;
	t->shadow_pages--;
	return true;
}

static AGENT_COLD bool chunk_make(struct thread *t, uintptr_t block)
{
	struct signals signals = signals_hold();
	bool made = chunk_take(t, block);

	signals_release(&signals);
	return made;
}

static inline _Atomic uint64_t *word_make(struct thread *t, uintptr_t block)
{
	_Atomic uint64_t *word = word_of(t->agent, block);

	if (AGENT_LIKELY(word != NULL))
		return word;
	return chunk_make(t, block) ? word_of(t->agent, block) : NULL;
}

/* --- blocks -------------------------------------------------------------------- */

static inline bool is_tag(uint64_t word) { return (word & MGL_SHADOW_TAG) == MGL_SHADOW_TAG; }

static bool is_large(const struct thread *t, uint64_t word, const struct mgl_row **row)
{
	*row = record_at(t, mgl_shadow_row(word));
	return *row && (*row)->size_class >= MGL_LARGE_CLASS;
}

/* The rest of a large block's size, in the granules after its first; they become 0. */
static uint64_t rest_take(struct thread *t, uintptr_t block, const struct mgl_row *row)
{
	uint64_t rest = 0;
	uintptr_t granule = (uintptr_t)1 << t->agent->granule_shift;
	uint32_t shift = 0;

	for (uint64_t width = mgl_class_width(row->size_class) - 1; width && shift < 64;
	     width >>= MGL_SHADOW_LARGE_BITS, shift += MGL_SHADOW_LARGE_BITS) {
		_Atomic uint64_t *word = word_of(t->agent, block += granule);
		uint64_t w = word ? LEDGER_GET(*word) : 0;

		if (!is_tag(w))
			break;
		rest |= (w & MGL_SHADOW_LARGE_MASK) << shift;
		LEDGER_SET(*word, 0);
	}
	return rest;
}

static bool rest_store(struct thread *t, uintptr_t block, const struct mgl_row *row, uint64_t rest)
{
	uintptr_t granule = (uintptr_t)1 << t->agent->granule_shift;

	for (uint64_t width = mgl_class_width(row->size_class) - 1; width;
	     width >>= MGL_SHADOW_LARGE_BITS, rest >>= MGL_SHADOW_LARGE_BITS) {
		_Atomic uint64_t *word = word_make(t, block += granule);

		if (!word)
			return false;
		LEDGER_SET(*word, MGL_SHADOW_TAG | (rest & MGL_SHADOW_LARGE_MASK));
	}
	return true;
}

bool shadow_store(struct thread *t, uintptr_t block, uint64_t word, uint64_t rest,
		  struct shadow_found *found)
{
	_Atomic uint64_t *at = word_make(t, block);
	const struct mgl_row *row;

	found->word = 0;
	if (AGENT_UNLIKELY(!at))
		return false;
	uint64_t old = LEDGER_GET(*at);

	if (AGENT_UNLIKELY(old && !is_tag(old))) {
		found->word = old;
		found->rest = mgl_shadow_rest(old);
		if (is_large(t, old, &row))
			found->rest = rest_take(t, block, row);
	}
	if (AGENT_UNLIKELY(is_large(t, word, &row)) && !rest_store(t, block, row, rest))
		return false;
	uint32_t mask = (1u << t->agent->granule_shift) - 1;

	LEDGER_SET(*at, word | (uint64_t)((block & mask) >> 3) << 36);
	return true;
}

uint64_t shadow_take(struct thread *t, uintptr_t block, uint64_t *rest)
{
	_Atomic uint64_t *at = word_of(t->agent, block);
	uint64_t word = AGENT_LIKELY(at != NULL) ? LEDGER_GET(*at) : 0;
	uint32_t mask = (1u << t->agent->granule_shift) - 1;
	const struct mgl_row *row;

	if (AGENT_UNLIKELY(word == 0 || is_tag(word) ||
			   mgl_shadow_start(word) != (block & mask) >> 3))
		return 0;
	LEDGER_SET(*at, 0);
	*rest = mgl_shadow_rest(word);
	if (AGENT_UNLIKELY(is_large(t, word, &row)))
		*rest = rest_take(t, block, row);
	return word;
}
