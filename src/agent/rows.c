#include "agent/rows.h"

#include "agent/signals.h"

#define FIRST_ENTRIES 256u

static const uint64_t empty;
/* Never written: a row is entered after the index has grown. */
const struct row_index rows_none = {.entries = (uint64_t *)&empty};

_Static_assert(offsetof(struct mgl_row, node) == 0 && offsetof(struct mgl_row, size_class) == 4 &&
		       offsetof(struct mgl_row, api) == 5 && offsetof(struct mgl_row, heap) == 6,
	       "a row starts with its key");

/* Enters a row whose key is not there. */
static void enter(struct row_index *index, const struct mgl_row *row)
{
	uint64_t h = row_hash(row_key_of(row)), at = h >> 32;

	while (index->entries[at & index->mask])
		at++;
	index->count++;
	atomic_signal_fence(memory_order_release);
	index->entries[at & index->mask] =
		h >> ROW_ADDRESS_BITS << ROW_ADDRESS_BITS | (uint64_t)(uintptr_t)row;
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
		if (old->entries[i])
			enter(&grown, row_of_entry(old->entries[i]));
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
	hook_check_fork(t);
	uint32_t ref;

	if (t->rows->count * 3 >= t->rows->mask && !index_grow(t) &&
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
	enter(t->rows, row);
	return row;
}
