#include "base/overlap.h"

#include <stdlib.h>

struct edge {
	uint64_t at;
	uint64_t weight;
	bool begins;
};

/* One ends before another begins at the same time. */
static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->begins - y->begins;
}

struct error *overlap_most(const struct overlap *items, size_t count, uint64_t *ret)
{
	CLEANUP_FREE struct edge *edges = calloc(2 * count + 1, sizeof(*edges));
	unsigned __int128 sum = 0, most = 0;
	size_t used = 0;

	if (!edges)
		return error_no_memory();
	for (size_t i = 0; i < count; i++) {
		if (items[i].end <= items[i].start)
			continue;
		edges[used++] = (struct edge){items[i].start, items[i].weight, true};
		edges[used++] = (struct edge){items[i].end, items[i].weight, false};
	}
	if (used)
		qsort(edges, used, sizeof(*edges), compare_edges);
	for (size_t i = 0; i < used; i++) {
		sum = edges[i].begins ? sum + edges[i].weight : sum - edges[i].weight;
		most = sum > most ? sum : most;
	}
	*ret = most > UINT64_MAX ? UINT64_MAX : (uint64_t)most;
	return NULL;
}
