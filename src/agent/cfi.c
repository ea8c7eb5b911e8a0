/*
 * The interpreter of call frame programs: from an FDE and an address to a row.
 */
#include "agent/cfi.h"

/* Opcodes with an operand in their low six bits, then the plain ones (DW_CFA_*). */
enum {
	OP_ADVANCE = 0x40,
	OP_OFFSET = 0x80,
	OP_RESTORE = 0xc0,

	OP_NOP = 0x00,
	OP_SET_LOC = 0x01,
	OP_ADVANCE1 = 0x02,
	OP_ADVANCE2 = 0x03,
	OP_ADVANCE4 = 0x04,
	OP_OFFSET_EXTENDED = 0x05,
	OP_RESTORE_EXTENDED = 0x06,
	OP_UNDEFINED = 0x07,
	OP_SAME_VALUE = 0x08,
	OP_REGISTER = 0x09,
	OP_REMEMBER = 0x0a,
	OP_RECALL = 0x0b,
	OP_DEF_CFA = 0x0c,
	OP_DEF_CFA_REGISTER = 0x0d,
	OP_DEF_CFA_OFFSET = 0x0e,
	OP_DEF_CFA_EXPRESSION = 0x0f,
	OP_EXPRESSION = 0x10,
	OP_OFFSET_EXTENDED_SF = 0x11,
	OP_DEF_CFA_SF = 0x12,
	OP_DEF_CFA_OFFSET_SF = 0x13,
	OP_VAL_OFFSET = 0x14,
	OP_VAL_OFFSET_SF = 0x15,
	OP_VAL_EXPRESSION = 0x16,
	OP_ADVANCE8 = 0x1d,
	OP_GNU_ARGS_SIZE = 0x2e,
	OP_GNU_NEGATIVE_OFFSET = 0x2f,
};

struct run {
	struct cfi_cursor c;
	struct cfi_scratch *s;
	const struct cfi_section *section;
	uint64_t location;
	uint32_t remembered;
	bool in_cie;
};

static void rule_set(struct run *r, uint64_t reg, enum cfi_kind kind, uint64_t value)
{
	if (reg >= CFI_REGISTERS)
		return; /* vector and other registers: nobody asks */
	r->s->row.kind[reg] = (uint8_t)kind;
	r->s->row.value[reg] = value;
}

static void rule_restore(struct run *r, uint64_t reg)
{
	if (reg < CFI_REGISTERS)
		rule_set(r, reg, r->in_cie ? CFI_UNSET : r->s->initial.kind[reg],
			 r->in_cie ? 0 : r->s->initial.value[reg]);
}

static uint64_t factored(struct run *r) { return cfi_uleb(&r->c) * (uint64_t)r->s->fde.data_align; }

static uint64_t factored_signed(struct run *r)
{
	return (uint64_t)cfi_sleb(&r->c) * (uint64_t)r->s->fde.data_align;
}

static uint64_t expression_take(struct run *r)
{
	uint64_t bytes = cfi_uleb(&r->c);
	const uint8_t *at = r->c.at;

	if (r->c.bad || bytes > (uint64_t)(r->c.end - at) || bytes > 0xffff) {
		r->c.bad = true;
		return 0;
	}
	r->c.at += bytes;
	return cfi_expression(at, (size_t)bytes);
}

static void cfa_set(struct run *r, uint64_t reg, uint64_t offset)
{
	struct cfi_row *row = &r->s->row;

	row->cfa_kind = CFI_REGISTER;
	row->cfa = reg;
	row->cfa_offset = (int64_t)offset;
}

/* A change of one part of a CFA that is not register + offset makes no sense. */
static void cfa_change(struct run *r)
{
	if (r->s->row.cfa_kind != CFI_REGISTER)
		r->c.bad = true;
}

static bool row_push(struct run *r)
{
	if (r->remembered == CFI_REMEMBERED)
		return false;
	r->s->remembered[r->remembered++] = r->s->row;
	return true;
}

static bool row_pop(struct run *r)
{
	if (r->remembered == 0)
		return false;
	r->s->row = r->s->remembered[--r->remembered];
	return true;
}

/* Instructions that move the location. */
static bool advance(struct run *r, uint8_t op)
{
	uint64_t by;

	switch (op) {
	case OP_ADVANCE1:
		by = cfi_fixed(&r->c, 1);
		break;
	case OP_ADVANCE2:
		by = cfi_fixed(&r->c, 2);
		break;
	case OP_ADVANCE4:
		by = cfi_fixed(&r->c, 4);
		break;
	case OP_ADVANCE8:
		by = cfi_fixed(&r->c, 8);
		break;
	case OP_SET_LOC:
		return cfi_pointer(&r->c, r->s->fde.encoding,
				   (uint64_t)(uintptr_t)r->section->header, &r->location);
	default:
		by = op & 0x3f;
		break;
	}
	r->location += by * r->s->fde.code_align;
	return true;
}

