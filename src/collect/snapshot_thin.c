/* Keeping snapshots bounded: fewer of them, and fewer changes in each. */
#include "collect/snapshot_internal.h"

#define DROPPED UINT32_MAX

static void halve_snaps(struct collect_history *history)
{
	size_t kept = 0;

	for (size_t i = 0; i < history->snaps.count; i++) {
		struct collect_snap snap = history->snaps.items[i];

		/* A process that ended between the two has the earlier alone. */
		snap.tick /= 2;
		if (kept && history->snaps.items[kept - 1].tick == snap.tick)
			kept--;
		history->snaps.items[kept++] = snap;
	}
	history->snaps.count = kept;
}

static void drop_marked(struct collect_history *history)
{
	size_t kept = 0;

	for (size_t i = 0; i < history->changes.count; i++)
		if (history->changes.items[i].tick != DROPPED)
			history->changes.items[kept++] = history->changes.items[i];
	history->changes.count = kept;
}

struct error *collect_snapshot_halve(struct snapshot_subject *subject)
{
	struct collect_history *history = &subject->history;
	struct map_u64 newest = {0}; /* row: the pair of ticks of its change met last */
	struct error *error = NULL;

	halve_snaps(history);
	/* From the end, since of two changes in a pair the later stays. */
	for (size_t i = history->changes.count; i-- && !error;) {
		struct collect_change *change = &history->changes.items[i];
		const uint64_t *pair = map_u64_find(&newest, change->row);

		change->tick /= 2;
		if (pair && *pair == change->tick)
			change->tick = DROPPED;
		else
			error = map_u64_set(&newest, change->row, change->tick);
	}
	map_u64_free(&newest);
	drop_marked(history);
	return error;
}

/* What each row's last change said after some were left out. */
static void set_said(struct snapshot_subject *subject, const struct map_u64 *said)
{
	for (size_t i = 0; subject->row_at.entries && i <= subject->row_at.mask; i++) {
		const struct map_u64_entry *entry = &subject->row_at.entries[i];
		const uint64_t *bytes = entry->used ? map_u64_find(said, entry->key) : NULL;

		if (entry->used)
			subject->rows.items[entry->value].said_bytes = bytes ? (int64_t)*bytes : 0;
	}
}

struct error *collect_snapshot_thin(struct snapshot_subject *subject, unsigned int shift)
{
	struct collect_history *history = &subject->history;
	struct map_u64 said = {0}; /* row: live bytes */
	struct error *error = NULL;
	size_t snap = 0;

	for (size_t i = 0; i < history->changes.count && !error; i++) {
		struct collect_change *change = &history->changes.items[i];
		const uint64_t *before = map_u64_find(&said, change->row);

		while (snap + 1 < history->snaps.count &&
		       history->snaps.items[snap].tick < change->tick)
			snap++;
		uint64_t live = history->snaps.count ? history->snaps.items[snap].live_bytes : 0;

		if (collect_snapshot_is_small(before ? (int64_t)*before : 0, change->live_bytes,
					      live, shift)) {
			change->tick = DROPPED;
			history->left_out++;
		} else {
			error = map_u64_set(&said, change->row, (uint64_t)change->live_bytes);
		}
	}
	drop_marked(history);
	if (!error)
		set_said(subject, &said);
	map_u64_free(&said);
	return error;
}
