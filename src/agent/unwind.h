/*
 * The unwinder's own: a thread's walk and the tier for frames no simple rule covers.
 *
 * A walk collects frames from the innermost out, then enters them in the trie from the
 * root in: of a stack deeper than allowed the innermost and the outermost half of what is.
 * Little of a stack is walked twice: see unwind_saved.h.
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

/* A word of the stack, and what a stack that is known has there. */
struct unwind_pair {
	uint64_t at;
	uint64_t value;
};

/* The stack saved last, as registers and what must be verified; and where memos are. */
struct unwind_hot {
	uint64_t pc, sp;
	uint64_t bp, bp_mask;            /* mask 0: what rbp holds does not matter */
	const struct unwind_pair *pair;  /* one past the innermost */
	const struct unwind_pair *first; /* the outermost */
	struct unwind_site site;         /* node 0 = there is none */
	uint32_t generation;             /* of rules; unlike the present one: nothing here holds */
	uint32_t epoch;                  /* of memos */
	uint32_t shift;                  /* of a key, to where its hints are */
	struct unwind_memo *memo;
	struct unwind_memo *last, *next; /* the one used last, and what came after it before */
	uint64_t *hint;                  /* UNWIND_HINTS a memo: see unwind_saved.h */
};

#define UNWIND_MEMOS       64u /* at first */
#define UNWIND_MEMOS_MOST  4096u
#define UNWIND_DEEP        (1u << 31)
#define UNWIND_HINTS       4u
#define UNWIND_MEMO_WORDS  3u
#define UNWIND_MEMO_GROUPS 4u

/* Words of the stack, the innermost first. */
struct unwind_words {
	uint64_t value[UNWIND_MEMO_WORDS];
	uint16_t at[UNWIND_MEMO_WORDS]; /* from the hook's stack pointer up, in 8 bytes */
};

/* How a stack met before leads to a frame of a saved stack: three cache lines, of which the
 * last is seldom looked at. */
struct unwind_memo {
	uint64_t pc, sp;
	struct unwind_site site; /* its bp: from sp up, in bytes, where it matters */
	uint16_t key;            /* the upper bits of its own */
	uint16_t next;           /* index of the one used after it */
	uint32_t epoch;          /* valid where it is the thread's; | UNWIND_DEEP: of a cut stack */
	uint32_t base_node;      /* of that frame; */
	uint32_t base_sp;        /* from sp up, in bytes; */
	uint32_t base_bp;        /* as well, where it matters; */
	uint16_t base;           /* its index in the saved stack, */
	uint8_t saved;           /* and that one's */
	uint8_t groups : 7, bp_matters : 1;
	struct unwind_words words[UNWIND_MEMO_GROUPS];
};
_Static_assert(sizeof(struct unwind_memo) == 192, "three cache lines");

#define UNWIND_SAVED 4u /* saved stacks; the first is the thread's own */

struct unwind_saved;

struct unwind_state {
	struct unwind_hot hot;
	struct unwind_memo memo_first[UNWIND_MEMOS];
	uint64_t hint_first[UNWIND_MEMOS * UNWIND_HINTS];
	uint32_t memos; /* there is room for */
	uint32_t
		memos_set; /* since there is this room: the next one's place, but for whole turns */
	uint64_t memo_key; /* of the one to make of the present stack */
	struct unwind_memo *memo_old;             /* in whose place; NULL = the next */
	struct unwind_site *site;                 /* of the memo made; NULL = none */
	struct unwind_saved *saved[UNWIND_SAVED]; /* unwind_saved.c's; NULL until one was kept */
	uint32_t frames_deep;                     /* numbers given to them so far */
	uint32_t saved_next;                      /* whose place another fiber's takes */

	struct stack_map stacks;
	uint32_t generation; /* of rules, in this walk */
	struct unwind_regs entry;
	uint32_t count; /* frames of the walk so far */
	uint32_t inner; /* frames kept at the inner end */
	uint32_t outer; /* and at the outer, of a stack too deep */
	uint32_t signals;
	bool doubt; /* a frame was guessed */

	/* the full-row tier */
	uint64_t entry_reg[CFI_REGISTERS]; /* when the hook was called */
	uint32_t entry_known;              /* bit a register; 0 = not looked for in this walk */
	struct cfi_scratch cfi;
	struct cfi_row row;
	struct cfi_machine machine; /* of the frame being evaluated */
	struct cfi_machine probe;   /* of an inner frame, or of a rule being made */

	uint32_t room; /* frames there is memory for */
	struct unwind_frame *frame;
};

/* Registers of a frame on the way out. */
struct unwind_cursor {
	uint64_t pc, sp, bp;
	uint64_t high;  /* stack readable up to here */
	uint32_t flags; /* MGL_NODE_EXACT and _FP of the frame */
	bool exact;     /* pc is the instruction itself */
};

/* A word of a stack, which may lie anywhere. */
typedef uint64_t unwind_word __attribute__((aligned(1), may_alias));

static inline uint64_t unwind_load(uint64_t at) { return *(const unwind_word *)(uintptr_t)at; }

static inline struct unwind_frame unwind_frame_of(const struct unwind_cursor *c, uint64_t rule)
{
	return (struct unwind_frame){c->pc, c->sp, c->bp,
				     rule | (uint64_t)c->flags << RULE_WHERE_SHIFT};
}

enum unwind_step { UNWIND_ON, UNWIND_END, UNWIND_CUT };

/* What a node's where has of a rule's. */
#define UNWIND_WHERE_FLAGS (MGL_NODE_MODULE_MASK | MGL_NODE_EXACT | MGL_NODE_FP)

/* --- unwind.c ------------------------------------------------------------------------ */

/* The rule of the frame at c. */
uint64_t unwind_rule_of(struct thread *t, struct unwind_state *u, const struct unwind_cursor *c);
/* Out of that frame, the newest of the walk, by whatever its rule takes. */
enum unwind_step unwind_step(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			     uint64_t rule);
/* Room for another frame of the walk, u->frame moved where need be. false: no more. */
bool unwind_room(struct unwind_state *u);
/* Enters n frames, the last one first, below *node. false: no room in the trie. */
bool unwind_enter(struct thread *t, const struct unwind_frame *first, uint32_t n, uint32_t *node);
/* What stands for frames left out. */
bool unwind_enter_cut(struct thread *t, uint32_t *node);

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
/* Where such a frame at sp has the register, and its value. */
struct unwind_pair unwind_signal_pair(uint64_t sp, uint32_t reg, uint64_t value);

#endif
