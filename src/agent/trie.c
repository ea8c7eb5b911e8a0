/*
 * The call-stack trie's index: (parent, frame) → node. Nodes live in the ledger and are
 * constant; the index is private, open-addressed, and insert-only.
 *
 * Locality. A stack seen for the first time leaves its nodes one after the other, so what a
 * node leads to is most often the record after it, and is looked for there first. The table
 * is made of cache lines, and where a node's children stand follows from the place of its
 * record: stacks that share lines of records share lines of the table. Where that line is
 * full others follow from a hash.
 *
 * Growth: one thread copies the table into one four times as large while others go on
 * with the old one; what they enter there meanwhile can be missed by the copy. Such a
 * node is made again at its next use. Readers merge nodes of equal content, so a
 * duplicate costs 16 bytes and nothing else.
 */
#include "agent/core.h"
#include "agent/signals.h"

#define FIRST_SLOTS  1024u
#define LINE         8u /* slots */
#define LINE_PARENTS 4u /* whose children share one */
#define LINES        9u /* looked at */
#define TAG          UINT64_C(0xffffffff00000000)

/* NULL in what a handler forked in the middle of a hook, whose parent's units are gone. */
static inline const struct mgl_node *node_at(const struct thread *t, uint32_t ref)
{
	const uint8_t *unit = t->units[ref >> MGL_REF_UNIT_SHIFT];
	uint32_t place = ref & ((1u << MGL_REF_UNIT_SHIFT) - 1);

	return AGENT_LIKELY(unit != NULL) ? (const struct mgl_node *)unit + place : NULL;
}

/* A node's second word. */
static inline uint64_t tail_of(uint32_t parent, uint32_t where)
{
	return (uint64_t)where << 32 | parent;
}

static inline bool is_node(const struct mgl_node *node, uint64_t pc, uint64_t tail)
{
	return node && node->pc == pc && tail_of(node->parent, node->where) == tail;
}

static inline uint64_t hash(uint32_t parent, uint64_t pc)
{
	return (pc + parent * UINT64_C(0xbf58476d1ce4e5b9)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The first slot of the n-th line to look at. */
static inline uint64_t line_of(const struct trie_table *table, uint32_t parent, uint64_t h,
			       uint32_t n)
{
	uint64_t line = n == 0 ? parent / LINE_PARENTS : (h >> 32) + n;

	return line * LINE & table->mask;
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

static void slot_copy(struct trie_table *to, uint64_t slot, const struct mgl_node *node)
{
	uint64_t h = hash(node->parent, node->pc);

	for (uint32_t i = 0; i < LINES * LINE; i++) {
		uint64_t line = line_of(to, node->parent, h, i / LINE);
		_Atomic uint64_t *at = &to->slots[line + (h >> 29 ^ i) % LINE];

		if (atomic_load_explicit(at, memory_order_relaxed))
			continue;
		atomic_store_explicit(at, slot, memory_order_relaxed);
		to->count++;
		return;
	}
}

/* Copies what the old table's readers can still enter: see the top. */
static void table_copy(struct trie_table *to, struct trie_table *from, struct thread *t)
{
	for (uint64_t i = 0; i <= from->mask; i++) {
		uint64_t slot = atomic_load_explicit(&from->slots[i], memory_order_acquire);
		const struct mgl_node *node = slot ? node_at(t, (uint32_t)slot) : NULL;

		if (node)
			slot_copy(to, slot, node);
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
	hook_check_fork(t);
	uint32_t ref;
	struct mgl_node *node = record_alloc(t, sizeof(*node), &ref);

	if (!node)
		return 0;
	node->pc = pc;
	node->parent = parent;
	node->where = where;
	return ref;
}

/* The record after a node is this one? On the node's page, so that it is populated; what
 * lies there may be no node, or one that is being written, but then it has not all of this. */
static inline bool is_next(const struct thread *t, uint32_t parent, uint64_t pc, uint64_t tail)
{
	uint32_t next = parent + 1;

	return next % (MGL_PAGE / MGL_REF_BYTES) && is_node(node_at(t, next), pc, tail);
}

/* Enters the node `made` where an empty slot was. false: another was entered meanwhile. */
static bool slot_take(struct thread *t, struct trie_table *table, _Atomic uint64_t *slot,
		      uint64_t h, uint32_t made, uint64_t *found)
{
	if (!atomic_compare_exchange_strong(slot, found, (h & TAG) | made))
		return false;
	if (atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed) >= table->mask / 2)
		table_grow(t, table);
	return true;
}

static __attribute__((noinline)) uint32_t child_find(struct thread *t, uint32_t parent, uint64_t pc,
						     uint32_t where)
{
	struct trie_table *table = atomic_load_explicit(&t->agent->trie, memory_order_acquire);
	uint64_t h = hash(parent, pc), tail = tail_of(parent, where);
	uint32_t made = 0;

	for (uint32_t i = 0; i < LINES * LINE; i++) {
		uint64_t line = line_of(table, parent, h, i / LINE);
		_Atomic uint64_t *slot = &table->slots[line + (h >> 29 ^ i) % LINE];
		uint64_t found = atomic_load_explicit(slot, memory_order_acquire);

		if (found == 0) {
			if (!made)
				made = node_make(t, parent, pc, where);
			if (!made || slot_take(t, table, slot, h, made, &found))
				return made;
		}
		if (!((found ^ h) & TAG) && is_node(node_at(t, (uint32_t)found), pc, tail))
			return (uint32_t)found;
	}
	/* The table is crowded and could not grow: the node stands without an entry. */
	table_grow(t, table);
	return made ? made : node_make(t, parent, pc, where);
}

uint32_t trie_child(struct thread *t, uint32_t parent, uint64_t pc, uint32_t where)
{
	if (AGENT_LIKELY(is_next(t, parent, pc, tail_of(parent, where))))
		return parent + 1;
	return child_find(t, parent, pc, where);
}

void trie_ahead(const struct thread *t, uint32_t parent)
{
	const struct trie_table *table =
		atomic_load_explicit(&t->agent->trie, memory_order_relaxed);

	__builtin_prefetch(&table->slots[line_of(table, parent, 0, 0)]);
	__builtin_prefetch(node_at(t, parent + 1));
}
