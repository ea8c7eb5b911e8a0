#include "collect/snapshot_tree.h"

#include <stdlib.h>

/* A process comes or goes. */
struct event {
	uint64_t ns;
	uint64_t bytes;
	bool ends;
};

/* Who ends when another starts may have been there at the same time. */
static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->ends - y->ends;
}

/* Between the looks: the most of those that were there at once. */
static struct error *sweep(const struct snapshot_tree *tree, uint64_t *ret)
{
	size_t count = tree->stays.count, at = 0;
	CLEANUP_FREE struct event *events = calloc(2 * count + 1, sizeof(*events));
	uint64_t bytes = 0, most = 0;

	if (!events)
		return error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct tree_stay *stay = &tree->stays.items[i];

		events[at++] = (struct event){stay->start_ns, stay->bound, false};
		events[at++] = (struct event){stay->end_ns, stay->bound, true};
	}
	qsort(events, at, sizeof(*events), compare_events);
	for (size_t i = 0; i < at; i++) {
		bytes += events[i].ends ? -events[i].bytes : events[i].bytes;
		most = bytes > most ? bytes : most;
	}
	*ret = most;
	return NULL;
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
