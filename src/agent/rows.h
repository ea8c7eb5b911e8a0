/*
 * A thread's rows: (node, function called, size class) → struct mgl_row. The rows are the
 * ledger's, chained from the slot; the index is the thread's own private memory, and small,
 * so that it stays in the cache where the rows do not: the key is the row's own first word.
 */
#ifndef MALLOGRAPH_AGENT_ROWS_H
#define MALLOGRAPH_AGENT_ROWS_H

#include "agent/core.h"

#define ROW_ADDRESS_BITS 47u

struct row_index {
	uint64_t mask;
	uint64_t *entries; /* the row's address | the hash's top bits above it; 0 = empty */
	uint64_t count;    /* at most a third of them, so that a search is one step */
	size_t page_bytes; /* of entries, where they have pages of their own */
};

/* As the first eight bytes of a row have it (little-endian, heap 0). */
static AGENT_HOT uint64_t row_key(uint32_t node, uint32_t size_class, uint32_t api)
{
	return (uint64_t)(api << 8 | size_class) << 32 | node;
}

static AGENT_HOT uint64_t row_key_of(const struct mgl_row *row)
{
	uint64_t key;

	__builtin_memcpy(&key, row, sizeof(key));
	return key;
}

static AGENT_HOT uint64_t row_hash(uint64_t key) { return key * UINT64_C(0x9e3779b97f4a7c15); }

static AGENT_HOT struct mgl_row *row_of_entry(uint64_t entry)
{
	return (struct mgl_row *)(uintptr_t)(entry & ((UINT64_C(1) << ROW_ADDRESS_BITS) - 1));
}

/* Where a thread begins: one empty entry. */
extern const struct row_index rows_none;

/* Makes it, if there is none. NULL = no room. */
struct mgl_row *row_make(struct thread *t, uint64_t key);

/* The row of this key; NULL = it is to be made. */
static AGENT_HOT struct mgl_row *row_look_up(const struct thread *t, uint64_t key)
{
	const struct row_index *index = t->rows;
	uint64_t h = row_hash(key);

	for (uint64_t at = h >> 32;; at++) {
		uint64_t entry = index->entries[at & index->mask];

		if (AGENT_LIKELY((entry ^ h) >> ROW_ADDRESS_BITS == 0)) {
			struct mgl_row *row = row_of_entry(entry);

			if (AGENT_LIKELY(row && row_key_of(row) == key))
				return row;
		}
		if (entry == 0)
			return NULL;
	}
}

/* A stack's row as its site remembers it, to spare a look into the index: which class and
 * function it is of stands above its address. */
#define ROW_SITE_SHIFT 48u

static AGENT_HOT struct mgl_row *row_of_site(const struct thread *t, struct unwind_site *site,
					     uint32_t size_class, uint32_t api)
{
	uint64_t what = api << 8 | size_class;

	for (uint32_t i = 0; i < 2; i++) {
		uint64_t known = site->row[i];

		if (AGENT_LIKELY(known >> ROW_SITE_SHIFT == what))
			return (struct mgl_row *)(uintptr_t)(known ^ what << ROW_SITE_SHIFT);
	}
	struct mgl_row *row = row_look_up(t, row_key(site->node, size_class, api));

	if (AGENT_LIKELY(row != NULL)) {
		site->row[1] = site->row[0];
		site->row[0] = (uint64_t)(uintptr_t)row | what << ROW_SITE_SHIFT;
	}
	return row;
}

/* This thread's row of (node, function called, class), made if new; NULL = no room. */
static inline struct mgl_row *row_find(struct thread *t, uint32_t node, uint32_t size_class,
				       uint32_t api)
{
	uint64_t key = row_key(node, size_class, api);
	struct mgl_row *row = row_look_up(t, key);

	return AGENT_LIKELY(row != NULL) ? row : row_make(t, key);
}

#endif
