/*
 * What a hook reads of its caller at entry. The agent is compiled with -ffixed-rbp, so
 * rbp is the caller's all the way, and CFA and return address cost nothing.
 */
#ifndef MALLOGRAPH_AGENT_HOOK_H
#define MALLOGRAPH_AGENT_HOOK_H

#include "agent/agent.h"

#define CFA ((uintptr_t)__builtin_dwarf_cfa())
#define PC  ((uintptr_t)__builtin_return_address(0))

#define REGS(name)               \
	struct unwind_regs name; \
	name.pc = PC;            \
	name.sp = CFA;           \
	__asm__("mov %%rbp, %0" : "=r"(name.bp))

#endif
