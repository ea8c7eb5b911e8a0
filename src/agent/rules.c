/*
 * Packing of rows into rules, and the rule cache: see rules.h.
 */
#include "agent/rules.h"

#define FIRST_ENTRIES   1024u /* 16 KiB */
#define LARGEST_ENTRIES 65536u
#define GROWTH          4u

_Atomic(struct rule_table *) rule_table;
_Atomic uint32_t rule_generation;
static _Atomic bool unknown_code; /* a rule of code in no module was stored */

/* --- rows ------------------------------------------------------------------------- */

static bool pack_cfa(uint64_t offset, uint64_t *rule)
{
	int64_t units = (int64_t)offset / 8;

	if (offset % 8 || units < -(1 << 19) || units >= 1 << 19)
		return false;
	*rule |= (uint64_t)units << RULE_CFA_SHIFT;
	return true;
}

/* below: from the saved register up to what the rule's kind counts from. */
static bool pack_save(uint64_t below, uint64_t *rule)
{
	if (below % 8 || below == 0 || below / 8 > 0xfff)
		return false;
	*rule |= below / 8 << RULE_SAVE_SHIFT;
	return true;
}

static bool evaluate(struct cfi_machine *m, uint64_t expression, uint64_t address,
		     struct cfi_value *ret)
{
	m->symbolic = true;
	m->known = 1u << CFI_RIP;
	m->reg[CFI_RIP] = address;
	return cfi_evaluate(m, expression, NULL, ret);
}

/* The CFA as register + number or *(register + inner). */
static bool simplify_cfa(const struct cfi_row *row, uint64_t address, struct cfi_machine *m,
			 struct cfi_value *ret)
{
	if (row->cfa_kind == CFI_REGISTER) {
		if (row->cfa >= CFI_REGISTERS)
			return false;
		*ret = (struct cfi_value){.number = (uint64_t)row->cfa_offset,
					  .form = CFI_REG_PLUS,
					  .reg = (uint8_t)row->cfa};
		return true;
	}
	return evaluate(m, row->cfa, address, ret);
}

/* Kind and CFA into *rule. */
static bool pack_base(const struct cfi_value *cfa, uint64_t *rule)
{
	if (cfa->form == CFI_REG_PLUS && (cfa->reg == CFI_RSP || cfa->reg == CFI_RBP)) {
		*rule |= cfa->reg == CFI_RSP ? RULE_SP : RULE_BP;
		return pack_cfa(cfa->number, rule);
	}
	if (cfa->form == CFI_MEMORY_PLUS && cfa->reg == CFI_RBP && cfa->number == 0) {
		*rule |= RULE_DEREF;
		return pack_cfa((uint64_t)(int64_t)cfa->inner, rule);
	}
	return false;
}

/* Where rbp is saved, relative to what the rule's kind counts from. */
static bool pack_bp(const struct cfi_row *row, uint64_t address, const struct cfi_value *cfa,
		    struct cfi_machine *m, uint64_t *rule)
{
	struct cfi_value at;

	switch (row->kind[CFI_RBP]) {
	case CFI_UNSET:
	case CFI_SAME:
	case CFI_UNDEFINED:
		return true;
	case CFI_OFFSET:
		return cfa->form == CFI_REG_PLUS && pack_save(-row->value[CFI_RBP], rule);
	case CFI_EXPRESSION:
		if (!evaluate(m, row->value[CFI_RBP], address, &at) || at.form != CFI_REG_PLUS ||
		    at.reg != cfa->reg)
			return false;
		if (cfa->form == CFI_REG_PLUS)
			return pack_save(cfa->number - at.number, rule);
		return pack_save(RULE_DEREF_ABOVE - at.number, rule);
	default:
		return false;
	}
}

uint64_t rule_of_row(const struct cfi_row *row, uint64_t address, uint32_t where,
		     struct cfi_machine *machine)
{
	uint64_t rule = rule_plain(RULE_MISS, where);
	struct cfi_value cfa;

	if (row->kind[CFI_RIP] == CFI_UNDEFINED)
		return rule_plain(RULE_END, where);
	if (row->kind[CFI_RIP] == CFI_OFFSET && row->value[CFI_RIP] == (uint64_t)-8 &&
	    row->kind[CFI_RSP] == CFI_UNSET && simplify_cfa(row, address, machine, &cfa) &&
	    pack_base(&cfa, &rule) && pack_bp(row, address, &cfa, machine, &rule))
		return rule;
	return rule_plain(RULE_FULL, where);
}

