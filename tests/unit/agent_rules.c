#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "agent/rules.h"

/* --- stand-ins for the agent's memory ---------------------------------------------------- */

bool agent_frozen, agent_starting;
static bool no_memory;

void *private_pages(size_t bytes)
{
	void *p = MAP_FAILED;

	if (!no_memory)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void private_pages_free(void *pages, size_t bytes) { munmap(pages, bytes); }

/* --- rows ------------------------------------------------------------------------------------ */

static struct cfi_machine machine;

static struct cfi_row usual(uint64_t reg, int64_t offset)
{
	struct cfi_row row = {.cfa_kind = CFI_REGISTER, .cfa = reg, .cfa_offset = offset};

	row.kind[CFI_RIP] = CFI_OFFSET;
	row.value[CFI_RIP] = (uint64_t)-8;
	return row;
}

static void save_bp(struct cfi_row *row, int64_t at)
{
	row->kind[CFI_RBP] = CFI_OFFSET;
	row->value[CFI_RBP] = (uint64_t)at;
}

static uint64_t rule_of(const struct cfi_row *row)
{
	return rule_of_row(row, 0x401000, 7 | RULE_HIDDEN, &machine);
}

static void assert_rule(const struct cfi_row *row, enum rule_kind kind, int64_t cfa, uint64_t save)
{
	uint64_t rule = rule_of(row);

	assert_int_equal(rule_kind(rule), kind);
	assert_int_equal(rule_where(rule), 7 | RULE_HIDDEN);
	if (kind > RULE_DEREF)
		return;
	assert_int_equal(rule_cfa(rule) * 8, cfa);
	assert_int_equal(rule_save(rule) * 8, save);
}

static void test_simple_rows(void **state)
{
	static const int64_t frames[] = {8, 16, 4096, ((1 << 19) - 1) * 8, -8, -(1 << 19) * 8};
	struct cfi_row row;

	(void)state;
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		row = usual(CFI_RSP, frames[i]);
		assert_rule(&row, RULE_SP, frames[i], 0);
		row = usual(CFI_RBP, frames[i]);
		save_bp(&row, -16);
		assert_rule(&row, RULE_BP, frames[i], 16);
	}
	row = usual(CFI_RSP, 64);
	save_bp(&row, -4095 * 8);
	assert_rule(&row, RULE_SP, 64, 4095 * 8);
	row.kind[CFI_RIP] = CFI_UNDEFINED;
	assert_rule(&row, RULE_END, 0, 0);
}

static void test_rows_with_expressions(void **state)
{
	static const uint8_t deref[] = {0x76, 0x70, 0x06}; /* *(rbp − 16) */
	static const uint8_t at_bp[] = {0x76, 0x00};
	static const uint8_t at_sp[] = {0x77, 0x10};
	struct cfi_row row = usual(0, 0);

	(void)state;
	row.cfa_kind = CFI_VAL_EXPRESSION;
	row.cfa = cfi_expression(deref, sizeof(deref));
	row.kind[CFI_RBP] = CFI_EXPRESSION;
	row.value[CFI_RBP] = cfi_expression(at_bp, sizeof(at_bp));
	assert_rule(&row, RULE_DEREF, -16, RULE_DEREF_ABOVE);
	/* What is saved relative to rsp cannot be told from rbp. */
	row.value[CFI_RBP] = cfi_expression(at_sp, sizeof(at_sp));
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 48);
	row.kind[CFI_RBP] = CFI_EXPRESSION;
	row.value[CFI_RBP] = cfi_expression(at_sp, sizeof(at_sp));
	assert_rule(&row, RULE_SP, 48, 32);
}

static void test_rows_that_need_more(void **state)
{
	struct cfi_row row = usual(CFI_R12, 16);

	(void)state;
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 12);
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, (1 << 19) * 8);
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(40, 8);
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 16);
	row.value[CFI_RIP] = (uint64_t)-16;
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 16);
	row.kind[CFI_RSP] = CFI_VAL_OFFSET;
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 16);
	save_bp(&row, -4096 * 8);
	assert_rule(&row, RULE_FULL, 0, 0);
	save_bp(&row, 8);
	assert_rule(&row, RULE_FULL, 0, 0);
	save_bp(&row, -12);
	assert_rule(&row, RULE_FULL, 0, 0);
	row = usual(CFI_RSP, 16);
	row.kind[CFI_RBP] = CFI_REGISTER;
	assert_rule(&row, RULE_FULL, 0, 0);
}

/* --- the cache ------------------------------------------------------------------------------- */

static uint64_t look(uint64_t address)
{
	struct rule_table *table = rules_table();

	return table ? rule_find(rule_place(table, atomic_load(&rule_generation)), address + 1) : 0;
}

static void store(uint64_t address, uint64_t rule)
{
	rules_store(address, atomic_load(&rule_generation), rule);
}

