#include "agent/rows.h"

#include "agent/signals.h"

#define FIRST_ENTRIES 64u

static struct row_entry *entry_find(const struct row_index *index, uint64_t key)
{
	uint64_t at = row_hash(key);

	for (;; at++) {
		struct row_entry *entry = &index->entries[at & index->mask];

		if (entry->key == key || entry->key == 0)
			return entry;
	}
}

static bool index_double(struct thread *t)
{
	struct row_index *old = t->rows;
	struct row_index grown = {0};
	size_t entries = old ? (old->mask + 1) * 2 : FIRST_ENTRIES;
	size_t bytes = entries * sizeof(struct row_entry);

	if (bytes >= MGL_PAGE)
		grown.page_bytes = bytes;
	grown.entries = bytes >= MGL_PAGE ? private_pages(bytes) : private_alloc(bytes);
	if (!grown.entries)
		return false;
	grown.mask = entries - 1;
	if (!old) {
		t->rows = private_alloc(sizeof(*t->rows));
		if (!t->rows)
			return false;
		*t->rows = grown;
		return true;
	}
	for (uint64_t i = 0; i <= old->mask; i++) {
		if (old->entries[i].key == 0)
			continue;
		*entry_find(&grown, old->entries[i].key) = old->entries[i];
		grown.count++;
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

static AGENT_COLD struct mgl_row *row_make(struct thread *t, struct row_entry *entry, uint64_t key)
{
	uint32_t ref;
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
	/* The key last: a handler may leave this hook for good after any store. */
	entry->row = row;
	t->rows->count++;
	atomic_signal_fence(memory_order_release);
	entry->key = key;
	return row;
}

AGENT_COLD struct mgl_row *row_find_slow(struct thread *t, uint64_t key)
{
	if (!t->rows && !index_grow(t))
		return NULL;
	struct row_entry *entry = entry_find(t->rows, key);

	if (entry->key == key)
		return entry->row;
	if (t->rows->count >= t->rows->mask / 4 * 3) {
		if (!index_grow(t) && t->rows->count >= t->rows->mask)
			return NULL;
		entry = entry_find(t->rows, key);
	}
	return row_make(t, entry, key);
}
