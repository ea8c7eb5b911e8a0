/*
 * A thread's rows: (node, function called, size class) → struct mgl_row. The index is the
 * thread's own private memory; the rows are the ledger's, chained from the slot.
 */
#ifndef MALLOGRAPH_AGENT_ROWS_H
#define MALLOGRAPH_AGENT_ROWS_H

#include "agent/core.h"

struct row_entry {
	uint64_t key; /* 0 = empty */
	struct mgl_row *row;
};

struct row_index {
	uint64_t mask;
	struct row_entry *entries;
	uint64_t count;
	size_t page_bytes; /* of entries, where they have pages of their own */
};

static AGENT_HOT uint64_t row_key(uint32_t node, uint32_t size_class, uint32_t api)
{
	return (uint64_t)(api << 8 | size_class) << 32 | node;
}

static AGENT_HOT uint64_t row_hash(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key >> 32;
}

/* Not found at once: looked for further, or made. NULL = no room. */
struct mgl_row *row_find_slow(struct thread *t, uint64_t key);

/* This thread's row of (node, function called, class), made if new; NULL = no room. */
static AGENT_HOT struct mgl_row *row_find(struct thread *t, uint32_t node, uint32_t size_class,
					  uint32_t api)
{
	uint64_t key = row_key(node, size_class, api);
	const struct row_index *index = t->rows;

	if (AGENT_LIKELY(index != NULL)) {
		const struct row_entry *entry = &index->entries[row_hash(key) & index->mask];

		if (AGENT_LIKELY(entry->key == key))
			return entry->row;
	}
	return row_find_slow(t, key);
}

#endif
