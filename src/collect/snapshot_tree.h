/*
 * All processes of a session at one instant: what lived in them together, the most that was
 * seen, and how much more there can have been between two instants.
 *
 * Of an interval between two looks it is known of each process what lived in it at the
 * first, what it allocated until the second, and the most that ever lived in it: the least
 * of what these allow bounds it. Those that ran at the same time are summed. While a look
 * lasts, a process may not have been looked at yet or just been: there it counts by what holds
 * from the look before that one to the next.
 *
 * Owner: the snapshots'. Times in CLOCK_MONOTONIC ns. Errors: no memory.
 */
#ifndef MALLOGRAPH_COLLECT_SNAPSHOT_TREE_H
#define MALLOGRAPH_COLLECT_SNAPSHOT_TREE_H

#include "base/vector.h"
#include "collect/snapshot.h"

/* A process since the look before. */
struct tree_stay {
	uint64_t start_ns;
	uint64_t end_ns;       /* UINT64_MAX = it lives */
	uint64_t bound;        /* bytes that lived in it at once, at most */
	uint64_t bound_across; /* the same since the look before that */
};

struct snapshot_tree {
	VECTOR(struct tree_stay) stays; /* of this look; those that left since the last, too */
	uint64_t before_start_ns;       /* of the look before; 0 = there was none */
	uint64_t before_end_ns;
	uint64_t bound; /* of the whole session */
	struct collect_snap best;
	VECTOR(struct collect_share) shares; /* of it */
};

/* A look from start to end is through; all that was seen of processes are stays. */
struct error *snapshot_tree_close(struct snapshot_tree *tree, uint64_t start_ns,
				  uint64_t end_ns) ERROR_MUST_CHECK;
void snapshot_tree_free(struct snapshot_tree *tree);

#endif
