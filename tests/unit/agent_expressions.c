#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frame_writer.h"

bool agent_frozen, agent_starting;

static struct cfi_machine machine;
static struct stack_map stacks;

static bool evaluate(const uint8_t *bytes, size_t count, struct cfi_value *ret)
{
	const struct cfi_value first = {.number = 100};

	machine.memory = &stacks;
	return cfi_evaluate(&machine, cfi_expression(guarded(bytes, count), count), &first, ret);
}
#define EVALUATE(ret, ...) \
	evaluate((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), ret)
#define assert_value(n, ...)                            \
	do {                                            \
		assert_true(EVALUATE(&v, __VA_ARGS__)); \
		assert_int_equal(v.form, CFI_NUMBER);   \
		assert_int_equal((int64_t)v.number, n); \
	} while (0)

static void test_expressions(void **state)
{
	struct cfi_value v;
	uint64_t word = 0x1122334455667788;
	uint8_t read[] = {0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0x06};
	uint8_t narrow[] = {0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0x94, 3};
	uint64_t at = (uint64_t)(uintptr_t)&word;

	(void)state;
	memset(&machine, 0, sizeof(machine));
	stack_reset(&stacks, true);
	assert_value(107, 0x37, 0x22); /* the value pushed first; lit7 plus */
	assert_value(93, 0x37, 0x1c);  /* minus */
	assert_value(-2, 0x09, 0xfe);  /* const1s */
	assert_value(0xfe, 0x08, 0xfe);
	assert_value(-2, 0x0b, 0xfe, 0xff);
	assert_value(-2, 0x0d, 0xfe, 0xff, 0xff, 0xff);
	assert_value(0xfffffffe, 0x0c, 0xfe, 0xff, 0xff, 0xff);
	assert_value(-2, 0x0f, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
	assert_value(300, 0x10, 0xac, 0x02);      /* constu */
	assert_value(-3, 0x11, 0x7d);             /* consts */
	assert_value(6, 0x32, 0x33, 0x1e);        /* mul */
	assert_value(-3, 0x09, 0xf9, 0x32, 0x1b); /* −7 div 2 */
	assert_value(1, 0x37, 0x33, 0x1d);        /* 7 mod 3 */
	assert_value(7, 0x09, 0xf9, 0x19);        /* abs */
	assert_value(-7, 0x37, 0x1f);             /* neg */
	assert_value(-8, 0x37, 0x20);             /* not */
	assert_value(2, 0x36, 0x33, 0x1a);        /* and */
	assert_value(7, 0x36, 0x33, 0x21);        /* or */
	assert_value(5, 0x36, 0x33, 0x27);        /* xor */
	assert_value(24, 0x33, 0x33, 0x24);       /* shl */
	assert_value(0, 0x33, 0x08, 64, 0x24);
	assert_value(1, 0x3c, 0x33, 0x25);        /* 12 shr 3 */
	assert_value(-1, 0x09, 0xf4, 0x34, 0x26); /* −12 shra 4 */
	assert_value(0x7fffffffffffffff, 0x09, 0xff, 0x31, 0x25);
	assert_value(15, 0x35, 0x23, 10);  /* plus_uconst */
	assert_value(1, 0x33, 0x33, 0x29); /* eq … ne */
	assert_value(1, 0x33, 0x32, 0x2a);
	assert_value(0, 0x33, 0x33, 0x2b);
	assert_value(1, 0x09, 0xff, 0x31, 0x2c);
	assert_value(0, 0x33, 0x32, 0x2d);
	assert_value(1, 0x33, 0x32, 0x2e);
	assert_value(6, 0x33, 0x12, 0x22);               /* dup plus */
	assert_value(5, 0x35, 0x36, 0x13);               /* drop */
	assert_value(5, 0x35, 0x36, 0x14);               /* over */
	assert_value(100, 0x35, 0x36, 0x15, 2);          /* pick */
	assert_value(1, 0x35, 0x36, 0x16, 0x1c);         /* swap: 6 − 5 */
	assert_value(-96, 0x31, 0x34, 0x17, 0x13, 0x1c); /* rot: 4 100 1; drop, minus */
	assert_value(3, 0x33, 0x2f, 1, 0, 0x39);         /* skip */
	assert_value(9, 0x33, 0x30, 0x28, 1, 0, 0x39);   /* bra on 0 does not */
	assert_value(3, 0x33, 0x31, 0x28, 1, 0, 0x39);
	memcpy(read + 1, &at, 8);
	assert_true(evaluate(read, sizeof(read), &v));
	assert_int_equal(v.number, word);
	memcpy(narrow + 1, &at, 8);
	assert_true(evaluate(narrow, sizeof(narrow), &v));
	assert_int_equal(v.number, word & 0xffffff);
}

static void test_expressions_on_registers(void **state)
{
	struct cfi_value v;

	(void)state;
	memset(&machine, 0, sizeof(machine));
	machine.reg[CFI_RSP] = 1000;
	machine.known = 1u << CFI_RSP;
	assert_value(1008, 0x77, 8);      /* breg7 */
	assert_value(1000, 0x57);         /* reg7 */
	assert_value(992, 0x92, 7, 0x78); /* bregx */
	assert_false(EVALUATE(&v, 0x76, 8));
	assert_int_equal(machine.needed, CFI_RBP);
	assert_false(EVALUATE(&v, 0x92, 40, 0)); /* a register there is not */
	assert_int_equal(machine.needed, CFI_REGISTERS);
	/* Symbols: a PLT entry's CFA before and after its push, and a realigned frame's. */
	machine.symbolic = true;
	machine.known = 1u << CFI_RIP;
	for (unsigned at = 0; at < 16; at++) {
		machine.reg[CFI_RIP] = 0x401230 + at;
		assert_true(
			EVALUATE(&v, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22));
		assert_int_equal(v.form, CFI_REG_PLUS);
		assert_int_equal(v.reg, CFI_RSP);
		assert_int_equal(v.number, at >= 11 ? 16 : 8);
	}
	assert_true(EVALUATE(&v, 0x76, 0x70, 0x06));
	assert_int_equal(v.form, CFI_MEMORY_PLUS);
	assert_int_equal(v.reg, CFI_RBP);
	assert_int_equal(v.inner, -16);
	assert_int_equal(v.number, 0);
	assert_true(EVALUATE(&v, 0x76, 0x70, 0x06, 0x23, 8));
	assert_int_equal(v.number, 8);
	assert_false(EVALUATE(&v, 0x76, 0, 0x77, 0, 0x22)); /* rbp + rsp */
	assert_false(EVALUATE(&v, 0x76, 0, 0x06, 0x06));    /* twice through memory */
	assert_false(EVALUATE(&v, 0x76, 0, 0x28, 0, 0));    /* a branch on a symbol */
}

static void test_expressions_that_make_no_sense(void **state)
{
	struct cfi_value v;
	uint8_t pushes[CFI_STACK + 1];

	(void)state;
	memset(&machine, 0, sizeof(machine));
	memset(pushes, 0x31, sizeof(pushes));
	assert_true(evaluate(pushes, CFI_STACK - 1, &v));
	assert_false(evaluate(pushes, CFI_STACK, &v)); /* with the first: one too many */
	assert_false(EVALUATE(&v, 0x13));              /* nothing left */
	assert_false(EVALUATE(&v, 0x13, 0x13));
	assert_false(EVALUATE(&v, 0x22));
	assert_false(EVALUATE(&v, 0x17));
	assert_false(EVALUATE(&v, 0x15, 9));
	assert_false(EVALUATE(&v, 0x2f, 0xfd, 0xff)); /* skip −3: for ever */
	assert_false(EVALUATE(&v, 0x31, 0x2f, 0xfc, 0xff));
	assert_false(EVALUATE(&v, 0x2f, 0xf0, 0xff)); /* before the start */
	assert_false(EVALUATE(&v, 0x2f, 1, 0));       /* past the end */
	assert_false(EVALUATE(&v, 0x31, 0x30, 0x1b)); /* by zero */
	assert_false(EVALUATE(&v, 0x31, 0x30, 0x1d));
	assert_false(EVALUATE(&v, 0x31, 0x3f, 0x24, 0x08, 48, 0x24, 0x09, 0xff, 0x1b, 0x01));
	assert_false(EVALUATE(&v, 0x9c));       /* no such operation */
	assert_false(EVALUATE(&v, 0x0e, 1, 2)); /* cut short */
	assert_false(EVALUATE(&v, 0x38, 0x06)); /* memory that is not there */
	assert_false(EVALUATE(&v, 0x31, 0x94, 9));
	assert_false(EVALUATE(&v, 0x31, 0x94, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_expressions_on_registers),
		cmocka_unit_test(test_expressions_that_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
