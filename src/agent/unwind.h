/*
 * The unwinder's own: a thread's walk and the tier for frames no simple rule covers.
 *
 * A walk collects frames from the innermost out, then enters them in the trie from the
 * root in. It keeps the innermost half of the allowed depth in place and the outermost
 * half in a ring, so a stack of any depth costs the same memory.
 *
 * Everything large lives in struct unwind_state, private memory of one struct thread;
 * the stack of the program carries less than 2 KiB of ours.
 */
#ifndef MALLOGRAPH_AGENT_UNWIND_H
#define MALLOGRAPH_AGENT_UNWIND_H

#include "agent/agent.h"
#include "agent/cfi.h"
#include "agent/module.h"
#include "agent/rules.h"
#include "agent/stackrange.h"

#define UNWIND_DEPTH     1024u /* frames kept where the control page names no number */
#define UNWIND_DEPTH_MIN 16u
#define UNWIND_DEPTH_MAX 32768u
#define UNWIND_WALK_MAX  65536u /* frames looked at */
#define UNWIND_SIGNALS   64u    /* signal frames crossed */

/* Offset of the registers in the kernel's struct ucontext, and what a walk reads of it. */
#define UNWIND_SIGNAL_BYTES 176u

struct unwind_frame {
	uint64_t pc;
	uint64_t sp;
	uint64_t bp;
	uint64_t rule; /* with MGL_NODE_EXACT and _FP of this frame in its where */
};

struct unwind_saved;

struct unwind_state {
	struct stack_map stacks;
	struct unwind_saved *saved; /* unwind_saved.c's; NULL until a walk was kept */
	uint32_t generation;        /* of rules, in this walk */
	struct unwind_regs entry;
	uint32_t count; /* frames of the walk so far */
	uint32_t inner; /* frames kept at the inner end */
	uint32_t ring;  /* frames kept at the outer end */
	uint32_t signals;
	bool doubt; /* a frame was guessed */

	/* the full-row tier */
	uint64_t entry_reg[CFI_REGISTERS]; /* when the hook was called */
	uint32_t entry_known;              /* bit a register; 0 = not looked for in this walk */
	struct cfi_scratch cfi;
	struct cfi_row row;
	struct cfi_machine machine; /* of the frame being evaluated */
	struct cfi_machine probe;   /* of an inner frame, or of a rule being made */

	struct unwind_frame frame[]; /* inner, then ring */
};

/* Registers of a frame on the way out. */
struct unwind_cursor {
	uint64_t pc, sp, bp;
	uint64_t high;  /* stack readable up to here */
	uint32_t flags; /* MGL_NODE_EXACT and _FP of the frame */
	bool exact;     /* pc is the instruction itself */
};

enum unwind_step { UNWIND_ON, UNWIND_END, UNWIND_CUT };

/* Frame k of the walk; NULL = no longer in the ring. */
static inline struct unwind_frame *unwind_frame_at(struct unwind_state *u, uint32_t k)
{
	if (k < u->inner)
		return &u->frame[k];
	if (u->count - k > u->ring)
		return NULL;
	return &u->frame[u->inner + (k - u->inner) % u->ring];
}

/* What a node's where has of a rule's. */
#define UNWIND_WHERE_FLAGS (MGL_NODE_MODULE_MASK | MGL_NODE_EXACT | MGL_NODE_FP)

/* --- unwind.c ------------------------------------------------------------------------ */

/* The rule of the frame at c. */
uint64_t unwind_rule_of(struct thread *t, struct unwind_state *u, const struct unwind_cursor *c);
/* Out of that frame, the newest of the walk, by whatever its rule takes. */
enum unwind_step unwind_step(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			     uint64_t rule);

/* --- unwind_rule.c ------------------------------------------------------------------ */

/* The rule of an address, worked out and cached. */
uint64_t unwind_rule(struct thread *t, struct unwind_state *u, uint64_t address,
		     uint32_t generation);
/* Whether the kernel's return from a signal handler starts here. */
bool unwind_is_sigreturn(const struct module *m, uint64_t pc);

/* --- unwind_full.c -------------------------------------------------------------------- */

/* Out of the newest frame of the walk by its full row. */
enum unwind_step unwind_full(struct thread *t, struct unwind_state *u, struct unwind_cursor *c);
/* Out of a signal frame: register of the interrupted code. */
bool unwind_signal_register(struct stack_map *stacks, uint64_t sp, uint32_t reg, uint64_t *ret);

#endif
