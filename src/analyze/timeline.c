#include "analyze/timeline.h"

#include <stdlib.h>

#include "analyze/model_internal.h"

static int compare_snaps(const void *a, const void *b)
{
	const struct analyze_snap *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static struct analyze_snap snap_of(const struct store_snap *row, uint64_t start)
{
	uint64_t time = row->time == STORE_UNKNOWN ? 0 : row->time;

	return (struct analyze_snap){
		.ns = time > start ? time - start : 0,
		.live_bytes = row->live_bytes == STORE_UNKNOWN ? 0 : row->live_bytes,
		.live_blocks = row->live_blocks == STORE_UNKNOWN ? 0 : row->live_blocks,
		.rss = row->rss,
		.mapped = row->mapped == STORE_UNKNOWN ? 0 : row->mapped,
		.is_peak = row->why == STORE_WHY_PEAK,
	};
}

struct listing {
	uint64_t start;
	size_t ticks;
	VECTOR(struct analyze_snap) snaps;
};

static struct error *add_snap(void *context, const void *from)
{
	const struct store_snap *row = from;
	struct listing *listing = context;

	listing->ticks += row->why != STORE_WHY_PEAK && row->why != STORE_WHY_END;
	return vector_push(&listing->snaps, snap_of(row, listing->start));
}

struct error *analyze_timeline_load(struct analyze_model *model, uint32_t process,
				    struct analyze_timeline *ret)
{
	bool all = process == ANALYZE_ALL_PROCESSES;
	struct listing listing = {.start = all ? 0 : model->processes[process].start_ns};
	struct store_snap row;
	struct error *error = analyze_each_row(
		model->reader, STORE_TABLE_SNAP,
		all ? STORE_ALL_PROCESSES : model->processes[process].id, &row, add_snap, &listing);
	size_t count = listing.snaps.count;

	*ret = (struct analyze_timeline){
		.snaps = listing.snaps.items,
		.count = count,
		.ticks = listing.ticks,
	};
	if (error) {
		analyze_timeline_free(ret);
		return error;
	}
	if (count) {
		qsort(ret->snaps, count, sizeof(*ret->snaps), compare_snaps);
		ret->end_ns = ret->snaps[count - 1].ns;
	}
	return NULL;
}

void analyze_timeline_free(struct analyze_timeline *timeline)
{
	free(timeline->snaps);
	*timeline = (struct analyze_timeline){0};
}

size_t analyze_timeline_column(const struct analyze_timeline *timeline, uint64_t ns, size_t count)
{
	size_t column =
		timeline->end_ns ? (size_t)((unsigned __int128)ns * count / timeline->end_ns) : 0;

	return column < count ? column : count - 1;
}

void analyze_timeline_spread(const struct analyze_timeline *timeline, uint64_t *columns,
			     size_t count)
{
	uint64_t last = 0;
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		bool seen = false;

		columns[i] = 0;
		while (at < timeline->count &&
		       analyze_timeline_column(timeline, timeline->snaps[at].ns, count) == i) {
			last = timeline->snaps[at++].live_bytes;
			if (last > columns[i])
				columns[i] = last;
			seen = true;
		}
		if (!seen)
			columns[i] = last;
	}
}
