#include "collect/snapshot_tree.h"

#include <stdlib.h>

#include "base/overlap.h"

/* Between the looks: the most of those that were there at once. Who ends when another starts
 * may have been there at the same time. */
static struct error *sweep(const struct snapshot_tree *tree, uint64_t *ret)
{
	CLEANUP_FREE struct overlap *items = calloc(tree->stays.count + 1, sizeof(*items));

	if (!items)
		return error_no_memory();
	for (size_t i = 0; i < tree->stays.count; i++) {
		const struct tree_stay *stay = &tree->stays.items[i];

		items[i] = (struct overlap){
			.start = stay->start_ns,
			.end = stay->end_ns == UINT64_MAX ? UINT64_MAX : stay->end_ns + 1,
			.weight = stay->bound,
		};
	}
	return overlap_most(items, tree->stays.count, ret);
}

/* While the look before lasted. */
static uint64_t bound_of_look(const struct snapshot_tree *tree)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < tree->stays.count; i++) {
		const struct tree_stay *stay = &tree->stays.items[i];

		if (stay->start_ns <= tree->before_end_ns && stay->end_ns >= tree->before_start_ns)
			bytes += stay->bound_across;
	}
	return bytes;
}

struct error *snapshot_tree_close(struct snapshot_tree *tree, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t between = 0, during = bound_of_look(tree);

	TRY(sweep(tree, &between));
	if (during > tree->bound)
		tree->bound = during;
	if (between > tree->bound)
		tree->bound = between;
	tree->stays.count = 0;
	tree->before_start_ns = start_ns;
	tree->before_end_ns = end_ns;
	return NULL;
}

void snapshot_tree_free(struct snapshot_tree *tree)
{
	vector_free(&tree->stays);
	vector_free(&tree->shares);
}
