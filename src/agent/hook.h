/*
 * What a hook reads of its caller at entry. The agent is compiled with -ffixed-rbp, so
 * rbp is the caller's all the way, and CFA and return address cost nothing.
 */
#ifndef MALLOGRAPH_AGENT_HOOK_H
#define MALLOGRAPH_AGENT_HOOK_H

#include <errno.h>

#include "agent/agent.h"
#include "agent/real.h"

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

/* After a realloc that returned NULL, before which errno was 0: realloc(p, 0) may free and return
 * NULL, which only errno tells from a failure; the leak sanitizer's says ENOMEM for both. */
static inline bool hook_realloc_failed(size_t size)
{
	return size != 0 || (errno == ENOMEM && !real_facts.leak_sanitizer);
}

#endif
