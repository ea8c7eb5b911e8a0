/*
 * The full-row tier: frames whose row no simple rule says.
 *
 * Registers are found when an expression or a rule asks for one. A callee-saved register
 * of frame k was either saved by a frame further in, whose row says where, or still holds
 * what it held when the hook was called; that is found by unwinding the agent's own
 * frames from a capture. Registers a call clobbers are known in one place only: in the
 * frame a signal interrupted.
 */
#include "agent/unwind.h"

#include <string.h>

#define OWN_FRAMES 64u

#define BIT(reg) (1u << (reg))
#define CALLEE_SAVED \
	(BIT(CFI_RBX) | BIT(CFI_RBP) | BIT(CFI_R12) | BIT(CFI_R13) | BIT(CFI_R14) | BIT(CFI_R15))

/* Place of each register in the kernel's struct ucontext (asm/sigcontext.h). */
static const uint8_t signal_place[CFI_REGISTERS] = {
	144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, 168,
};

bool unwind_signal_register(struct stack_map *stacks, uint64_t sp, uint32_t reg, uint64_t *ret)
{
	return stack_read(stacks, sp + signal_place[reg], ret);
}

struct unwind_pair unwind_signal_pair(uint64_t sp, uint32_t reg, uint64_t value)
{
	return (struct unwind_pair){sp + signal_place[reg], value};
}

/* --- one row ---------------------------------------------------------------------- */

static bool machine_get(struct cfi_machine *m, uint64_t reg, uint64_t *ret)
{
	m->needed = CFI_REGISTERS;
	if (reg >= CFI_REGISTERS)
		return false;
	*ret = m->reg[reg];
	if (m->known & BIT(reg))
		return true;
	m->needed = (uint8_t)reg;
	return false;
}

static bool row_cfa(struct cfi_machine *m, const struct cfi_row *row, uint64_t *ret)
{
	struct cfi_value v;

	if (row->cfa_kind == CFI_REGISTER) {
		if (!machine_get(m, row->cfa, ret))
			return false;
		*ret += (uint64_t)row->cfa_offset;
		return true;
	}
	if (!cfi_evaluate(m, row->cfa, NULL, &v))
		return false;
	*ret = v.number;
	return true;
}

/* The caller's value of a register; false and m->needed where another must be known. */
static bool row_register(struct cfi_machine *m, const struct cfi_row *row, uint64_t cfa,
			 uint32_t reg, uint64_t *ret)
{
	struct cfi_value first = {.number = cfa}, v;
	uint64_t value = row->value[reg];

	m->needed = CFI_REGISTERS;
	switch (row->kind[reg]) {
	case CFI_UNSET:
		if (reg == CFI_RSP) {
			*ret = cfa;
			return true;
		}
		return reg != CFI_RIP && machine_get(m, reg, ret);
	case CFI_SAME:
		return machine_get(m, reg, ret);
	case CFI_OFFSET:
		return stack_read(m->memory, cfa + value, ret);
	case CFI_VAL_OFFSET:
		*ret = cfa + value;
		return true;
	case CFI_REGISTER:
		return machine_get(m, value, ret);
	case CFI_EXPRESSION:
		return cfi_evaluate(m, value, &first, &v) && stack_read(m->memory, v.number, ret);
	case CFI_VAL_EXPRESSION:
		if (!cfi_evaluate(m, value, &first, &v))
			return false;
		*ret = v.number;
		return true;
	default: /* CFI_UNDEFINED */
		return false;
	}
}

static void machine_start(struct unwind_state *u, struct cfi_machine *m, uint64_t pc, uint64_t sp,
			  uint64_t bp)
{
	m->symbolic = false;
	m->memory = &u->stacks;
	m->known = BIT(CFI_RIP) | BIT(CFI_RSP) | BIT(CFI_RBP);
	m->reg[CFI_RIP] = pc;
	m->reg[CFI_RSP] = sp;
	m->reg[CFI_RBP] = bp;
}

/* The row at an address, into u->cfi. */
static bool row_find(struct thread *t, struct unwind_state *u, uint64_t address)
{
	const struct module *m = module_find(t, address);

	return m && cfi_find(&m->cfi, address, &u->cfi) && cfi_run(&m->cfi, address, &u->cfi);
}

/* --- the agent's own frames ---------------------------------------------------------- */

/* One frame out, all callee-saved registers with it: into u->entry_reg and the machine. */
static bool own_step(struct unwind_state *u, struct cfi_machine *m)
{
	const struct cfi_row *row = &u->cfi.row;
	uint64_t *next = u->entry_reg;
	uint32_t known = BIT(CFI_RIP) | BIT(CFI_RSP);
	uint64_t cfa;

	if (!row_cfa(m, row, &cfa) || !row_register(m, row, cfa, CFI_RIP, &next[CFI_RIP]) ||
	    !row_register(m, row, cfa, CFI_RSP, &next[CFI_RSP]))
		return false;
	for (uint32_t reg = 0; reg < CFI_RIP; reg++) {
		if ((CALLEE_SAVED & BIT(reg)) && row_register(m, row, cfa, reg, &next[reg]))
			known |= BIT(reg);
	}
	memcpy(m->reg, next, sizeof(m->reg));
	m->known = known;
	return true;
}

