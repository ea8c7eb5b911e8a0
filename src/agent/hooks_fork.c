/*
 * fork, _Fork and their system calls, for one case alone: a signal handler that forks in
 * the middle of a hook. Its child returns into that hook, which still holds the parent's
 * ledger; so the child covers that before it returns. Everywhere else a child starts its
 * ledger at its first hook, if it has one.
 */
#include <unistd.h>

#include "agent/core.h"
#include "agent/hook.h"
#include "agent/hooks_fork.h"
#include "agent/real.h"

pid_t _Fork(void);

void hooks_fork_child(uintptr_t cfa)
{
	struct thread *t = thread_enter(cfa);

	if (t)
		thread_leave(t);
}

#define FORK(name)                                      \
	do {                                            \
		bool inside = thread_in_hook();         \
                                                        \
		if (!real.name)                         \
			real_resolve();                 \
		pid_t pid = real.name();                \
                                                        \
		if (AGENT_UNLIKELY(inside) && pid == 0) \
			hooks_fork_child(CFA);          \
		return pid;                             \
	} while (0)

AGENT_EXPORT pid_t fork(void) { FORK(fork); }

AGENT_EXPORT pid_t _Fork(void) { FORK(_Fork); }