/* Instructions that say where the CFA is. */
static bool define_cfa(struct run *r, uint8_t op)
{
	struct cfi_row *row = &r->s->row;
	uint64_t reg;

	switch (op) {
	case OP_DEF_CFA:
		reg = cfi_uleb(&r->c);
		cfa_set(r, reg, cfi_uleb(&r->c));
		return true;
	case OP_DEF_CFA_SF:
		reg = cfi_uleb(&r->c);
		cfa_set(r, reg, factored_signed(r));
		return true;
	case OP_DEF_CFA_REGISTER:
		cfa_change(r);
		row->cfa = cfi_uleb(&r->c);
		return true;
	case OP_DEF_CFA_OFFSET:
		cfa_change(r);
		row->cfa_offset = (int64_t)cfi_uleb(&r->c);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		cfa_change(r);
		row->cfa_offset = (int64_t)factored_signed(r);
		return true;
	default: /* OP_DEF_CFA_EXPRESSION */
		row->cfa_kind = CFI_VAL_EXPRESSION;
		row->cfa = expression_take(r);
		row->cfa_offset = 0;
		return true;
	}
}

/* Instructions that say where a register is. */
static bool define_register(struct run *r, uint8_t op)
{
	uint64_t reg = cfi_uleb(&r->c);

	switch (op) {
	case OP_OFFSET_EXTENDED:
		rule_set(r, reg, CFI_OFFSET, factored(r));
		return true;
	case OP_OFFSET_EXTENDED_SF:
		rule_set(r, reg, CFI_OFFSET, factored_signed(r));
		return true;
	case OP_GNU_NEGATIVE_OFFSET:
		rule_set(r, reg, CFI_OFFSET, -factored(r));
		return true;
	case OP_VAL_OFFSET:
		rule_set(r, reg, CFI_VAL_OFFSET, factored(r));
		return true;
	case OP_VAL_OFFSET_SF:
		rule_set(r, reg, CFI_VAL_OFFSET, factored_signed(r));
		return true;
	case OP_RESTORE_EXTENDED:
		rule_restore(r, reg);
		return true;
	case OP_UNDEFINED:
		rule_set(r, reg, CFI_UNDEFINED, 0);
		return true;
	case OP_SAME_VALUE:
		rule_set(r, reg, CFI_SAME, 0);
		return true;
	case OP_REGISTER:
		rule_set(r, reg, CFI_REGISTER, cfi_uleb(&r->c));
		return true;
	case OP_EXPRESSION:
		rule_set(r, reg, CFI_EXPRESSION, expression_take(r));
		return true;
	case OP_VAL_EXPRESSION:
		rule_set(r, reg, CFI_VAL_EXPRESSION, expression_take(r));
		return true;
	default:
		return false;
	}
}

static bool step(struct run *r)
{
	uint8_t op = (uint8_t)cfi_fixed(&r->c, 1);

	switch (op & 0xc0) {
	case OP_ADVANCE:
		return advance(r, op);
	case OP_OFFSET:
		rule_set(r, op & 0x3f, CFI_OFFSET, factored(r));
		return true;
	case OP_RESTORE:
		rule_restore(r, op & 0x3f);
		return true;
	default:
		break;
	}
	switch (op) {
	case OP_NOP:
		return true;
	case OP_SET_LOC:
	case OP_ADVANCE1:
	case OP_ADVANCE2:
	case OP_ADVANCE4:
	case OP_ADVANCE8:
		return advance(r, op);
	case OP_REMEMBER:
		return row_push(r);
	case OP_RECALL:
		return row_pop(r);
	case OP_DEF_CFA:
	case OP_DEF_CFA_SF:
	case OP_DEF_CFA_REGISTER:
	case OP_DEF_CFA_OFFSET:
	case OP_DEF_CFA_OFFSET_SF:
	case OP_DEF_CFA_EXPRESSION:
		return define_cfa(r, op);
	case OP_GNU_ARGS_SIZE:
		cfi_uleb(&r->c);
		return true;
	default:
		return define_register(r, op);
	}
}

/* Runs to the program's end or to the first location past the address. */
static bool run(struct run *r, uint64_t address)
{
	while (r->c.at < r->c.end && r->location <= address) {
		if (!step(r) || r->c.bad)
			return false;
	}
	return true;
}

bool cfi_run(const struct cfi_section *section, uint64_t address, struct cfi_scratch *s)
{
	const struct cfi_fde *fde = &s->fde;
	struct run r = {
		.c = {fde->initial, fde->initial_end, false},
		.s = s,
		.section = section,
		.in_cie = true,
	};

	s->row = (struct cfi_row){0};
	if (!run(&r, UINT64_MAX))
		return false;
	s->initial = s->row;
	r.c = (struct cfi_cursor){fde->program, fde->program_end, false};
	r.location = fde->start;
	r.remembered = 0;
	r.in_cie = false;
	return run(&r, address) && s->row.cfa_kind != CFI_UNSET;
}
