/* Snapshots, and what each changed at which site. */
#include "collect/finish_internal.h"

#include <string.h>

uint64_t collect_finish_time(const struct finishing *finishing, uint64_t ns)
{
	uint64_t start = ledger_reader_session(finishing->reader)->start_ns;

	if (ns == 0)
		return STORE_UNKNOWN;
	return ns > start ? ns - start : 0;
}

static const struct collect_history *history_of(const struct finish_process *process)
{
	const struct collect_snapshots *snapshots = process->finishing->options->snapshots;

	return snapshots ? collect_snapshots_of(snapshots, process->from->serial) : NULL;
}

static void add_snap(struct finish_process *process, struct store_snap snap, uint32_t tick)
{
	process->snaps[process->snap_count] = snap;
	process->snap_ticks[process->snap_count++] = tick;
}

struct store_snap collect_finish_snap(const struct finishing *finishing, uint64_t process,
				      const struct collect_snap *from)
{
	return (struct store_snap){
		.process = process,
		.time = collect_finish_time(finishing, from->ns),
		.why = STORE_WHY_TICK,
		.live_blocks = (int64_t)from->live_blocks < 0 ? 0 : from->live_blocks,
		.live_bytes = (int64_t)from->live_bytes < 0 ? 0 : from->live_bytes,
		.allocs = from->allocs,
		.frees = from->frees,
		.mapped = from->mapped,
		.rss = from->resident.rss,
		.anon = from->resident.anon,
		.file = from->resident.file,
		.shmem = from->resident.shmem,
		.swap = from->resident.swap,
	};
}

/* Its sites' shares are site.peak_*: what else there was then nobody saw. */
static struct store_snap peak_snap(const struct finish_process *process)
{
	return (struct store_snap){
		.process = process->from->serial,
		.time = process->member->start_ns + process->member->peak_time_ns,
		.why = STORE_WHY_PEAK,
		.live_blocks =
			(int64_t)process->counts.peak_blocks < 0 ? 0 : process->counts.peak_blocks,
		.live_bytes =
			(int64_t)process->counts.peak_bytes < 0 ? 0 : process->counts.peak_bytes,
		.allocs = STORE_UNKNOWN,
		.frees = STORE_UNKNOWN,
		.mapped = STORE_UNKNOWN,
		.rss = STORE_UNKNOWN,
		.anon = STORE_UNKNOWN,
		.file = STORE_UNKNOWN,
		.shmem = STORE_UNKNOWN,
		.swap = STORE_UNKNOWN,
	};
}

static struct store_snap end_snap(const struct finish_process *process)
{
	const struct ledger_process *from = process->from;
	const struct finish_counts *counts = &process->counts;
	struct store_snap snap = peak_snap(process);

	snap.why = STORE_WHY_END;
	snap.time = process->member->start_ns;
	if (process->member->duration_ns != LEDGER_UNKNOWN)
		snap.time += process->member->duration_ns;
	else if (from->time_count)
		snap.time = collect_finish_time(process->finishing,
						from->times[from->time_count - 1].ns);
	/* Nobody saw it end: it lived at least as long as it was seen. */
	for (size_t i = 0; i < process->snap_count; i++)
		if (process->snaps[i].time > snap.time)
			snap.time = process->snaps[i].time;
	snap.live_blocks = counts->allocs > counts->frees ? counts->allocs - counts->frees : 0;
	snap.live_bytes =
		counts->bytes_in > counts->bytes_out ? counts->bytes_in - counts->bytes_out : 0;
	snap.allocs = counts->allocs;
	snap.frees = counts->frees;
	snap.mapped = from->mapped_bytes;
	return snap;
}

/* Puts the peak, last so far, where its time belongs. */
static void sort_peak(struct finish_process *process)
{
	for (size_t i = process->snap_count - 1;
	     i && process->snaps[i].time < process->snaps[i - 1].time; i--) {
		struct store_snap snap = process->snaps[i];
		uint32_t tick = process->snap_ticks[i];

		process->snaps[i] = process->snaps[i - 1];
		process->snap_ticks[i] = process->snap_ticks[i - 1];
		process->snaps[i - 1] = snap;
		process->snap_ticks[i - 1] = tick;
	}
}