static AGENT_COLD void entry_find(struct thread *t, struct unwind_state *u)
{
	struct cfi_machine *m = &u->probe;
	uint64_t pc;

	__asm__ volatile("movq %%rbx, 24(%1)\n\t"
			 "movq %%rbp, 48(%1)\n\t"
			 "movq %%rsp, 56(%1)\n\t"
			 "movq %%r12, 96(%1)\n\t"
			 "movq %%r13, 104(%1)\n\t"
			 "movq %%r14, 112(%1)\n\t"
			 "movq %%r15, 120(%1)\n\t"
			 "leaq 1f(%%rip), %0\n"
			 "1:"
			 : "=r"(pc)
			 : "r"(m->reg)
			 : "memory");
	machine_start(u, m, pc, m->reg[CFI_RSP], m->reg[CFI_RBP]);
	m->known |= CALLEE_SAVED;
	u->entry_known = BIT(CFI_RSP);
	for (uint32_t n = 0; n < OWN_FRAMES && m->reg[CFI_RSP] < u->entry.sp; n++) {
		if (!row_find(t, u, m->reg[CFI_RIP] - (n > 0)) || !own_step(u, m))
			return;
	}
	if (m->reg[CFI_RSP] != u->entry.sp || m->reg[CFI_RIP] != u->entry.pc)
		return;
	u->entry_known = m->known;
}

/* --- registers of an outer frame -------------------------------------------------------- */

/* Register *reg on the way out of frame j, if that frame saved it: true with its value,
 * or false, and *reg is what to look for further in (CFI_REGISTERS: it is lost). */
static bool frame_register(struct thread *t, struct unwind_state *u, uint32_t j, uint32_t *reg,
			   uint64_t *ret)
{
	const struct unwind_frame *f = &u->frame[j], *outer = f + 1;
	const struct cfi_row *row = &u->cfi.row;
	uint32_t want = *reg;

	*reg = CFI_REGISTERS;
	if (rule_kind(f->rule) == RULE_SIGNAL)
		return unwind_signal_register(&u->stacks, f->sp, want, ret);
	if (rule_kind(f->rule) == RULE_NO_CFI || !(CALLEE_SAVED & BIT(want)) ||
	    !row_find(t, u, f->pc - !(rule_where(f->rule) & MGL_NODE_EXACT)))
		return false;
	switch (row->kind[want]) {
	case CFI_UNSET:
	case CFI_SAME:
		*reg = want;
		return false;
	case CFI_REGISTER:
		if (row->value[want] < CFI_REGISTERS)
			*reg = (uint32_t)row->value[want];
		return false;
	default:
		machine_start(u, &u->probe, f->pc, f->sp, f->bp);
		return row_register(&u->probe, row, outer->sp, want, ret);
	}
}

/* A register at frame k, from the frames further in. */
static bool register_find(struct thread *t, struct unwind_state *u, uint32_t k, uint32_t reg,
			  uint64_t *ret)
{
	for (uint32_t j = k; j > 0; j--) {
		if (frame_register(t, u, j - 1, &reg, ret))
			return true;
		if (reg == CFI_REGISTERS)
			return false;
	}
	if (!u->entry_known)
		entry_find(t, u);
	*ret = u->entry_reg[reg];
	return (u->entry_known & CALLEE_SAVED & BIT(reg)) != 0;
}

/* --- the step ------------------------------------------------------------------------- */

/* Out of the frame u->row belongs to, as far as the machine's registers allow. */
static bool row_leave(struct unwind_state *u, struct unwind_cursor *c)
{
	struct cfi_machine *m = &u->machine;
	const struct cfi_row *row = &u->row;
	uint64_t cfa, pc, sp, bp = c->bp;

	if (!row_cfa(m, row, &cfa) || !row_register(m, row, cfa, CFI_RIP, &pc) ||
	    !row_register(m, row, cfa, CFI_RSP, &sp))
		return false;
	if (row->kind[CFI_RBP] != CFI_UNDEFINED && !row_register(m, row, cfa, CFI_RBP, &bp))
		return false;
	c->pc = pc;
	c->sp = sp;
	c->bp = bp;
	return true;
}

AGENT_COLD enum unwind_step unwind_full(struct thread *t, struct unwind_state *u,
					struct unwind_cursor *c)
{
	uint32_t k = u->count - 1;
	uint64_t sp = c->sp;

	if (!row_find(t, u, c->pc - !c->exact))
		return UNWIND_CUT;
	u->row = u->cfi.row;
	c->exact = u->cfi.fde.signal;
	machine_start(u, &u->machine, c->pc, c->sp, c->bp);
	while (!row_leave(u, c)) {
		uint32_t reg = u->machine.needed;

		if (reg >= CFI_REGISTERS || !register_find(t, u, k, reg, &u->machine.reg[reg]))
			return UNWIND_CUT;
		u->machine.known |= BIT(reg);
	}
	if (c->sp % 8 || (!c->exact && c->sp <= sp))
		return UNWIND_CUT;
	c->high = stack_high(&u->stacks, c->sp);
	c->flags = c->exact ? MGL_NODE_EXACT : 0;
	if (!c->exact)
		return c->pc ? UNWIND_ON : UNWIND_END;
	return ++u->signals <= UNWIND_SIGNALS ? UNWIND_ON : UNWIND_CUT;
}
