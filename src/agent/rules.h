/*
 * Unwind rules: what a row says, packed into a word, and the cache from code address to
 * rule that all threads share.
 *
 * A cache entry is 16 bytes: the rule, and a check that mixes rule, address and
 * generation. Both are written and read without order or lock; an entry torn between two
 * writers fails its check and is a miss. A flush is a new generation.
 *
 * The address a rule belongs to is the one looked up: a return address − 1, or the
 * instruction itself below a signal frame.
 */
#ifndef MALLOGRAPH_AGENT_RULES_H
#define MALLOGRAPH_AGENT_RULES_H

#include "agent/agent.h"
#include "agent/cfi.h"

/* kind (4 bits) | cfa (20, signed, in 8 bytes) | save (12) | where (28).
 * save is where rbp is saved relative to the CFA (DEREF: to rbp), in 8 bytes and biased;
 * 0 = not saved. where is mgl_node.where with RULE_HIDDEN and RULE_AFTER_CALL. */
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

#define RULE_CFA_SHIFT   4u
#define RULE_SAVE_SHIFT  24u
#define RULE_WHERE_SHIFT 36u
#define RULE_SAVE_BIAS   2048
#define RULE_HIDDEN      (1u << 27) /* the agent's own frame */
#define RULE_AFTER_CALL  (1u << 26) /* the address is a call instruction's last byte */

static inline enum rule_kind rule_kind(uint64_t rule) { return (enum rule_kind)(rule & 15); }
static inline uint32_t rule_where(uint64_t rule) { return (uint32_t)(rule >> RULE_WHERE_SHIFT); }
/* Bytes. */
static inline uint64_t rule_cfa(uint64_t rule)
{
	return (uint64_t)((int64_t)(rule << 40) >> 44) * 8;
}
static inline bool rule_saves_bp(uint64_t rule) { return (rule >> RULE_SAVE_SHIFT & 0xfff) != 0; }
static inline uint64_t rule_save(uint64_t rule)
{
	return ((rule >> RULE_SAVE_SHIFT & 0xfff) - RULE_SAVE_BIAS) * 8;
}

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
	uint32_t bits; /* log2 of the entries */
	_Atomic uint32_t evicted;
	struct rule_entry entry[];
};

extern _Atomic(struct rule_table *) rule_table; /* NULL until rules_table() made it */
extern _Atomic uint32_t rule_generation;

#define RULE_MIX UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t rule_key(uint64_t address, uint32_t generation)
{
	return address | (uint64_t)generation << 48;
}

static inline uint64_t rule_find(struct rule_table *table, uint64_t key)
{
	uint64_t at = (key ^ key >> table->bits) & ((UINT64_C(1) << table->bits) - 1);
	struct rule_entry *e = &table->entry[at];
	uint64_t rule = atomic_load_explicit(&e->rule, memory_order_relaxed);
	uint64_t check = atomic_load_explicit(&e->check, memory_order_relaxed);

	return check == (key ^ rule * RULE_MIX) ? rule : 0;
}

/* The table, made at first; NULL = no memory, and nothing is cached. */
struct rule_table *rules_table(void);
void rules_store(uint64_t key, uint64_t rule);
/* No rule stored before is found again. */
void rules_flush(void);
/* A module came: rules of code in no module may be wrong now. */
void rules_flush_unknown(void);
/* In a child of fork: forget the parent's table. */
void rules_reset(void);

#endif
