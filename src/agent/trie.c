/*
 * The call-stack trie's index: (parent, frame) → node. Nodes live in the ledger and are
 * constant; the index is private, open-addressed, and insert-only.
 *
 * Growth: one thread copies the table into one four times as large while others go on
 * with the old one; what they enter there meanwhile can be missed by the copy. Such a
 * node is made again at its next use. Readers merge nodes of equal content, so a
 * duplicate costs 16 bytes and nothing else.
 */
#include "agent/core.h"
#include "agent/signals.h"

#define FIRST_SLOTS 1024u
#define PROBES      64u

static uint64_t hash(uint32_t parent, uint64_t pc, uint32_t where)
{
	uint64_t h = (pc ^ ((uint64_t)parent << 32 | parent)) * UINT64_C(0x9e3779b97f4a7c15);

	h ^= h >> 29;
	h = (h + where) * UINT64_C(0xbf58476d1ce4e5b9);
	return h ^ h >> 32;
}

static struct trie_table *table_make(size_t slots)
{
	struct trie_table *table = private_alloc(sizeof(*table));

	if (!table)
		return NULL;
	table->slots = private_pages(slots * sizeof(table->slots[0]));
	table->mask = slots - 1;
	return table->slots ? table : NULL;
}

bool trie_start(struct agent *a)
{
	struct trie_table *table = table_make(FIRST_SLOTS);

	atomic_store_explicit(&a->trie, table, memory_order_release);
	return table != NULL;
}

/* Copies what the old table's readers can still enter: see the top. */
static void table_copy(struct trie_table *to, struct trie_table *from, struct thread *t)
{
	for (uint64_t i = 0; i <= from->mask; i++) {
		uint64_t slot = atomic_load_explicit(&from->slots[i], memory_order_acquire);
		const struct mgl_node *node = slot ? record_at(t, (uint32_t)slot) : NULL;

		if (!node)
			continue;
		uint64_t at = hash(node->parent, node->pc, node->where);

		while (to->slots[at & to->mask])
			at++;
		atomic_store_explicit(&to->slots[at & to->mask], slot, memory_order_relaxed);
		to->count++;
	}
}

static AGENT_COLD void table_grow(struct thread *t, struct trie_table *old)
{
	struct agent *a = t->agent;
	struct signals signals = signals_hold();

	if (!atomic_exchange(&a->trie_growing, true)) {
		if (atomic_load(&a->trie) == old) {
			struct trie_table *table = table_make((old->mask + 1) * 4);

			if (table) {
				table_copy(table, old, t);
				atomic_store_explicit(&a->trie, table, memory_order_release);
			}
		}
		atomic_store(&a->trie_growing, false);
	}
	signals_release(&signals);
}

static uint32_t node_make(struct thread *t, uint32_t parent, uint64_t pc, uint32_t where)
{
	uint32_t ref;
	struct mgl_node *node = record_alloc(t, sizeof(*node), &ref);

	if (!node)
		return 0;
	node->pc = pc;
	node->parent = parent;
	node->where = where;
	return ref;
}

uint32_t trie_child(struct thread *t, uint32_t parent, uint64_t pc, uint32_t where)
{
	struct trie_table *table = atomic_load_explicit(&t->agent->trie, memory_order_acquire);
	uint64_t h = hash(parent, pc, where);
	uint64_t tag = h & UINT64_C(0xffffffff00000000);
	uint32_t made = 0;

	for (uint32_t probe = 0; probe < PROBES; probe++) {
		_Atomic uint64_t *slot = &table->slots[(h + probe) & table->mask];
		uint64_t found = atomic_load_explicit(slot, memory_order_acquire);

		if (found == 0) {
			if (!made)
				made = node_make(t, parent, pc, where);
			if (!made)
				return 0;
			if (atomic_compare_exchange_strong(slot, &found, tag | made)) {
				uint32_t n = atomic_fetch_add_explicit(&table->count, 1,
								       memory_order_relaxed);

				if (n >= table->mask / 2)
					table_grow(t, table);
				return made;
			}
		}
		if ((found & UINT64_C(0xffffffff00000000)) != tag)
			continue;
		const struct mgl_node *node = record_at(t, (uint32_t)found);

		if (node && node->pc == pc && node->parent == parent && node->where == where)
			return (uint32_t)found;
	}
	/* The table is crowded and could not grow: the node stands without an entry. */
	table_grow(t, table);
	return made ? made : node_make(t, parent, pc, where);
}
