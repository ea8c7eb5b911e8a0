/*
 * The cross-check agent: the agent, and beside every stack it enters in the trie
 *   - the same stack walked by libunwind from the same registers, frame by frame, and
 *   - the same stack walked whole by the agent's own unwinder, which must be the same node.
 * It is built for the tests and never installed.
 *
 * Seam: the linker sends the agent's calls of unwind_stack() here (--wrap). libunwind
 * (island.h) is used as for another process: every read of memory, every look-up of unwind
 * tables and every allocation is ours, so that it takes no lock of the loader's, opens
 * nothing and never faults.
 *
 * Results go to a file that the environment names (MALLOGRAPH_XCHECK_OUT), made and sized by
 * whoever starts the program and mapped shared: a killed program's count, too. Without one
 * nothing is compared.
 *
 * Ownership: a struct xcheck belongs to one struct thread. It is used with signals blocked,
 * and on a stack of its own: the program's may have 2 KiB left.
 */
#ifndef XCHECK_H
#define XCHECK_H

#include "agent/core.h"
#include "agent/unwind.h"

#include "island.h"

#define XCHECK_FRAMES (UNWIND_WALK_MAX + 1024u)
#define XCHECK_OURS   (UNWIND_DEPTH_MAX + 16u)
#define XCHECK_STACK  ((size_t)256 << 10)
#define XCHECK_PAGES  256u
#define XCHECK_FIRST  4u /* of each outcome, told in full */

/* What became of an event. tools/xcheck has the names, in this order. */
enum xcheck_outcome {
	XCHECK_EQUAL,
	XCHECK_ENDS,    /* deeper than the limit: both ends are equal, the cut is marked */
	XCHECK_GUESSED, /* parted where libunwind, too, finds no CFI; ours went on by rbp */
	XCHECK_CUT,     /* the same, and ours ends there, marked */
	XCHECK_FULL,    /* the trie had no room for the inner frames: recording ends */
	XCHECK_CHILD,   /* in a child that a handler forked in mid-hook: recorded nowhere */
	XCHECK_FROZEN,  /* not compared: system calls are forbidden */
	XCHECK_MEMORY,  /* not compared: no memory */
	/* From here on nothing explains it. */
	XCHECK_STACKS, /* libunwind's walk and ours differ */
	XCHECK_BOTTOM, /* libunwind did not come to the frame that called the hook */
	XCHECK_NODES,  /* the incremental walk's node is not the whole walk's */
};

/* The file: this, then text. */
#define XCHECK_MAGIC UINT64_C(0x6b63656863786d67)
struct xcheck_file {
	uint64_t magic;
	uint64_t bytes;
	_Atomic uint64_t outcome[16];
	_Atomic uint64_t frames;    /* compared */
	_Atomic uint64_t rules[16]; /* events with a frame of this rule (enum rule_kind) */
	_Atomic uint64_t processes;
	_Atomic uint64_t text; /* bytes used of what follows */
	char data[];
};

struct xcheck_frame {
	uint64_t pc;
	uint64_t sp;
};

struct xcheck {
	_Atomic(struct thread *) thread;
	const struct unwind_regs *regs;
	uint32_t node, whole_node;
	struct unwind_state *whole; /* of the walk that knows nothing of the one before */

	unw_addr_space_t space;
	uint64_t reg[CFI_REGISTERS]; /* of a frame of the agent's, where libunwind starts */
	uint32_t known;
	uint32_t generation;         /* of rules, when libunwind's cache was last emptied */
	uint64_t page[XCHECK_PAGES]; /* proven readable in this event | 1 */
	int error;                   /* of libunwind's last step; 0 = it came to an end */

	uint32_t ours_count, theirs_count;
	struct mgl_node ours[XCHECK_OURS];
	struct xcheck_frame theirs[XCHECK_FRAMES];
};

/* --- theirs.c ------------------------------------------------------------------------ */

/* libunwind's state for x; false: no memory. Once. */
bool theirs_start(struct xcheck *x);
/* Walks from x->reg; x->theirs starts with the frame that called the hook. false: that was
 * not met. The agent's own frames are left out, as they are from the trie. */
bool theirs_walk(struct xcheck *x);
/* Whether libunwind finds a frame description for this address. */
bool theirs_has_cfi(struct xcheck *x, uint64_t address);

/* --- tell.c --------------------------------------------------------------------------- */

extern struct xcheck_file *xcheck_file; /* NULL = nothing is compared */

/* Maps the file, once a process image. */
bool tell_start(void);
/* Counts, and describes the first ones of a kind. parted: the first frame not the same. */
void tell(struct xcheck *x, enum xcheck_outcome outcome, uint32_t parted);
void tell_add(_Atomic uint64_t *counter, uint64_t by);

#endif
