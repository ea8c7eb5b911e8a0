/*
 * The evaluator of DWARF expressions, over numbers and over symbols.
 *
 * With numbers it recovers registers of frames no simple rule covers. With symbols it
 * shows whether an expression is a simple rule in disguise: a PLT entry's is rsp + 8 or
 * rsp + 16 once rip is known, a realigned frame's is *(rbp − k).
 */
#include "agent/cfi.h"

#define STEPS 1024u

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2U = 0x0a,
	OP_CONST2S = 0x0b,
	OP_CONST4U = 0x0c,
	OP_CONST4S = 0x0d,
	OP_CONST8U = 0x0e,
	OP_CONST8S = 0x0f,
	OP_CONSTU = 0x10,
	OP_CONSTS = 0x11,
	OP_DUP = 0x12,
	OP_DROP = 0x13,
	OP_OVER = 0x14,
	OP_PICK = 0x15,
	OP_SWAP = 0x16,
	OP_ROT = 0x17,
	OP_ABS = 0x19,
	OP_AND = 0x1a,
	OP_DIV = 0x1b,
	OP_MINUS = 0x1c,
	OP_MOD = 0x1d,
	OP_MUL = 0x1e,
	OP_NEG = 0x1f,
	OP_NOT = 0x20,
	OP_OR = 0x21,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_SHRA = 0x26,
	OP_XOR = 0x27,
	OP_BRA = 0x28,
	OP_EQ = 0x29,
	OP_GE = 0x2a,
	OP_GT = 0x2b,
	OP_LE = 0x2c,
	OP_LT = 0x2d,
	OP_NE = 0x2e,
	OP_SKIP = 0x2f,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_REG0 = 0x50,
	OP_REG31 = 0x6f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_REGX = 0x90,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

struct evaluation {
	struct cfi_machine *m;
	struct cfi_cursor c;
	const uint8_t *start;
	uint32_t depth;
};

static bool push(struct evaluation *e, struct cfi_value v)
{
	if (e->depth == CFI_STACK)
		return false;
	e->m->stack[e->depth++] = v;
	return true;
}

static bool push_number(struct evaluation *e, uint64_t n)
{
	return push(e, (struct cfi_value){.number = n});
}

static struct cfi_value *top(struct evaluation *e, uint32_t below)
{
	return below < e->depth ? &e->m->stack[e->depth - 1 - below] : NULL;
}

static bool push_register(struct evaluation *e, uint64_t reg, uint64_t plus)
{
	struct cfi_machine *m = e->m;

	if (reg >= CFI_REGISTERS)
		return false;
	if (m->known & 1u << reg)
		return push_number(e, m->reg[reg] + plus);
	if (m->symbolic)
		return push(e, (struct cfi_value){
				       .number = plus, .form = CFI_REG_PLUS, .reg = (uint8_t)reg});
	m->needed = (uint8_t)reg;
	return false;
}

static bool dereference(struct evaluation *e, uint64_t bytes)
{
	struct cfi_value *v = top(e, 0);
	uint64_t word;

	if (!v || bytes == 0 || bytes > 8)
		return false;
	if (e->m->symbolic) {
		int64_t inner = (int64_t)v->number;

		if (v->form != CFI_REG_PLUS || bytes != 8 || inner != (int32_t)inner)
			return false;
		*v = (struct cfi_value){
			.form = CFI_MEMORY_PLUS, .reg = v->reg, .inner = (int32_t)inner};
		return true;
	}
	if (v->form != CFI_NUMBER || !stack_read(e->m->memory, v->number, &word))
		return false;
	if (bytes < 8)
		word &= (UINT64_C(1) << 8 * bytes) - 1;
	v->number = word;
	return true;
}

static bool compare(uint8_t op, int64_t a, int64_t b)
{
	switch (op) {
	case OP_EQ:
		return a == b;
	case OP_GE:
		return a >= b;
	case OP_GT:
		return a > b;
	case OP_LE:
		return a <= b;
	case OP_LT:
		return a < b;
	default:
		return a != b;
	}
}

/* Two numbers in, one out. */
static bool arithmetic(uint8_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
	switch (op) {
	case OP_AND:
		*ret = a & b;
		return true;
	case OP_OR:
		*ret = a | b;
		return true;
	case OP_XOR:
		*ret = a ^ b;
		return true;
	case OP_MUL:
		*ret = a * b;
		return true;
	case OP_DIV:
		if (b == 0 || ((int64_t)a == INT64_MIN && (int64_t)b == -1))
			return false;
		*ret = (uint64_t)((int64_t)a / (int64_t)b);
		return true;
	case OP_MOD:
		if (b == 0)
			return false;
		*ret = a % b;
		return true;
	case OP_SHL:
		*ret = b < 64 ? a << b : 0;
		return true;
	case OP_SHR:
		*ret = b < 64 ? a >> b : 0;
		return true;
	case OP_SHRA:
		b = b < 64 ? b : 63;
		*ret = (int64_t)a < 0 ? ~(~a >> b) : a >> b;
		return true;
	default:
		*ret = compare(op, (int64_t)a, (int64_t)b);
		return true;
	}
}

static bool binary(struct evaluation *e, uint8_t op)
{
	struct cfi_value *b = top(e, 0), *a = top(e, 1);

	if (!a || !b)
		return false;
	e->depth--;
	if (op == OP_PLUS && a->form == CFI_NUMBER) {
		uint64_t n = a->number;

		*a = *b;
		a->number += n;
		return true;
	}
	if (b->form != CFI_NUMBER)
		return false;
	if (op == OP_PLUS || op == OP_MINUS) {
		a->number += op == OP_PLUS ? b->number : -b->number;
		return true;
	}
	return a->form == CFI_NUMBER && arithmetic(op, a->number, b->number, &a->number);
}

