#include "collect/snapshot.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "collect/early.h"
#include "collect/files.h"
#include "collect/resident.h"
#include "collect/session.h"
#include "collect/snapshot_internal.h"
#include "ledger/reader.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define FIRST_INTERVAL_NS UINT64_C(10000000)
#define FIRST_THIN_SHIFT  12
#define FORGOTTEN         UINT64_MAX /* in place of a subject */

struct error *collect_snapshots_create(int fd, const char *name, uint32_t max_snapshots,
				       uint64_t max_changes, struct collect_snapshots **ret)
{
	struct collect_snapshots *snapshots = calloc(1, sizeof(*snapshots));
	struct rlimit limit;

	if (!snapshots)
		return error_no_memory();
	snapshots->fd = fd;
	snapshots->name = strdup(name);
	snapshots->max_snapshots = max_snapshots ? max_snapshots : COLLECT_SNAPSHOTS;
	snapshots->max_changes = max_changes ? max_changes : COLLECT_CHANGES;
	snapshots->interval_ns = FIRST_INTERVAL_NS;
	snapshots->due_ns = clock_now_ns() + FIRST_INTERVAL_NS;
	snapshots->all.directory = -1;
	snapshots->max_held = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
	if (!snapshots->name) {
		collect_snapshots_free(snapshots);
		return error_no_memory();
	}
	*ret = snapshots;
	return NULL;
}

static void forget_process(struct snapshot_subject *subject)
{
	if (subject->directory >= 0)
		close(subject->directory);
	subject->directory = -1;
	subject->is_forgotten = true;
	/* What it said last is in its history; what it holds at its end is in its ledger. */
	vector_free(&subject->rows);
	map_u64_free(&subject->news.newest);
	map_u64_free(&subject->row_at);
}

static void free_subject(struct snapshot_subject *subject)
{
	forget_process(subject);
	vector_free(&subject->history.snaps);
	vector_free(&subject->history.changes);
	free(subject);
}

void collect_snapshots_free(struct collect_snapshots *snapshots)
{
	if (!snapshots)
		return;
	for (size_t i = 0; i < snapshots->subjects.count; i++)
		free_subject(snapshots->subjects.items[i]);
	vector_free(&snapshots->subjects);
	vector_free(&snapshots->all.history.snaps);
	snapshot_tree_free(&snapshots->tree);
	map_u64_free(&snapshots->by_serial);
	map_u64_free(&snapshots->ends);
	collect_whose_free(&snapshots->whose);
	ledger_reader_close(snapshots->reader);
	free(snapshots->name);
	free(snapshots);
}

struct snapshot_subject *collect_snapshots_subject(const struct collect_snapshots *snapshots,
						   uint32_t serial)
{
	const uint64_t *at = map_u64_find(&snapshots->by_serial, serial);

	return at && *at != FORGOTTEN ? snapshots->subjects.items[*at] : NULL;
}

void collect_snapshots_forget(struct collect_snapshots *snapshots, uint32_t serial)
{
	uint64_t *at = map_u64_find(&snapshots->by_serial, serial);
	struct snapshot_subject *subject = snapshots->subjects.items[*at];
	struct snapshot_subject *last = snapshots->subjects.items[--snapshots->subjects.count];

	snapshots->subjects.items[*at] = last;
	*map_u64_find(&snapshots->by_serial, last->history.serial) = *at;
	*at = FORGOTTEN;
	free_subject(subject);
}

struct error *collect_snapshots_reader(struct collect_snapshots *snapshots, bool anew,
				       struct ledger_reader **ret)
{
	if (anew)
		snapshots->reader_bytes = 0;
	TRY(collect_snapshots_refresh(snapshots));
	*ret = snapshots->reader;
	return NULL;
}

uint64_t collect_snapshots_opened(const struct collect_snapshots *snapshots)
{
	return snapshots->opened;
}

const struct collect_history *collect_snapshots_of(const struct collect_snapshots *snapshots,
						   uint32_t serial)
{
	const struct snapshot_subject *subject = collect_snapshots_subject(snapshots, serial);

	return subject ? &subject->history : NULL;
}

