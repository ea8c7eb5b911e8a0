/*
 * Whether a hook is on the chain of callers of another: what a busy gate means.
 *
 * Called where a hook finds its thread's gate busy, so off the hot path; signals are held
 * meanwhile. Walks with a state of its own, since the hook in question may stand anywhere
 * in the unwinder. Allocates private memory, once a thread. Never fails: see the last two.
 */
#ifndef MALLOGRAPH_AGENT_CHAIN_H
#define MALLOGRAPH_AGENT_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

enum chain_place {
	CHAIN_LEFT,     /* the hook's frame is gone: a jump left it */
	CHAIN_CALLED,   /* what it called calls this one */
	CHAIN_IN_AGENT, /* a handler does, which interrupted the agent in it */
	CHAIN_IN_REAL,  /* a handler does, which interrupted the real function */
	CHAIN_WITHIN,   /* a handler calls another hook, and what that called calls this one */
	CHAIN_CUT,      /* not known: the stack cannot be walked so far */
	CHAIN_LOST,     /* not known either, but that a handler runs */
};

/* hook: the CFA of the hook that a gate of t names; calls: it may have called the one at cfa,
 * which asks. */
enum chain_place chain_place(struct thread *t, uintptr_t hook, uintptr_t cfa, bool calls);
/* Another thread owns t now. */
void chain_forget(struct thread *t);

#endif
