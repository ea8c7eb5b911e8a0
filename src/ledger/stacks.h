/*
 * Canonical stacks. The same stack may stand in a session more than once: two threads
 * made its nodes at the same time, its library was unloaded and came back elsewhere, or
 * it was mapped at another address in another process. Here modules are equal by path and
 * build-id, frames by parent, module and offset. Frames of the agent are left out.
 *
 * Owner: the caller, by the _deinit() of each. A frame's place is more than its parent's.
 * They stay what they are from one reader of a session to the next: frames may be named
 * while it is recorded.
 */
#ifndef MALLOGRAPH_LEDGER_STACKS_H
#define MALLOGRAPH_LEDGER_STACKS_H

#include "base/map.h"
#include "base/vector.h"
#include "ledger/reader.h"

/* A frame below its parent's; [0] of the array stands for "no frame". */
struct ledger_frame {
	uint32_t parent; /* place of the outer frame; 0 = outermost */
	uint32_t module; /* place; 0 = none, where the stack is cut */
	uint64_t offset; /* pc as captured − load bias */
	uint32_t flags;  /* MGL_NODE_EXACT, _FP, _CUT */
	uint32_t depth;  /* frames from here to the outermost */
};

struct ledger_stacks {
	struct ledger_reader *reader; /* to set; whoever names frames needs it */
	VECTOR(struct ledger_frame) frames;
	VECTOR(struct ledger_module *) modules; /* copies of the first met; [0] is NULL */
	struct map_index frame_index;
	struct map_index module_index;
};

/* One process's share: what its own names mean in the whole. */
struct ledger_naming {
	struct ledger_stacks *stacks;
	size_t process;           /* place in the reader's */
	uint32_t nowhere;         /* place of its code that is in no module; 0 = none was met */
	VECTOR(uint32_t) modules; /* by the process's index: place in the whole; 0 = not known */
	VECTOR(uint32_t *) nodes; /* by ref, in pages: 1 + place of its frame; 0 = not met */
	uint64_t damage;          /* stacks that make no sense */
};

struct error *ledger_stacks_init(struct ledger_stacks *stacks) ERROR_MUST_CHECK;
/* Next in their arrays, of which the caller knows that there is no such one yet; a frame's depth
 * is set. */
struct error *ledger_stacks_add_module(struct ledger_stacks *stacks,
				       const struct ledger_module *module) ERROR_MUST_CHECK;
struct error *ledger_stacks_add_frame(struct ledger_stacks *stacks,
				      struct ledger_frame frame) ERROR_MUST_CHECK;
void ledger_stacks_deinit(struct ledger_stacks *stacks);

void ledger_naming_init(struct ledger_naming *naming, struct ledger_stacks *stacks);
/* After the stacks got their reader, or another: where the process is in it. */
struct error *ledger_naming_attach(struct ledger_naming *naming, size_t process) ERROR_MUST_CHECK;
void ledger_naming_deinit(struct ledger_naming *naming);
/* The frame of a node and, through it, of its whole stack; 0 for ref 0. */
struct error *ledger_naming_frame(struct ledger_naming *naming, uint32_t ref,
				  uint32_t *ret) ERROR_MUST_CHECK;
/* The same of a process that runs, for those to come: what cannot be read now is left. */
struct error *ledger_naming_try(struct ledger_naming *naming, uint32_t ref) ERROR_MUST_CHECK;

#endif