struct error *collect_finish_snaps(struct finish_process *process)
{
	const struct collect_history *history = history_of(process);
	size_t ticks = history ? history->snaps.count : 0;

	process->snaps = calloc(ticks + 2, sizeof(*process->snaps));
	process->snap_ticks = calloc(ticks + 2, sizeof(*process->snap_ticks));
	if (!process->snaps || !process->snap_ticks)
		return error_no_memory();
	for (size_t i = 0; i < ticks; i++)
		add_snap(process,
			 collect_finish_snap(process->finishing, process->from->serial,
					     &history->snaps.items[i]),
			 history->snaps.items[i].tick);
	if (process->member->peak_time_ns != LEDGER_UNKNOWN) {
		add_snap(process, peak_snap(process), FINISH_NO_TICK);
		sort_peak(process);
	}
	add_snap(process, end_snap(process), FINISH_NO_TICK);
	for (size_t i = 0; i < process->snap_count; i++) {
		process->snaps[i].id = ++process->finishing->snaps;
		TRY(store_put(process->finishing->writer, &process->snaps[i]));
	}
	if (history && process->member->rss_peak == LEDGER_UNKNOWN &&
	    history->rss_peak != COLLECT_UNKNOWN)
		process->member->rss_peak = history->rss_peak;
	return NULL;
}

/* --- series: rows' changes, summed to sites ---------------------------------------- */

struct state {
	int64_t live_blocks;
	int64_t live_bytes;
	uint64_t allocs;
};

struct replay {
	struct finish_process *process;
	struct state *rows;  /* by row */
	struct state *sites; /* by site, from the process's first */
	size_t *touched_at;  /* by site: place + 1 of its entry of this tick */
	size_t site_count;
	size_t tick_begins; /* in series */
	VECTOR(struct store_series) series;
};

static void add_difference(struct state *sum, const struct state *before, const struct state *after)
{
	sum->live_blocks = (int64_t)((uint64_t)sum->live_blocks + (uint64_t)after->live_blocks -
				     (uint64_t)before->live_blocks);
	sum->live_bytes = (int64_t)((uint64_t)sum->live_bytes + (uint64_t)after->live_bytes -
				    (uint64_t)before->live_bytes);
	sum->allocs += after->allocs - before->allocs;
}

static void set_entry(struct store_series *entry, const struct state *state)
{
	entry->live_blocks = state->live_blocks < 0 ? 0 : (uint64_t)state->live_blocks;
	entry->live_bytes = state->live_bytes < 0 ? 0 : (uint64_t)state->live_bytes;
	entry->allocs = state->allocs;
}

/* The site's entry of the snapshot under way; several of its rows may have changed. */
static struct error *say(struct replay *replay, size_t site, uint64_t snap)
{
	size_t *at = &replay->touched_at[site];

	if (*at <= replay->tick_begins) {
		TRY(vector_push(&replay->series,
				((struct store_series){
					.site = replay->process->first_site + site + 1,
					.snap = snap,
				})));
		*at = replay->series.count;
	}
	set_entry(vector_at(&replay->series, *at - 1), &replay->sites[site]);
	return NULL;
}

static struct error *replay_change(struct replay *replay, const struct collect_change *change,
				   uint64_t snap)
{
	struct finish_process *process = replay->process;
	const struct ledger_row *row = ledger_rows_find(&process->rows, change->row);
	size_t at = row ? (size_t)(row - process->rows.items) : 0;

	if (!row || process->row_sites[at] == UINT32_MAX)
		return NULL;
	size_t site = process->row_sites[at] - process->first_site;
	struct state now = {
		.live_blocks = change->live_blocks,
		.live_bytes = change->live_bytes,
		.allocs = change->allocs,
	};

	add_difference(&replay->sites[site], &replay->rows[at], &now);
	replay->rows[at] = now;
	return say(replay, site, snap);
}

