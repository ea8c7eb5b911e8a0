/*
 * What a hook reads of its caller at entry. The agent is compiled with -ffixed-rbp, so
 * rbp is the caller's all the way, and CFA and return address cost nothing.
 */
#ifndef MALLOGRAPH_AGENT_HOOK_H
#define MALLOGRAPH_AGENT_HOOK_H

#include "agent/agent.h"

#define CFA ((uintptr_t)__builtin_dwarf_cfa())
#define PC  ((uintptr_t)__builtin_return_address(0))

static inline uint64_t hook_bp(void)
{
	uint64_t bp;

	__asm__ volatile("mov %%rbp, %0" : "=r"(bp));
	return bp;
}

/* A hook's PC and CFA, and the rbp that its caller has. */
#define REGS(pc, cfa)                  \
	{                              \
		(pc), (cfa), hook_bp() \
	}

#endif
