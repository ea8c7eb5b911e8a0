#include "agent/rows.h"

#include "agent/signals.h"

#define FIRST_ENTRIES 256u

static uint32_t empty;
struct row_index rows_none = {.entries = &empty};

_Static_assert(offsetof(struct mgl_row, node) == 0 && offsetof(struct mgl_row, size_class) == 4 &&
		       offsetof(struct mgl_row, api) == 5 && offsetof(struct mgl_row, heap) == 6,
	       "a row starts with its key");

/* Enters a row whose key is not there. */
static void enter(struct row_index *index, uint32_t number, uint64_t key)
{
	uint64_t h = row_hash(key), at = h >> 32;

	while (index->entries[at & index->mask])
		at++;
	index->count++;
	atomic_signal_fence(memory_order_release);
	index->entries[at & index->mask] =
		(uint32_t)(h >> (32 + ROW_NUMBER_BITS)) << ROW_NUMBER_BITS | number;
}

static bool index_double(struct thread *t)
{
	struct row_index *old = t->rows;
	struct row_index grown = {0};
	size_t entries = old == &rows_none ? FIRST_ENTRIES : (old->mask + 1) * 2;
	size_t bytes = entries * sizeof(grown.entries[0]);

	if (bytes >= MGL_PAGE)
		grown.page_bytes = bytes;
	grown.entries = bytes >= MGL_PAGE ? private_pages(bytes) : private_alloc(bytes);
	if (!grown.entries)
		return false;
	grown.mask = entries - 1;
	if (old == &rows_none) {
		struct row_index *first = private_alloc(sizeof(*first));

		if (!first)
			return false;
		*first = grown;
		t->rows = first;
		return true;
	}
	for (uint64_t i = 0; i <= old->mask; i++) {
		uint32_t number = old->entries[i] & ((1u << ROW_NUMBER_BITS) - 1);
		const struct mgl_row *row = number ? row_numbered(t, number) : NULL;

		if (row)
			enter(&grown, number, row_key_of(row));
	}
	private_pages_free(old->page_bytes ? old->entries : NULL, old->page_bytes);
	*old = grown;
	return true;
}

static AGENT_COLD bool index_grow(struct thread *t)
{
	struct signals signals = signals_hold();
	bool grown = index_double(t);

	signals_release(&signals);
	return grown;
}

AGENT_COLD struct mgl_row *row_make(struct thread *t, uint64_t key)
{
	uint32_t ref;

	if (t->rows->count * 4 >= t->rows->mask && !index_grow(t) &&
	    t->rows->count >= t->rows->mask)
		return NULL;
	struct mgl_row *row = record_alloc_row(t, &ref);

	if (!row)
		return NULL;
	row->node = (uint32_t)key;
	row->size_class = (uint8_t)(key >> 32);
	row->api = (uint8_t)(key >> 40);
	row->slot = t->slot_ref;
	row->self = ref;
	row->next = LEDGER_GET(t->slot->rows);
	atomic_store_explicit(&t->slot->rows, ref, memory_order_release);
	/* The entry last: a handler may leave this hook for good after any store. */
	enter(t->rows, ref >> 3, key);
	return row;
}
