/* What the looks at single processes say of all of them together. */
#include "collect/snapshot_internal.h"

#include "base/clock.h"

struct total {
	uint64_t in;
	uint64_t out;
};

static struct error *add_row(void *context, const struct ledger_glance_row *row)
{
	struct total *total = context;

	total->in += row->bytes_in;
	total->out += row->bytes_out;
	return NULL;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct error *collect_snapshots_add_stay(struct collect_snapshots *snapshots,
					 struct snapshot_subject *subject, uint64_t end_ns)
{
	struct snapshot_stand *before = subject->before,
			      now = {
				      .live_bytes = subject->sums.live_bytes,
				      .bytes_in = subject->bytes_in,
			      };
	struct tree_stay stay = {
		.start_ns = subject->start_ns,
		.end_ns = end_ns,
		.bound = least(subject->peak,
			       before[0].live_bytes + (now.bytes_in - before[0].bytes_in)),
		.bound_across = least(subject->peak,
				      before[1].live_bytes + (now.bytes_in - before[1].bytes_in)),
	};

	/* Rows that the reader could not see yet may have more. */
	if (subject->is_stale)
		stay.bound = stay.bound_across = subject->peak;
	before[1] = before[0];
	before[0] = now;
	return vector_push(&snapshots->tree.stays, stay);
}

/* By pid: when it was last waited for, as far as the reader knows. */
static struct error *find_ends(struct collect_snapshots *snapshots)
{
	if (snapshots->ends_of == snapshots->opened)
		return NULL;
	map_u64_free(&snapshots->ends);
	for (size_t i = 0; i < ledger_reader_process_count(snapshots->reader); i++) {
		const struct ledger_process *process = ledger_reader_process(snapshots->reader, i);

		for (size_t j = 0; j < process->wait_count; j++) {
			const struct ledger_wait *wait = &process->waits[j];
			const uint64_t *last = map_u64_find(&snapshots->ends, (uint32_t)wait->pid);

			if (!last || *last < wait->ns)
				TRY(map_u64_set(&snapshots->ends, (uint32_t)wait->pid, wait->ns));
		}
	}
	snapshots->ends_of = snapshots->opened;
	return NULL;
}

/* No later than it was waited for, or now. */
static struct error *end_of(struct collect_snapshots *snapshots,
			    const struct snapshot_subject *subject, uint64_t *ret)
{
	TRY(find_ends(snapshots));

	const uint64_t *waited = map_u64_find(&snapshots->ends, (uint32_t)subject->pid);

	/* In another namespace it may be another that was waited for. */
	*ret = waited && *waited > subject->start_ns && !snapshots->whose.has_spaces
		       ? *waited
		       : clock_now_ns();
	return NULL;
}

struct error *collect_snapshots_settle(struct collect_snapshots *snapshots, size_t place,
				       struct snapshot_subject *subject)
{
	struct ledger_glance glance;
	struct total total = {0};
	uint64_t end_ns;

	subject->is_settled = true;
	TRY(ledger_rows_glance(snapshots->reader, place, add_row, &total, &glance));
	subject->bytes_in = total.in;
	subject->sums.live_bytes = total.in - total.out;
	subject->peak = glance.peak;
	subject->is_stale = glance.stale;
	TRY(end_of(snapshots, subject, &end_ns));
	return collect_snapshots_add_stay(snapshots, subject, end_ns);
}

/* Its ledger tells of a moment that may be long past, and of a process that ended in it. */
static bool is_there(const struct collect_snapshots *snapshots,
		     const struct snapshot_subject *subject)
{
	const struct collect_history *history = &subject->history;

	return !subject->is_settled && history->snaps.count &&
	       history->snaps.items[history->snaps.count - 1].tick == snapshots->tick;
}

static struct collect_snap add_up(const struct collect_snapshots *snapshots, uint64_t ns)
{
	struct collect_snap sum = {
		.tick = snapshots->tick,
		.ns = ns,
		.resident = {COLLECT_UNKNOWN, COLLECT_UNKNOWN, COLLECT_UNKNOWN, COLLECT_UNKNOWN,
			     COLLECT_UNKNOWN, COLLECT_UNKNOWN},
	};

