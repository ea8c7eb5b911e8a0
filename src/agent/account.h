/*
 * What a hook enters into the ledger. Each function is called between hook_enter() and
 * hook_leave() by the thread that owns t, in phase AGENT.
 *
 * Order: a block is entered after the real function returned it and taken out before the
 * real free is called, so that no two threads ever hold one address at a time.
 */
#ifndef MALLOGRAPH_AGENT_ACCOUNT_H
#define MALLOGRAPH_AGENT_ACCOUNT_H

#include "agent/core.h"

/* A block taken out of the shadow. */
struct taken {
	uint64_t word; /* 0 = the agent never saw it */
	uint64_t rest;
};

/* The end of a hook, whose real call has made a block of size bytes; NULL = it failed. pc and
 * cfa are the hook's. Returns made. */
void *account_allocated(struct thread *t, void *made, size_t size, enum mgl_api api, uintptr_t pc,
			uintptr_t cfa);
void account_failed(struct thread *t, enum mgl_api api);

/* Before the real free: from phase REAL to phase REAL. */
void account_free(struct thread *t, void *p, uintptr_t cfa);

/* Around a real realloc: take the block out, then say what became of it. */
struct taken account_realloc_begin(struct thread *t, void *p);
/* It failed: the block is the program's still. */
void account_realloc_failed(struct thread *t, void *p, struct taken old, enum mgl_api api);
/* realloc(p, 0) freed it. */
void account_realloc_freed(struct thread *t, void *p, struct taken old);
void account_realloc_done(struct thread *t, void *p, struct taken old, void *q, size_t size,
			  enum mgl_api api, uintptr_t pc, uintptr_t cfa);

/* A hook of t's was left half done: what it has published of live bytes agrees with its rows
 * again, or the peak's error says by how much it may not. Looks at all of t's rows. */
void account_settle(struct thread *t);

/* How much of live bytes a thread may hold back, anew: threads or maximum have changed. */
void account_step_set(struct agent *a);

#endif
