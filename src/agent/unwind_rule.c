/*
 * From an address to its rule, on a cache miss: the module, its CFI, or what the code
 * itself gives away.
 */
#include "agent/unwind.h"

#include <string.h>

#define LONGEST_CALL 7u

/* mov $15, %rax (or %eax); syscall: rt_sigreturn, whatever the libc. */
bool unwind_is_sigreturn(const struct module *m, uint64_t pc)
{
	static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t narrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	const void *code = (const void *)(uintptr_t)pc;

	if (!module_is_text(m, pc, sizeof(wide)))
		return false;
	return memcmp(code, wide, sizeof(wide)) == 0 || memcmp(code, narrow, sizeof(narrow)) == 0;
}

/* Whether these bytes can be a whole call through a register or memory, from its opcode on. */
static bool is_call(const uint8_t *at, size_t bytes)
{
	uint8_t mod = at[1] >> 6, rm = at[1] & 7;

	if (at[0] != 0xff || (at[1] & 0x38) != 0x10)
		return false;
	if (mod == 3)
		return bytes == 2;
	if (rm != 4)
		return bytes == (mod == 1 ? 3u : mod == 2 || rm == 5 ? 6u : 2u);
	if (mod == 0)
		return bytes > 2 && bytes == ((at[2] & 7) == 5 ? 7u : 3u);
	return bytes == (mod == 1 ? 4u : 7u);
}

/* Whether a call instruction can end with this address; the bytes before are readable. */
static bool ends_call(uint64_t last)
{
	static const uint8_t lengths[] = {2, 3, 4, 6, LONGEST_CALL};
	const uint8_t *end = (const uint8_t *)(uintptr_t)last + 1;

	if (end[-5] == 0xe8) /* call rel32 */
		return true;
	for (size_t i = 0; i < sizeof(lengths); i++) {
		if (is_call(end - lengths[i], lengths[i]))
			return true;
	}
	return false;
}

/* nop; call: where Go lets the first function of a goroutine return to, though nothing called
 * it from there. */
static bool is_goexit(uint64_t address)
{
	const uint8_t *code = (const uint8_t *)(uintptr_t)address;

	return code[0] == 0x90 && code[1] == 0xe8;
}

static uint64_t module_rule(const struct module *m, struct unwind_state *u, uint64_t address)
{
	bool in_text = module_is_text(m, address, 1);
	uint32_t where = m->where;

	if (module_is_text(m, address - LONGEST_CALL, LONGEST_CALL + 1) && ends_call(address))
		where |= RULE_AFTER_CALL;
	if (module_is_text(m, address, 2) && is_goexit(address))
		where |= RULE_GOROUTINE;
	if (unwind_is_sigreturn(m, address + 1))
		return rule_plain(RULE_SIGNAL, where);
	if (cfi_find(&m->cfi, address, &u->cfi)) {
		if (cfi_run(&m->cfi, address, &u->cfi))
			return rule_of_row(&u->cfi.row, address, where, &u->probe);
		return rule_plain(RULE_NO_CFI, where);
	}
	/* The first instruction of a function as a return address, with no call before it, was
	 * put there by hand: makecontext starts a fiber's stack so. */
	if (!(where & RULE_AFTER_CALL) && cfi_find(&m->cfi, address + 1, &u->cfi) &&
	    u->cfi.fde.start == address + 1)
		return rule_plain(RULE_END, where);
	return rule_plain(in_text ? RULE_NO_CFI : RULE_NO_CODE, where);
}

/* Code in no module: made at run time, or no code at all. */
static uint64_t wild_rule(uint64_t address)
{
	uint32_t where = 0;

	if (!stack_probe(address))
		return rule_plain(RULE_NO_CODE, 0);
	if (stack_probe(address - LONGEST_CALL) && ends_call(address))
		where |= RULE_AFTER_CALL;
	return rule_plain(RULE_NO_CFI, where);
}

AGENT_COLD uint64_t unwind_rule(struct thread *t, struct unwind_state *u, uint64_t address,
				uint32_t generation)
{
	const struct module *m = address >> 47 ? NULL : module_find(t, address);
	uint64_t rule = m ? module_rule(m, u, address) : wild_rule(address);

	/* What is no code today can be code tomorrow. */
	if (rule_kind(rule) != RULE_NO_CODE)
		rules_store(address, generation, rule);
	return rule;
}
