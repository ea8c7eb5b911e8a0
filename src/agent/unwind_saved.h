/*
 * The stack a thread had at its last event, and how little of the next must be walked.
 *
 * Converge: from the current registers frames are left by their rules until one is a frame
 * of the saved stack: same stack pointer, same pc, same rbp. Verify: then every further
 * return address of the saved stack is compared with what stands in its slot now, and every
 * saved rbp likewise, from the inside out. If all are the same, so is the rest of the stack
 * by induction, for the rules are the same. A slot that differs makes its frame the next to
 * be walked from. Comparing slots without converging first would be wrong: stale words
 * survive inside large frames.
 *
 * Only the thread's own stack, and only frames of simple rules up to a root that CFI names,
 * are saved; for everything else the caller walks.
 *
 * Memory: private, of one struct thread. Reads lie between the current stack pointer and
 * the top of a stack proven readable.
 */
#ifndef MALLOGRAPH_AGENT_UNWIND_SAVED_H
#define MALLOGRAPH_AGENT_UNWIND_SAVED_H

#include "agent/unwind.h"

struct unwind_saved;

/* The node of the stack u->entry describes, walking no more of it than differs from the
 * saved one; 0 = walk it all. */
uint32_t unwind_saved_node(struct thread *t, struct unwind_state *u);
/* After a whole walk that fits u->frame: enters its frames into the trie and saves them.
 * 0 = not done, no frame of it is saved. */
uint32_t unwind_saved_enter(struct thread *t, struct unwind_state *u);

/* The next walk is a whole one: another stack, or another trie. */
void unwind_saved_forget(struct unwind_state *u);

#endif