static struct error *replay_history(struct replay *replay, const struct collect_history *history)
{
	struct finish_process *process = replay->process;
	size_t next = 0;

	for (size_t i = 0; i < process->snap_count; i++) {
		if (process->snap_ticks[i] == FINISH_NO_TICK)
			continue;
		replay->tick_begins = replay->series.count;
		while (next < history->changes.count &&
		       history->changes.items[next].tick <= process->snap_ticks[i])
			TRY(replay_change(replay, &history->changes.items[next++],
					  process->snaps[i].id));
	}
	return NULL;
}

/* What the sites ended with, where that is not what was said last. */
static struct error *replay_end(struct replay *replay, uint64_t *left_out)
{
	struct finish_process *process = replay->process;
	uint64_t room = COLLECT_SERIES - process->finishing->series;

	replay->tick_begins = replay->series.count;
	for (size_t i = 0; i < replay->site_count; i++) {
		const struct finish_counts *counts =
			&process->finishing->sites.items[process->first_site + i].counts;
		struct state end = {
			.live_blocks = (int64_t)(counts->allocs - counts->frees),
			.live_bytes = (int64_t)(counts->bytes_in - counts->bytes_out),
			.allocs = counts->allocs,
		};

		if (memcmp(&end, &replay->sites[i], sizeof(end)) == 0)
			continue;
		if (replay->series.count >= room) {
			++*left_out;
			continue;
		}
		replay->sites[i] = end;
		TRY(say(replay, i, process->snaps[process->snap_count - 1].id));
	}
	return NULL;
}

/* By site, then snapshot: they are by snapshot already. */
static struct error *put_series(struct replay *replay)
{
	size_t count = replay->series.count;
	struct finishing *finishing = replay->process->finishing;
	CLEANUP_FREE size_t *ends = calloc(replay->site_count + 1, sizeof(*ends));
	CLEANUP_FREE size_t *order = calloc(count + 1, sizeof(*order));

	if (!ends || !order)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		ends[replay->series.items[i].site - replay->process->first_site]++;
	/* Sites are counted from 1 there, so that this sums what comes before each. */
	for (size_t i = 1; i <= replay->site_count; i++)
		ends[i] += ends[i - 1];
	for (size_t i = 0; i < count; i++)
		order[ends[replay->series.items[i].site - replay->process->first_site - 1]++] = i;
	for (size_t i = 0; i < count; i++) {
		struct store_series *row = &replay->series.items[order[i]];

		row->site += finishing->sites_put;
		TRY(store_put(finishing->writer, row));
	}
	finishing->series += count;
	return NULL;
}

static struct error *replay_all(struct replay *replay, uint64_t *left_out)
{
	const struct collect_history *history = history_of(replay->process);

	replay->rows = calloc(replay->process->rows.count + 1, sizeof(*replay->rows));
	replay->sites = calloc(replay->site_count + 1, sizeof(*replay->sites));
	replay->touched_at = calloc(replay->site_count + 1, sizeof(*replay->touched_at));
	if (!replay->rows || !replay->sites || !replay->touched_at)
		return error_no_memory();
	if (history) {
		*left_out = history->left_out;
		TRY(replay_history(replay, history));
	}
	/* What was never looked at has an end alone, and that is in its sites. */
	if (!history || history->snaps.count == 0)
		return NULL;
	TRY(replay_end(replay, left_out));
	return put_series(replay);
}

struct error *collect_finish_series(struct finish_process *process)
{
	struct replay replay = {
		.process = process,
		.site_count = process->finishing->sites.count - process->first_site,
	};
	uint64_t left_out = 0;
	struct error *error = replay_all(&replay, &left_out);

	free(replay.rows);
	free(replay.sites);
	free(replay.touched_at);
	vector_free(&replay.series);
	if (!error && left_out)
		error = ledger_member_add_missing(process->member, "series_thinned", left_out,
						  NULL);
	return error;
}
