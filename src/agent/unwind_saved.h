/*
 * The stacks a thread had, and how little of the next must be walked.
 *
 * Converge: from the current registers frames are left by their rules until one is a frame
 * of a saved stack: same pc, same stack pointer, same rbp where it matters. Verify: every
 * word by which the saved frame and those further out were left, return addresses and saved
 * rbps, is compared with what stands in its place now, from the inside out. If all are the
 * same, so is the rest of the stack by induction, for the rules are the same. Where one
 * differs its frame is the next to be walked from. Comparing without converging first would
 * be wrong: stale words survive inside large frames.
 *
 * rbp matters at a frame if a CFA is made of it there or, unless it is reloaded before,
 * further out. That is known when the frame is saved, and what does not matter is not
 * compared.
 *
 * A saved stack keeps frames that were left since: they are verified like any other before
 * they count for anything. Frames are given up where others are saved in their place.
 *
 * A memo says how a stack met before led to a frame of a saved stack; the words between are
 * verified, then those of the saved stack. So stacks that alternate need no walk, although
 * only one of them is saved. A memo is found by a key, made of pc and stack pointer. Where
 * stacks share these, a branch stands at the key: the place of the word in which two of them
 * were found to differ. What that word is now makes the next key, where a memo stands, or
 * another branch. Both are hints: branches are followed before anything is verified, so on the
 * thread's own stack alone, which is readable whatever they say.
 *
 * Four stacks are saved a thread: its own and those of fibers, told apart by where they
 * end. Comparing never leaves the program's frames as long as it goes from the inside out
 * and stops at the first difference: a frame proven to be there has its words in place, and
 * a stack that was unmapped is not come to.
 *
 * What is not saved: frames that need the full row and those inside of them, and stacks cut
 * at their root.
 *
 * Memory: private, of one struct thread. A hook may be left for good in the middle of a
 * change: until it is complete, what is being changed counts for nothing.
 */
#ifndef MALLOGRAPH_AGENT_UNWIND_SAVED_H
#define MALLOGRAPH_AGENT_UNWIND_SAVED_H

#include "agent/unwind.h"

#define UNWIND_PAD       4u /* pairs compared at a time */
#define UNWIND_KEY_SHIFT 40u

struct saved_frame {
	uint64_t key; /* pc, with MGL_NODE_EXACT and _FP << UNWIND_KEY_SHIFT */
	uint64_t sp;
	uint64_t bp;
	uint64_t bp_mask; /* 0: bp does not matter, and may be another */
	uint64_t rule;
	uint32_t node;  /* of a frame too deep: a number that no other has */
	uint32_t pairs; /* by which this frame and those further out were left */
};

/* The outermost frame and its pairs come first. Before them stand a frame that no stack
 * pointer is beyond, and UNWIND_PAD pairs that never differ. */
struct unwind_saved {
	struct saved_frame *frame;
	struct unwind_pair *pair;
	uint32_t count;
	uint32_t room; /* frames; three times as many pairs */
};

static inline uint64_t unwind_key(uint64_t pc, uint32_t flags)
{
	return pc | (uint64_t)(flags & (MGL_NODE_EXACT | MGL_NODE_FP)) << UNWIND_KEY_SHIFT;
}

/* The first pair below p whose word is another now; NULL = none down to `first`. */
static inline const struct unwind_pair *unwind_verify(const struct unwind_pair *p,
						      const struct unwind_pair *first)
{
#define DIFFERS(pair) AGENT_UNLIKELY(unwind_load((pair)->at) != (pair)->value)
	for (; p > first; p -= UNWIND_PAD) {
		if (DIFFERS(p - 1))
			return p - 1;
		if (DIFFERS(p - 2))
			return p - 2;
		if (DIFFERS(p - 3))
			return p - 3;
		if (DIFFERS(p - 4))
			return p - 4;
	}
#undef DIFFERS
	return NULL;
}

/* A hint is the upper bits of its key and, in the lower ones, a memo's index, or a word's place
 * above the hook's stack pointer in 8 bytes | UNWIND_BRANCH. */
#define UNWIND_HINT_MASK UINT64_C(0x1ffff)
#define UNWIND_BRANCH    UINT64_C(0x10000)

static inline uint64_t unwind_memo_key(uint64_t before, uint64_t word)
{
	return (before ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t *unwind_hints(const struct unwind_state *u, uint64_t key)
{
	return &u->hot.hint[(key >> u->hot.shift) * UNWIND_HINTS];
}

static inline uint16_t unwind_key_part(uint64_t key) { return (uint16_t)(key >> 48); }

/* The next one is on its way to the cache until the next call. */
static inline void unwind_memo_used(struct unwind_state *u, struct unwind_memo *e)
{
	struct unwind_memo *next = u->hot.memo + e->next;

	u->hot.last = e;
	u->hot.next = next;
	__builtin_prefetch(next);
	__builtin_prefetch(next->words);
}

/* The newest first. In whose place: the key's own, else the oldest memo's, else the oldest. A
 * branch that is gone may come back as another, and all that it led to would have to move. */
static inline void unwind_hint_set(struct unwind_state *u, uint64_t key, uint64_t what)
{
	uint64_t *hint = unwind_hints(u, key);
	uint32_t place = UNWIND_HINTS - 1;

	for (uint32_t i = 0; i < UNWIND_HINTS; i++) {
		if (!(hint[i] & UNWIND_BRANCH))
			place = i;
	}
	for (uint32_t i = 0; i < UNWIND_HINTS; i++) {
		if ((hint[i] ^ key) <= UNWIND_HINT_MASK)
			place = i;
	}
	for (; place > 0; place--)
		hint[place] = hint[place - 1];
	hint[0] = (key & ~UNWIND_HINT_MASK) | what;
}

/* --- unwind_converge.c ----------------------------------------------------------------- */

/* The node of the stack u->entry describes, walking no more of it than differs from a saved
 * one; 0 = walk it all. */
uint32_t unwind_converge(struct thread *t, struct unwind_state *u);

/* --- unwind_saved.c -------------------------------------------------------------------- */

/* The saved stack that can have frames from sp on; NULL = none. */
struct unwind_saved *unwind_saved_at(struct unwind_state *u, uint64_t sp);
/* The walk's frames lead to `base` of s, which is verified, with this rbp: enters them into the trie and
 * saves them. The node of the whole, 0 = no room. */
uint32_t unwind_saved_join(struct thread *t, struct unwind_state *u, struct unwind_saved *s,
			   struct saved_frame *base, uint64_t bp);
/* The same for frames that lead to a root. 0 = not done, none of them is saved. */
uint32_t unwind_saved_enter(struct thread *t, struct unwind_state *u);
/* The next walk is a whole one: another stack, other rules, or another trie. */
void unwind_saved_forget(struct unwind_state *u);

#endif