	for (size_t i = 0; i < snapshots->subjects.count; i++) {
		const struct snapshot_subject *subject = snapshots->subjects.items[i];

		if (!is_there(snapshots, subject))
			continue;
		const struct collect_snap *snap =
			vector_at(&subject->history.snaps, subject->history.snaps.count - 1);

		sum.live_blocks += snap->live_blocks;
		sum.live_bytes += snap->live_bytes;
		sum.mapped += snap->mapped;
	}
	return sum;
}

/* What has left the tree is in neither sum. */
static struct error *keep_best(struct collect_snapshots *snapshots, const struct collect_snap *sum)
{
	struct snapshot_tree *tree = &snapshots->tree;

	if ((int64_t)sum->live_bytes <= (int64_t)tree->best.live_bytes)
		return NULL;
	tree->best = *sum;
	tree->shares.count = 0;
	for (size_t i = 0; i < snapshots->subjects.count; i++) {
		const struct snapshot_subject *subject = snapshots->subjects.items[i];
		struct collect_share share = {
			.serial = subject->history.serial,
			.live_bytes = subject->sums.live_bytes,
		};

		if (is_there(snapshots, subject))
			TRY(vector_push(&tree->shares, share));
	}
	return NULL;
}

struct error *collect_snapshots_close_look(struct collect_snapshots *snapshots, uint64_t start_ns)
{
	struct collect_history *history = &snapshots->all.history;
	uint64_t now = clock_now_ns();
	struct collect_snap sum = add_up(snapshots, now);

	TRY(snapshot_tree_close(&snapshots->tree, start_ns, now));
	TRY(keep_best(snapshots, &sum));
	/* Where nobody was there, the tick goes on. */
	if (history->snaps.count && history->snaps.items[history->snaps.count - 1].tick == sum.tick)
		history->snaps.count--;
	return vector_push(&history->snaps, sum);
}

struct error *collect_snapshots_leave(struct collect_snapshots *snapshots, size_t place)
{
	uint32_t serial = ledger_reader_process(snapshots->reader, place)->serial;
	struct snapshot_subject *subject = collect_snapshots_subject(snapshots, serial);

	if (!subject)
		return NULL;
	if (!subject->is_settled)
		TRY(collect_snapshots_settle(snapshots, place, subject));
	collect_snapshots_forget(snapshots, serial);
	return NULL;
}

struct error *collect_snapshots_doubt(struct collect_snapshots *snapshots)
{
	for (size_t i = 0; i < ledger_reader_process_count(snapshots->reader); i++) {
		uint32_t serial = ledger_reader_process(snapshots->reader, i)->serial;
		struct snapshot_subject *subject = collect_snapshots_subject(snapshots, serial);
		struct ledger_glance glance;
		struct total total = {0};

		if (!subject || !subject->is_settled)
			continue;
		TRY(ledger_rows_glance(snapshots->reader, i, add_row, &total, &glance));
		/* At any time, beside all that was known of the others. */
		if (total.in != subject->bytes_in)
			snapshots->tree.bound += glance.peak;
	}
	return NULL;
}

struct error *collect_snapshots_end(struct collect_snapshots *snapshots)
{
	snapshots->reader_bytes = 0;
	TRY(collect_snapshots_take(snapshots));
	return collect_snapshots_doubt(snapshots);
}

bool collect_snapshots_together(const struct collect_snapshots *snapshots,
				struct collect_together *ret)
{
	const struct snapshot_tree *tree = &snapshots->tree;

	*ret = (struct collect_together){
		.snaps = snapshots->all.history.snaps.items,
		.count = snapshots->all.history.snaps.count,
		.most = tree->best,
		.shares = tree->shares.items,
		.share_count = tree->shares.count,
		.bound = tree->bound,
	};
	return !snapshots->ended && snapshots->by_serial.count > 1;
}