static struct error *add_subject(struct collect_snapshots *snapshots,
				 const struct ledger_process *process)
{
	struct snapshot_subject *subject = calloc(1, sizeof(*subject));

	if (!subject)
		return error_no_memory();
	subject->history.serial = process->serial;
	subject->history.rss_peak = COLLECT_UNKNOWN;
	subject->pid = process->pid;
	subject->start_ns = process->start_ns;
	subject->directory = -1;
	struct error *error =
		collect_whose(&snapshots->whose, process, ledger_reader_session(snapshots->reader),
			      snapshots->fd, &subject->here);

	subject->is_forgotten = subject->here == 0;
	if (subject->here && snapshots->held < snapshots->max_held) {
		subject->directory = collect_resident_open(subject->here, process->starttime);
		subject->is_forgotten = subject->directory < 0;
	}
	snapshots->held += subject->directory >= 0;
	if (!error)
		error = vector_push(&snapshots->subjects, subject);

	if (error) {
		forget_process(subject);
		free(subject);
		return error;
	}
	return map_u64_set(&snapshots->by_serial, process->serial, snapshots->subjects.count - 1);
}

/* The same pid in another namespace is another process: one that was forked or spawned took it from
 * nobody but who ended, and that shows where it is looked at. */
static bool is_ended_by(const struct snapshot_subject *subject,
			const struct ledger_process *process)
{
	if (subject->pid != process->pid)
		return false;
	if (process->how == MGL_HOW_EXEC && process->parent)
		return subject->history.serial == process->parent;
	return process->how == MGL_HOW_EXEC || process->how == MGL_HOW_ROOT ||
	       subject->directory < 0;
}

/* New processes; and those before them with the same pid are what an exec ended. */
static struct error *add_subjects(struct collect_snapshots *snapshots)
{
	size_t count = ledger_reader_process_count(snapshots->reader);

	collect_whose_begin(&snapshots->whose);
	for (size_t i = 0; i < count; i++) {
		const struct ledger_process *process = ledger_reader_process(snapshots->reader, i);

		if (map_u64_find(&snapshots->by_serial, process->serial))
			continue;
		for (size_t j = 0; j < snapshots->subjects.count; j++)
			if (is_ended_by(snapshots->subjects.items[j], process))
				forget_process(snapshots->subjects.items[j]);
		TRY(add_subject(snapshots, process));
	}
	return NULL;
}

static struct error *see_files(struct collect_snapshots *snapshots)
{
	size_t count = snapshots->files ? ledger_reader_process_count(snapshots->reader) : 0;

	for (size_t i = 0; i < count; i++) {
		const struct ledger_process *process = ledger_reader_process(snapshots->reader, i);
		struct snapshot_subject *subject =
			collect_snapshots_subject(snapshots, process->serial);

		if (!subject || subject->directory < 0)
			continue;
		TRY(collect_files_see(snapshots->files, process, subject->modules));
		subject->modules = process->module_count;
	}
	return NULL;
}

void collect_snapshots_set_files(struct collect_snapshots *snapshots, struct collect_files *files)
{
	snapshots->files = files;
}

/* The reader knows what was in the file when it was opened: units taken since are open to
 * a new one alone. */
struct error *collect_snapshots_refresh(struct collect_snapshots *snapshots)
{
	uint64_t used;

	TRY(collect_session_used(snapshots->fd, snapshots->name, &used));
	if (snapshots->reader && used == snapshots->reader_bytes)
		return NULL;
	ledger_reader_close(snapshots->reader);
	snapshots->reader = NULL;
	TRY(ledger_reader_open_fd(snapshots->fd, snapshots->name, &snapshots->reader));
	snapshots->reader_bytes = used;
	snapshots->opened++;
	TRY(add_subjects(snapshots));
	return see_files(snapshots);
}

static struct error *row_of(struct snapshot_subject *subject, uint32_t ref,
			    struct snapshot_row **ret)
{
	const uint64_t *at = map_u64_find(&subject->row_at, ref);

	if (!at) {
		TRY(vector_push(&subject->rows, (struct snapshot_row){0}));
		TRY(map_u64_set(&subject->row_at, ref, subject->rows.count - 1));
		*ret = &subject->rows.items[subject->rows.count - 1];
	} else {
		*ret = &subject->rows.items[*at];
	}
	return NULL;
}

