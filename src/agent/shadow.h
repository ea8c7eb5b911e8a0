/*
 * The shadow: from the address of a live block to its word (layout.h, "shadow words").
 *
 * Two private levels of pointers lead to 4 KiB chunks in the ledger. A chunk pointer that
 * is set means the chunk is populated. The words need no atomic read-modify-write: the
 * allocator hands an address to one thread at a time, and a word is stored after the
 * real malloc returned and cleared before the real free is called.
 */
#ifndef MALLOGRAPH_AGENT_SHADOW_H
#define MALLOGRAPH_AGENT_SHADOW_H

#include "agent/core.h"

#define SHADOW_ADDRESS_BITS 47u
#define SHADOW_LEAF_SHIFT   28u /* a leaf of pointers serves 256 MiB */
#define SHADOW_CHUNK_BITS   9u  /* log2 of MGL_CHUNK_WORDS */

typedef _Atomic(_Atomic uint64_t *) shadow_chunk;

bool shadow_start(struct agent *a);

/* Where the pointer to the chunk of this address stands; NULL = nowhere yet. */
static AGENT_HOT shadow_chunk *shadow_slot(const struct thread *t, uintptr_t block)
{
	if (AGENT_UNLIKELY(block >> SHADOW_ADDRESS_BITS))
		return NULL;
	shadow_chunk *leaf = atomic_load_explicit(&t->shadow_top[block >> SHADOW_LEAF_SHIFT],
						  memory_order_acquire);

	if (AGENT_UNLIKELY(!leaf))
		return NULL;
	return &leaf[(block & ((1u << SHADOW_LEAF_SHIFT) - 1)) >>
		     (SHADOW_CHUNK_BITS + t->granule_shift)];
}

/* The word of the granule that holds this address; NULL = no chunk there. */
static AGENT_HOT _Atomic uint64_t *shadow_word(const struct thread *t, uintptr_t block)
{
	shadow_chunk *slot = shadow_slot(t, block);
	_Atomic uint64_t *chunk = slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;

	if (AGENT_UNLIKELY(!chunk))
		return NULL;
	return &chunk[(block >> t->granule_shift) & (MGL_CHUNK_WORDS - 1)];
}

/* Makes the chunk first; NULL = it cannot be. */
_Atomic uint64_t *shadow_word_make(struct thread *t, uintptr_t block);

/* Where the block starts in its granule, as its word has it. */
static AGENT_HOT uint64_t shadow_start_bits(const struct thread *t, uintptr_t block)
{
	return (uint64_t)(block & t->start_mask) << 33;
}

static AGENT_HOT bool shadow_starts_at(const struct thread *t, uint64_t word, uintptr_t block)
{
	return ((uint32_t)(word >> 33 ^ block) & t->start_mask) == 0;
}

static inline bool shadow_is_tag(uint64_t word)
{
	return (word & MGL_SHADOW_TAG) == MGL_SHADOW_TAG;
}

/* The rest of a large block's size, in the granules after its first. Taken, they are 0. */
uint64_t shadow_rest_take(struct thread *t, uintptr_t block, uint32_t size_class);
bool shadow_rest_store(struct thread *t, uintptr_t block, uint32_t size_class, uint64_t rest);

/* Makes pages ready for stores without further system calls. */
void shadow_prepare(struct thread *t, uint32_t pages);

#endif