static bool unary(struct evaluation *e, uint8_t op)
{
	struct cfi_value *v = top(e, 0);

	if (!v)
		return false;
	if (op == OP_PLUS_UCONST) {
		v->number += cfi_uleb(&e->c);
		return true;
	}
	if (v->form != CFI_NUMBER)
		return false;
	if (op == OP_NOT)
		v->number = ~v->number;
	else if (op == OP_NEG || (int64_t)v->number < 0)
		v->number = -v->number;
	return true;
}

static bool shuffle(struct evaluation *e, uint8_t op)
{
	struct cfi_value *a = top(e, 0), *b = top(e, 1), *c = top(e, 2);
	struct cfi_value v;

	switch (op) {
	case OP_DUP:
		return a && push(e, *a);
	case OP_DROP:
		if (!a)
			return false;
		e->depth--;
		return true;
	case OP_OVER:
		return b && push(e, *b);
	case OP_PICK:
		a = top(e, (uint32_t)cfi_fixed(&e->c, 1));
		return a && push(e, *a);
	case OP_SWAP:
		if (!b)
			return false;
		v = *a;
		*a = *b;
		*b = v;
		return true;
	default: /* OP_ROT: the top one goes third */
		if (!c)
			return false;
		v = *a;
		*a = *b;
		*b = *c;
		*c = v;
		return true;
	}
}

static bool branch(struct evaluation *e, uint8_t op)
{
	int64_t by = (int16_t)cfi_fixed(&e->c, 2);

	if (op == OP_BRA) {
		struct cfi_value *v = top(e, 0);

		if (!v || v->form != CFI_NUMBER)
			return false;
		e->depth--;
		if (v->number == 0)
			return true;
	}
	if (by < e->start - e->c.at || by > e->c.end - e->c.at)
		return false;
	e->c.at += by;
	return true;
}

static bool constant(struct evaluation *e, uint8_t op)
{
	unsigned bytes = 1u << ((op - OP_CONST1U) / 2);
	uint64_t n = cfi_fixed(&e->c, bytes);
	unsigned unused = 64 - 8 * bytes;

	if (op & 1) /* the signed ones */
		n = (uint64_t)((int64_t)(n << unused) >> unused);
	return push_number(e, n);
}

static bool push_leaf(struct evaluation *e, uint8_t op)
{
	uint64_t reg;

	if (op >= OP_LIT0 && op <= OP_LIT31)
		return push_number(e, op - OP_LIT0);
	if (op >= OP_REG0 && op <= OP_REG31)
		return push_register(e, op - OP_REG0, 0);
	if (op >= OP_BREG0 && op <= OP_BREG31)
		return push_register(e, op - OP_BREG0, (uint64_t)cfi_sleb(&e->c));
	switch (op) {
	case OP_ADDR:
		return push_number(e, cfi_fixed(&e->c, 8));
	case OP_CONSTU:
		return push_number(e, cfi_uleb(&e->c));
	case OP_CONSTS:
		return push_number(e, (uint64_t)cfi_sleb(&e->c));
	case OP_REGX:
		return push_register(e, cfi_uleb(&e->c), 0);
	case OP_BREGX:
		reg = cfi_uleb(&e->c);
		return push_register(e, reg, (uint64_t)cfi_sleb(&e->c));
	default:
		return false;
	}
}

static bool step(struct evaluation *e)
{
	uint8_t op = (uint8_t)cfi_fixed(&e->c, 1);

	if (op >= OP_CONST1U && op <= OP_CONST8S)
		return constant(e, op);
	switch (op) {
	case OP_DEREF:
		return dereference(e, 8);
	case OP_DEREF_SIZE:
		return dereference(e, cfi_fixed(&e->c, 1));
	case OP_DUP:
	case OP_DROP:
	case OP_OVER:
	case OP_PICK:
	case OP_SWAP:
	case OP_ROT:
		return shuffle(e, op);
	case OP_ABS:
	case OP_NEG:
	case OP_NOT:
	case OP_PLUS_UCONST:
		return unary(e, op);
	case OP_AND:
	case OP_DIV:
	case OP_MINUS:
	case OP_MOD:
	case OP_MUL:
	case OP_OR:
	case OP_PLUS:
	case OP_SHL:
	case OP_SHR:
	case OP_SHRA:
	case OP_XOR:
	case OP_EQ:
	case OP_GE:
	case OP_GT:
	case OP_LE:
	case OP_LT:
	case OP_NE:
		return binary(e, op);
	case OP_BRA:
	case OP_SKIP:
		return branch(e, op);
	case OP_NOP:
		return true;
	default:
		return push_leaf(e, op);
	}
}

bool cfi_evaluate(struct cfi_machine *m, uint64_t expression, const struct cfi_value *first,
		  struct cfi_value *ret)
{
	const uint8_t *at = cfi_expression_at(expression);
	struct evaluation e = {
		.m = m,
		.c = {at, at + cfi_expression_bytes(expression), false},
		.start = at,
	};

	m->needed = CFI_REGISTERS;
	if (first && !push(&e, *first))
		return false;
	for (uint32_t n = 0; e.c.at < e.c.end; n++) {
		if (n == STEPS || !step(&e) || e.c.bad)
			return false;
	}
	if (e.depth == 0)
		return false;
	*ret = m->stack[e.depth - 1];
	return true;
}