struct looking {
	struct collect_snapshots *snapshots;
	struct snapshot_subject *subject;
};

/* Sums wrap rather than overflow: what a damaged ledger adds up to is nobody's truth. */
static void add_sums(struct snapshot_subject *subject, const struct snapshot_row *before,
		     const struct snapshot_row *after)
{
	struct collect_snap *sums = &subject->sums;

	sums->live_blocks += (uint64_t)after->live_blocks - (uint64_t)before->live_blocks;
	sums->live_bytes += (uint64_t)after->live_bytes - (uint64_t)before->live_bytes;
	sums->allocs += after->allocs - before->allocs;
	sums->frees += after->frees - before->frees;
	subject->bytes_in += after->bytes_in - before->bytes_in;
}

static struct error *see_row(void *context, const struct ledger_glance_row *seen)
{
	struct looking *looking = context;
	struct collect_snapshots *snapshots = looking->snapshots;
	struct snapshot_subject *subject = looking->subject;
	struct snapshot_row *row;

	TRY(row_of(subject, seen->ref, &row));
	if (row->allocs == seen->allocs && row->frees == seen->frees)
		return NULL;
	struct snapshot_row before = *row;

	row->allocs = seen->allocs;
	row->frees = seen->frees;
	row->bytes_in = seen->bytes_in;
	row->live_blocks = (int64_t)(seen->allocs - seen->frees);
	row->live_bytes = (int64_t)(seen->bytes_in - seen->bytes_out);
	add_sums(subject, &before, row);
	if (collect_snapshot_is_small(row->said_bytes, row->live_bytes, subject->sums.live_bytes,
				      snapshots->thin_shift)) {
		subject->history.left_out++;
		return NULL;
	}
	row->said_bytes = row->live_bytes;
	return vector_push(&subject->history.changes, ((struct collect_change){
							      .tick = snapshots->tick,
							      .row = seen->ref,
							      .live_blocks = row->live_blocks,
							      .live_bytes = row->live_bytes,
							      .allocs = row->allocs,
						      }));
}

/* Of more processes than this one may have descriptors resident memory is not known. */
static bool is_alive(struct snapshot_subject *subject, struct collect_resident *resident)
{
	if (subject->directory >= 0 || subject->is_forgotten)
		return collect_resident_read(subject->directory, resident);
	*resident = (struct collect_resident){COLLECT_UNKNOWN, COLLECT_UNKNOWN, COLLECT_UNKNOWN,
					      COLLECT_UNKNOWN, COLLECT_UNKNOWN, COLLECT_UNKNOWN};
	return kill(subject->here, 0) == 0 || errno == EPERM;
}

/* place: in the reader's processes. */
static struct error *look_at(struct collect_snapshots *snapshots, size_t place,
			     struct snapshot_subject *subject, bool *stale)
{
	struct looking looking = {.snapshots = snapshots, .subject = subject};
	struct collect_snap snap = {.tick = snapshots->tick, .ns = clock_now_ns()};
	struct ledger_glance glance;

	if (!is_alive(subject, &snap.resident)) {
		forget_process(subject);
		return collect_snapshots_settle(snapshots, place, subject);
	}
	TRY(ledger_rows_glance(snapshots->reader, place, see_row, &looking, &glance));
	*stale |= glance.stale;
	subject->is_stale = glance.stale;
	if (snap.resident.peak != COLLECT_UNKNOWN)
		subject->history.rss_peak = snap.resident.peak;
	subject->peak = glance.peak;
	snap.live_blocks = subject->sums.live_blocks;
	snap.live_bytes = subject->sums.live_bytes;
	snap.allocs = subject->sums.allocs;
	snap.frees = subject->sums.frees;
	snap.mapped = glance.mapped_bytes;
	TRY(vector_push(&subject->history.snaps, snap));
	return collect_snapshots_add_stay(snapshots, subject, UINT64_MAX);
}

static bool is_due(const struct collect_snapshots *snapshots,
		   const struct snapshot_subject *subject)
{
	const struct collect_history *history = &subject->history;

	return !subject->is_settled &&
	       (history->snaps.count == 0 ||
		history->snaps.items[history->snaps.count - 1].tick != snapshots->tick);
}

