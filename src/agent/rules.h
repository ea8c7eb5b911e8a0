/*
 * Unwind rules: what a row says, packed into a word, and the cache from code address to
 * rule that all threads share.
 *
 * A cache entry is 16 bytes: the rule, and a check that mixes rule, address and
 * generation. Both are written and read without order or lock; an entry torn between two
 * writers fails its check and is a miss. A flush is a new generation. An address has its place
 * in a cache line, or, where that is taken, another one there: so the table is well filled,
 * and little of the program's cache goes to it.
 *
 * The address a rule belongs to is the one looked up: a return address − 1, or the
 * instruction itself below a signal frame.
 */
#ifndef MALLOGRAPH_AGENT_RULES_H
#define MALLOGRAPH_AGENT_RULES_H

#include "agent/agent.h"
#include "agent/cfi.h"

/* kind (4 bits) | save (12) | where (28) | cfa (20, signed, in 8 bytes).
 * save is how far below the CFA rbp is saved, in 8 bytes; 0 = it is not. DEREF counts
 * from rbp + RULE_DEREF_ABOVE instead. where is mgl_node.where with RULE_HIDDEN and
 * RULE_AFTER_CALL. */
enum rule_kind {
	RULE_MISS = 0,
	RULE_SP,      /* CFA = rsp + cfa */
	RULE_BP,      /* CFA = rbp + cfa */
	RULE_DEREF,   /* CFA = *(rbp + cfa): a realigned frame */
	RULE_SIGNAL,  /* the kernel's signal frame lies at rsp */
	RULE_END,     /* outermost frame */
	RULE_FULL,    /* needs the full row */
	RULE_NO_CFI,  /* try the frame pointer */
	RULE_NO_CODE, /* not an address of code at all */
};

#define RULE_SAVE_SHIFT  4u
#define RULE_WHERE_SHIFT 16u
#define RULE_CFA_SHIFT   44u
#define RULE_WHERE_MASK  0xfffffffu
#define RULE_DEREF_ABOVE (2048 * 8)
#define RULE_HIDDEN      (1u << 27) /* the agent's own frame */
#define RULE_AFTER_CALL  (1u << 26) /* the address is a call instruction's last byte */
#define RULE_GOROUTINE   (1u << 25) /* the nop that Go's goexit starts with, to be returned to */

static inline enum rule_kind rule_kind(uint64_t rule) { return (enum rule_kind)(rule & 15); }
static inline uint32_t rule_where(uint64_t rule)
{
	return (uint32_t)(rule >> RULE_WHERE_SHIFT) & RULE_WHERE_MASK;
}
/* In 8 bytes, both. */
static inline int64_t rule_cfa(uint64_t rule) { return (int64_t)rule >> RULE_CFA_SHIFT; }
static inline uint64_t rule_save(uint64_t rule) { return rule >> RULE_SAVE_SHIFT & 0xfff; }

/* The rule of a row; RULE_FULL where no simple one says the same. machine is scratch. */
uint64_t rule_of_row(const struct cfi_row *row, uint64_t address, uint32_t where,
		     struct cfi_machine *machine);
static inline uint64_t rule_plain(enum rule_kind kind, uint32_t where)
{
	return (uint64_t)kind | (uint64_t)where << RULE_WHERE_SHIFT;
}

/* --- the cache -------------------------------------------------------------------- */

struct rule_entry {
	_Atomic uint64_t check;
	_Atomic uint64_t rule;
};

struct rule_table {
	uint64_t mask; /* entries − 1 */
	_Atomic uint32_t evicted;
	_Alignas(64) struct rule_entry entry[];
};

extern _Atomic(struct rule_table *) rule_table; /* NULL until rules_table() made it */
extern _Atomic uint32_t rule_generation;

#define RULE_MIX  UINT64_C(0x9e3779b97f4a7c15)
#define RULE_WAYS 4u /* entries of a cache line */

/* A table and a generation, ready for look-ups. */
struct rule_place {
	const struct rule_entry *entry;
	uint64_t mask; /* of an entry's offset in bytes */
	uint64_t stamp;
};

static inline struct rule_place rule_place(const struct rule_table *table, uint32_t generation)
{
	return (struct rule_place){table->entry, table->mask * sizeof(struct rule_entry),
				   (uint64_t)generation << 48};
}

/* A return address goes by itself, an exact address by the next one: the usual case costs
 * nothing on the way from one frame to the next. */
static inline uint64_t rule_find(struct rule_place place, uint64_t pc)
{
	uint64_t offset = pc * sizeof(struct rule_entry) & place.mask;

	for (uint64_t way = 0; way < RULE_WAYS; way++) {
		const struct rule_entry *e =
			(const void *)((const char *)place.entry + (offset ^ way * sizeof(*e)));
		uint64_t rule = atomic_load_explicit(&e->rule, memory_order_relaxed);
		uint64_t check = atomic_load_explicit(&e->check, memory_order_relaxed);

		if (AGENT_LIKELY(check == ((pc | place.stamp) ^ rule * RULE_MIX)))
			return rule;
	}
	return 0;
}

/* The rule of this return address is about to be looked for. */
static inline void rule_ahead(uint64_t pc)
{
	const struct rule_table *table = atomic_load_explicit(&rule_table, memory_order_relaxed);

	if (AGENT_LIKELY(table != NULL))
		__builtin_prefetch(&table->entry[pc & table->mask]);
}

/* The table, made at first; NULL = no memory, and nothing is cached. */
struct rule_table *rules_table(void);
void rules_store(uint64_t address, uint32_t generation, uint64_t rule);
/* No rule stored before is found again. */
void rules_flush(void);
/* A module came: rules of code in no module may be wrong now. */
void rules_flush_unknown(void);
/* In a child of fork: forget the parent's table. */
void rules_reset(void);

#endif