/* --- the cache -------------------------------------------------------------------- */

static size_t table_bytes(uint64_t entries)
{
	return sizeof(struct rule_table) + entries * sizeof(struct rule_entry);
}

static struct rule_table *table_make(uint64_t entries)
{
	struct rule_table *table = private_pages(table_bytes(entries));

	if (table)
		table->mask = entries - 1;
	return table;
}

/* Enters a rule in its line; whether a good one had to go. pc: see rule_find(). */
static bool entry_store(struct rule_table *table, uint64_t pc, uint64_t stamp, uint64_t rule)
{
	struct rule_entry *own = &table->entry[pc & table->mask], *e = own;
	bool taken = true;

	for (uint64_t way = 0; way < RULE_WAYS && taken; way++) {
		e = &table->entry[(pc ^ way) & table->mask];
		uint64_t old = atomic_load_explicit(&e->rule, memory_order_relaxed);
		uint64_t key =
			atomic_load_explicit(&e->check, memory_order_relaxed) ^ old * RULE_MIX;

		taken = old && key != (pc | stamp) && (key ^ stamp) >> 48 == 0;
	}
	if (taken)
		e = own;
	atomic_store_explicit(&e->check, (pc | stamp) ^ rule * RULE_MIX, memory_order_relaxed);
	atomic_store_explicit(&e->rule, rule, memory_order_relaxed);
	return taken;
}

static void table_copy(struct rule_table *to, const struct rule_table *from, uint64_t stamp)
{
	for (uint64_t i = 0; i <= from->mask; i++) {
		uint64_t rule = atomic_load_explicit(&from->entry[i].rule, memory_order_relaxed);
		uint64_t key = atomic_load_explicit(&from->entry[i].check, memory_order_relaxed) ^
			       rule * RULE_MIX;

		/* Not one torn, which would be found here by an address that is not its own. */
		if (rule && (key ^ stamp) >> 48 == 0 && ((key ^ i) & from->mask) < RULE_WAYS)
			entry_store(to, key ^ stamp, stamp, rule);
	}
}

/* A loser of the race gives its table back. The old one stays: others may be in it. */
static struct rule_table *table_replace(struct rule_table *old, uint64_t entries, uint64_t stamp)
{
	struct rule_table *table = table_make(entries);

	if (!table)
		return old;
	if (old)
		table_copy(table, old, stamp);
	if (atomic_compare_exchange_strong(&rule_table, &old, table))
		return table;
	private_pages_free(table, table_bytes(entries));
	return old;
}

struct rule_table *rules_table(void)
{
	struct rule_table *table = atomic_load_explicit(&rule_table, memory_order_acquire);

	return AGENT_LIKELY(table) ? table : table_replace(NULL, FIRST_ENTRIES, 0);
}

void rules_store(uint64_t address, uint32_t generation, uint64_t rule)
{
	struct rule_table *table = rules_table();
	uint64_t stamp = (uint64_t)generation << 48;

	if (!table || generation != atomic_load(&rule_generation))
		return;
	if ((rule_where(rule) & MGL_NODE_MODULE_MASK) == 0)
		atomic_store_explicit(&unknown_code, true, memory_order_relaxed);
	if (entry_store(table, address + 1, stamp, rule) && table->mask < LARGEST_ENTRIES - 1 &&
	    atomic_fetch_add_explicit(&table->evicted, 1, memory_order_relaxed) == table->mask / 4)
		table_replace(table, (table->mask + 1) * GROWTH, stamp);
}

void rules_flush(void)
{
	uint32_t generation = atomic_fetch_add(&rule_generation, 1) + 1;
	struct rule_table *table = atomic_load(&rule_table);

	atomic_store(&unknown_code, false);
	if (table)
		atomic_store(&table->evicted, 0);
	/* Keys carry 16 bits of it: before they come round again, nothing old may be left. */
	if ((uint16_t)generation != 0 || !table)
		return;
	for (uint64_t i = 0; i <= table->mask; i++)
		atomic_store_explicit(&table->entry[i].rule, 0, memory_order_relaxed);
}

void rules_flush_unknown(void)
{
	if (atomic_load(&unknown_code))
		rules_flush();
}

void rules_reset(void) { atomic_store(&rule_table, NULL); }