static struct error *look(struct collect_snapshots *snapshots, bool *stale)
{
	uint64_t start = clock_now_ns();

	snapshots->held = 0;
	for (size_t i = 0; i < snapshots->subjects.count; i++)
		snapshots->held += snapshots->subjects.items[i]->directory >= 0;
	TRY(collect_snapshots_refresh(snapshots));
	for (size_t i = 0; i < ledger_reader_process_count(snapshots->reader); i++) {
		uint32_t serial = ledger_reader_process(snapshots->reader, i)->serial;
		struct snapshot_subject *subject = collect_snapshots_subject(snapshots, serial);

		if (subject && is_due(snapshots, subject))
			TRY(look_at(snapshots, i, subject, stale));
	}
	return collect_snapshots_close_look(snapshots, start);
}

static uint64_t count_changes(const struct collect_snapshots *snapshots)
{
	uint64_t count = 0;

	for (size_t i = 0; i < snapshots->subjects.count; i++)
		count += snapshots->subjects.items[i]->history.changes.count;
	return count;
}

static bool was_taken(const struct collect_snapshots *snapshots)
{
	for (size_t i = snapshots->subjects.count; i--;) {
		const struct collect_history *history = &snapshots->subjects.items[i]->history;
		size_t count = history->snaps.count;

		if (count && history->snaps.items[count - 1].tick == snapshots->tick)
			return true;
	}
	return false;
}

static struct error *halve(struct collect_snapshots *snapshots)
{
	for (size_t i = 0; i < snapshots->subjects.count; i++)
		TRY(collect_snapshot_halve(snapshots->subjects.items[i]));
	TRY(collect_snapshot_halve(&snapshots->all));
	snapshots->tick = (snapshots->tick + 1) / 2;
	snapshots->interval_ns *= 2;
	return NULL;
}

static struct error *thin(struct collect_snapshots *snapshots)
{
	unsigned int shift = snapshots->thin_shift ? snapshots->thin_shift : FIRST_THIN_SHIFT + 1;

	/* To three quarters, so that it is not done again at the next. */
	while (shift > 1 && count_changes(snapshots) > snapshots->max_changes / 4 * 3) {
		shift--;
		for (size_t i = 0; i < snapshots->subjects.count; i++)
			TRY(collect_snapshot_thin(snapshots->subjects.items[i], shift));
	}
	snapshots->thin_shift = shift;
	return NULL;
}

struct error *collect_snapshots_take(struct collect_snapshots *snapshots)
{
	bool stale = false;

	TRY(look(snapshots, &stale));
	if (stale)
		snapshots->reader_bytes = 0;
	if (!was_taken(snapshots))
		return NULL;
	snapshots->tick++;
	if (snapshots->tick >= snapshots->max_snapshots)
		TRY(halve(snapshots));
	if (count_changes(snapshots) > snapshots->max_changes)
		return thin(snapshots);
	return NULL;
}

int collect_snapshots_wait(const struct collect_snapshots *snapshots)
{
	int early = collect_snapshots_early_wait(snapshots);
	int wait = clock_wait_ms(snapshots->due_ns);

	if (snapshots->ended)
		return -1;
	return early >= 0 && early < wait ? early : wait;
}

static void take_due(struct collect_snapshots *snapshots)
{
	uint64_t start = clock_now_ns(), busy = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	CLEANUP_ERROR struct error *error = collect_snapshots_take(snapshots);

	if (error) {
		log_warn("no more snapshots: %s", error->message);
		snapshots->ended = true;
		return;
	}
	busy = clock_ns(CLOCK_THREAD_CPUTIME_ID) - busy;
	snapshots->due_ns =
		collect_snapshot_next(start, clock_now_ns(), busy, snapshots->interval_ns);
}

void collect_snapshots_tick(struct collect_snapshots *snapshots)
{
	bool is_due = clock_now_ns() >= snapshots->due_ns;

	if (snapshots->ended)
		return;
	if (is_due)
		take_due(snapshots);
	if (!snapshots->ended)
		collect_snapshots_early_step(snapshots, is_due);
}
