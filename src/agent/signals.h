/*
 * Signals kept out of what must not be left half done: a handler may end a hook for good,
 * by longjmp or as a thread's cancellation. Two system calls, so for the steps off the hot
 * path alone; the rest is written so that it can stop after any store.
 *
 * Nests; a process that starts has them held throughout. Where system calls are forbidden nothing is kept out.
 */
#ifndef MALLOGRAPH_AGENT_SIGNALS_H
#define MALLOGRAPH_AGENT_SIGNALS_H

#include <signal.h>

#include "agent/core.h"
#include "agent/syscall.h"

struct signals {
	uint64_t before;
	bool held;
};

static inline struct signals signals_hold(void)
{
	struct signals s = {0};
	uint64_t all = ~UINT64_C(0);

	if (!agent_frozen && !agent_starting)
		s.held = sys_sigprocmask(SIG_SETMASK, &all, &s.before) == 0;
	return s;
}

static inline void signals_release(const struct signals *s)
{
	if (s->held)
		sys_sigprocmask(SIG_SETMASK, &s->before, NULL);
}

#endif
