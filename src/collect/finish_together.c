/* All processes of a session at one instant, as its snapshots have it. */
#include "collect/finish_internal.h"

/* What is not known of all together. */
static struct store_snap together_snap(const struct finishing *finishing,
				       const struct collect_snap *from, enum store_why why)
{
	struct store_snap snap = collect_finish_snap(finishing, STORE_ALL_PROCESSES, from);

	snap.why = why;
	snap.allocs = snap.frees = STORE_UNKNOWN;
	return snap;
}

static struct error *put_snap(struct finishing *finishing, const struct collect_snap *from,
			      enum store_why why)
{
	struct store_snap snap = together_snap(finishing, from, why);

	snap.id = ++finishing->snaps;
	return store_put(finishing->writer, &snap);
}

/* By time: the peak stands between the ticks around it. */
static struct error *put_snaps(struct finishing *finishing, const struct collect_together *together)
{
	bool said = together->most.live_bytes == 0;

	for (size_t i = 0; i < together->count; i++) {
		const struct collect_snap *snap = &together->snaps[i];

		if (!said && snap->ns >= together->most.ns) {
			said = true;
			TRY(put_snap(finishing, &together->most, STORE_WHY_PEAK));
			if (snap->ns == together->most.ns)
				continue;
		}
		TRY(put_snap(finishing, snap,
			     i + 1 == together->count ? STORE_WHY_END : STORE_WHY_TICK));
	}
	return NULL;
}

static struct error *put_shares(struct finishing *finishing,
				const struct collect_together *together)
{
	TRY(store_put_tree_peak(finishing->writer, STORE_ALL_PROCESSES, 0));
	for (size_t i = 0; i < together->share_count; i++)
		TRY(store_put_tree_peak(finishing->writer, together->shares[i].serial,
					together->shares[i].live_bytes));
	return NULL;
}

struct error *collect_finish_together(struct finishing *finishing)
{
	const struct collect_snapshots *snapshots = finishing->options->snapshots;
	struct collect_together together;

	if (!snapshots || !collect_snapshots_together(snapshots, &together) ||
	    (int64_t)together.most.live_bytes < 0 || (int64_t)together.bound < 0)
		return NULL;
	TRY(put_snaps(finishing, &together));
	TRY(store_put_meta_number(finishing->writer, "tree_peak_error",
				  together.bound > together.most.live_bytes
					  ? together.bound - together.most.live_bytes
					  : 0));
	return together.most.live_bytes ? put_shares(finishing, &together) : NULL;
}