/* A rule that tells which address it is of. */
static uint64_t mark(uint64_t address)
{
	return rule_plain(RULE_SP, 5) | address << RULE_CFA_SHIFT;
}

static void test_no_memory(void **state)
{
	(void)state;
	no_memory = true;
	assert_null(rules_table());
	store(0x1000, mark(0x1000));
	no_memory = false;
	assert_int_equal(look(0x1000), 0);
}

static void test_store_and_flush(void **state)
{
	uint64_t address = 0x7f1234567890;
	uint32_t before;

	(void)state;
	assert_int_equal(look(address), 0);
	store(address, mark(address));
	assert_int_equal(look(address), mark(address));
	assert_int_equal(look(address + 1), 0);
	assert_int_equal(look(address + (UINT64_C(1) << 20)), 0);
	before = atomic_load(&rule_generation);
	rules_flush();
	assert_int_equal(look(address), 0);
	/* Worked out before the flush, stored after it: dropped. */
	rules_store(address, before, mark(address));
	assert_int_equal(look(address), 0);
	/* Keys hold 16 bits of the generation; nothing old comes back with them. */
	store(address, mark(address));
	for (uint32_t i = 0; i < 65536; i++)
		rules_flush();
	assert_int_equal(look(address), 0);
}

static void test_rules_of_unknown_code(void **state)
{
	uint32_t before = atomic_load(&rule_generation);

	(void)state;
	rules_flush();
	store(0x1000, mark(0x1000));
	rules_flush_unknown();
	assert_int_equal(look(0x1000), mark(0x1000));
	store(0x2000, rule_plain(RULE_NO_CFI, 0));
	rules_flush_unknown();
	assert_int_equal(look(0x2000), 0);
	assert_int_equal(atomic_load(&rule_generation), before + 2);
}

static void test_growth(void **state)
{
	uint64_t mask = rules_table()->mask, found = 0;

	(void)state;
	for (int round = 0; round < 40; round++) {
		for (uint64_t i = 0; i < 20000; i++)
			store(0x400000 + i * 37, mark(i));
	}
	assert_true(rules_table()->mask > mask);
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t rule = look(0x400000 + i * 37);

		assert_true(rule == 0 || rule == mark(i));
		found += rule != 0;
	}
	assert_true(found > 16000);
}

#define APART (UINT64_C(1) << 24)

/* Addresses of one place: a line has room for some, and they stay when the table grows. */
static void test_lines(void **state)
{
	uint64_t mask = rules_table()->mask, apart = APART;

	(void)state;
	rules_flush();
	for (uint64_t i = 0; i < RULE_WAYS; i++)
		store(0x400000 + i * apart, mark(i));
	for (uint64_t i = 0; i < RULE_WAYS; i++)
		assert_int_equal(look(0x400000 + i * apart), mark(i));
	store(0x400000 + RULE_WAYS * apart, mark(RULE_WAYS));
	assert_int_equal(look(0x400000 + RULE_WAYS * apart), mark(RULE_WAYS));
	assert_int_equal(rules_table()->mask, mask);
}

static void test_growth_keeps(void **state)
{
	uint64_t mask = rules_table()->mask;

	(void)state;
	rules_flush();
	store(0x800000, mark(1));
	/* Other lines lose what they have, until the table grows. */
	for (uint64_t i = 0; rules_table()->mask == mask; i++)
		store(0x800100 + i % 64 + i / 64 % 16 * APART, mark(i));
	assert_int_equal(look(0x800000), mark(1));
}

#define PLACES 8u /* addresses that share a line of RULE_WAYS */

static _Atomic bool stop;
static _Atomic uint64_t wrong, right;

static uint64_t contended(uint64_t i) { return 0x400000 + i % PLACES * (UINT64_C(1) << 20); }

static void *hammer(void *seed)
{
	uint64_t x = (uint64_t)(uintptr_t)seed;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		uint64_t address = contended(x >> 33), rule = look(address);

		if (rule == 0)
			store(address, mark(address >> 20));
		else if (rule == mark(address >> 20))
			atomic_fetch_add_explicit(&right, 1, memory_order_relaxed);
		else
			atomic_fetch_add_explicit(&wrong, 1, memory_order_relaxed);
	}
	return NULL;
}

/* Writers of one entry from all sides: a torn one is a miss, never a rule. */
static void test_contention(void **state)
{
	pthread_t threads[4];

	(void)state;
	rules_flush(); /* another test's rule may stand for one of the addresses */
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)(i + 1));
	while (atomic_load(&right) < 2000000 && atomic_load(&wrong) == 0)
		sched_yield();
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simple_rows),
		cmocka_unit_test(test_rows_with_expressions),
		cmocka_unit_test(test_rows_that_need_more),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_store_and_flush),
		cmocka_unit_test(test_rules_of_unknown_code),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_growth_keeps),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_contention),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
