/* What is a profile's own, under new ids and on the common time. */
#include "collect/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_TIME ((uint64_t)INT64_MAX)

/* --- new ids ---------------------------------------------------------------------------- */

static void fail(struct merging *merging, const char *what)
{
	if (!merging->error)
		merging->error = merge_damaged(merging, what);
}

static struct error *too_many(const struct merging *merging)
{
	return error_remedy(error_create_path(ERROR_REFUSED, merging->input.path,
					      "its ids and those of the profiles before it are "
					      "more than 32 bits hold"),
			    "Merge fewer profiles at a time.");
}

/* A new id. last: the largest old one so far. */
static void move_id(struct merging *merging, uint64_t *id, uint64_t base, uint64_t *last)
{
	if (*id > *last)
		*last = *id;
	*id += base;
	if (*id > UINT32_MAX && !merging->error)
		merging->error = too_many(merging);
}

/* What refers to an old one, where 0 is none. */
static void move_reference(struct merging *merging, uint64_t *id, uint64_t base, uint64_t last)
{
	if (*id > last)
		fail(merging, "it refers to what is not there");
	else if (*id)
		*id += base;
}

static void move_process(struct merging *merging, uint64_t *id)
{
	if (!map_u64_find(&merging->input.processes, *id))
		fail(merging, "it tells of a process that is not there");
	*id += merging->processes;
}

static void move_site(struct merging *merging, uint64_t *id)
{
	move_reference(merging, id, merging->sites, merging->input.last_site);
}

static void move_thread(struct merging *merging, uint64_t *id)
{
	move_reference(merging, id, merging->threads, merging->input.last_thread);
}

static void move_snap(struct merging *merging, uint64_t *id)
{
	move_reference(merging, id, merging->snaps, merging->input.last_snap);
}

static void move_time(struct merging *merging, uint64_t *time)
{
	if (*time == STORE_UNKNOWN)
		return;
	if (*time > MOST_TIME - merging->input.shift)
		fail(merging, "a time is out of range");
	else
		*time += merging->input.shift;
}

/* --- each table -------------------------------------------------------------------------- */

static bool change_process(void *context, void *row)
{
	struct merging *merging = context;
	struct store_process *process = row;
	const uint64_t *source = map_u64_find(&merging->input.sources, process->source);

	if (!source)
		fail(merging, "a process is from where nothing is");
	process->source = source ? *source : 0;
	/* One that is not there may be another's once merged. */
	if (process->parent && !map_u64_find(&merging->input.processes, process->parent))
		process->parent = 0;
	process->parent += process->parent ? merging->processes : 0;
	process->id += merging->processes;
	move_time(merging, &process->start);
	move_time(merging, &process->stop);
	move_time(merging, &process->peak_time);
	return !merging->error;
}

static bool change_api(void *context, void *row)
{
	move_process(context, &((struct store_api *)row)->process);
	return !((struct merging *)context)->error;
}

static bool change_loss(void *context, void *row)
{
	move_process(context, &((struct store_loss *)row)->process);
	return !((struct merging *)context)->error;
}

static bool change_thread(void *context, void *row)
{
	struct merging *merging = context;
	struct store_thread *thread = row;

	move_id(merging, &thread->id, merging->threads, &merging->input.last_thread);
	move_process(merging, &thread->process);
	return !merging->error;
}

static bool change_mapping(void *context, void *row)
{
	struct merging *merging = context;
	struct store_mapping *mapping = row;
	const uint64_t *module = map_u64_find(&merging->input.module_at, mapping->module);

	if (!module)
		fail(merging, "a mapping is of no module");
	mapping->module = module ? *module : 0;
	move_process(merging, &mapping->process);
	move_time(merging, &mapping->loaded);
	move_time(merging, &mapping->unloaded);
	return !merging->error;
}

static struct collect_titles_place place_of(void *context, uint64_t at)
{
	const struct merging *merging = context;
	const struct merge_loc *loc = &merging->locs.items[at];

	return (struct collect_titles_place){
		.id = at,
		.named = loc->lines ? loc->named : 0,
		.is_runtime = merging->modules.items[loc->module].is_runtime,
	};
}

static bool change_site(void *context, void *row)
{
	struct merging *merging = context;
	struct store_site *site = row;
	const uint64_t *stack = map_u64_find(&merging->input.stack_at, site->stack);

	if (site->stack && !stack)
		fail(merging, "a site has a stack that is not there");
	move_id(merging, &site->id, merging->sites, &merging->input.last_site);
	move_process(merging, &site->process);
	site->stack = stack ? *stack : 0;
	site->heap = 0;
	collect_titles_set(site, merging->stacks.items, site->stack, place_of, merging);
	return !merging->error;
}

static bool change_site_size(void *context, void *row)
{
	move_site(context, &((struct store_site_size *)row)->site);
	return !((struct merging *)context)->error;
}

static bool change_site_lifetime(void *context, void *row)
{
	move_site(context, &((struct store_site_lifetime *)row)->site);
	return !((struct merging *)context)->error;
}

static bool change_site_thread(void *context, void *row)
{
	struct store_site_thread *of = row;

	move_site(context, &of->site);
	move_thread(context, &of->thread);
	return !((struct merging *)context)->error;
}

static bool change_thread_size(void *context, void *row)
{
	struct store_thread_size *of = row;

	move_process(context, &of->process);
	move_thread(context, &of->thread);
	return !((struct merging *)context)->error;
}

/* Moments of all processes together are of one profile's: its source has the highest. */
static bool change_snap(void *context, void *row)
{
	struct merging *merging = context;
	struct store_snap *snap = row;
	bool of_all = snap->process == STORE_ALL_PROCESSES;

	move_id(merging, &snap->id, merging->snaps, &merging->input.last_snap);
	if (!of_all)
		move_process(merging, &snap->process);
	move_time(merging, &snap->time);
	return !merging->error && !of_all;
}

static bool change_series(void *context, void *row)
{
	struct store_series *of = row;

	move_site(context, &of->site);
	move_snap(context, &of->snap);
	return !((struct merging *)context)->error;
}

static bool change_cohort(void *context, void *row)
{
	struct store_cohort *of = row;

	move_snap(context, &of->snap);
	move_site(context, &of->site);
	move_snap(context, &of->born);
	return !((struct merging *)context)->error;
}

static bool change_block(void *context, void *row)
{
	struct store_block *block = row;

	move_process(context, &block->process);
	move_site(context, &block->site);
	move_thread(context, &block->thread);
	move_time(context, &block->born);
	return !((struct merging *)context)->error;
}

/* In this order what is referred to comes before what refers. */
static const struct {
	enum store_table table;
	store_change *change;
} tables[] = {
	{STORE_TABLE_PROCESS, change_process},
	{STORE_TABLE_API, change_api},
	{STORE_TABLE_THREAD, change_thread},
	{STORE_TABLE_LOSS, change_loss},
	{STORE_TABLE_MAPPING, change_mapping},
	{STORE_TABLE_SITE, change_site},
	{STORE_TABLE_SITE_SIZE, change_site_size},
	{STORE_TABLE_THREAD_SIZE, change_thread_size},
	{STORE_TABLE_SITE_LIFETIME, change_site_lifetime},
	{STORE_TABLE_SITE_THREAD, change_site_thread},
	{STORE_TABLE_SNAP, change_snap},
	{STORE_TABLE_SERIES, change_series},
	{STORE_TABLE_COHORT, change_cohort},
	{STORE_TABLE_BLOCK, change_block},
};

/* --- where it is from --------------------------------------------------------------------- */

static struct error *take_process(struct merging *merging, const void *from)
{
	const struct store_process *row = from;

	if (merging->processes + row->id > UINT32_MAX)
		return too_many(merging);
	merging->input.last_process = row->id;
	return map_u64_set(&merging->input.processes, row->id, 1);
}

/* The highest instant of its own processes together. */
static struct error *find_peak(struct merging *merging, struct store_source *source)
{
	struct store_cursor *cursor;
	struct store_snap snap;
	bool found;

	source->tree_peak_bytes = source->tree_peak_time = STORE_UNKNOWN;
	TRY(store_cursor_open(merging->input.reader, STORE_TABLE_SNAP, STORE_ALL_PROCESSES,
			      &cursor));
	while (store_next(cursor, &snap))
		if (snap.live_bytes != STORE_UNKNOWN &&
		    (source->tree_peak_bytes == STORE_UNKNOWN ||
		     snap.live_bytes > source->tree_peak_bytes)) {
			source->tree_peak_bytes = snap.live_bytes;
			source->tree_peak_time = snap.time;
		}
	TRY(store_cursor_close(cursor));
	TRY(store_meta_number(merging->input.reader, "tree_peak_error", &source->tree_peak_error,
			      &found));
	if (!found)
		source->tree_peak_error = STORE_UNKNOWN;
	return NULL;
}

static struct error *put_source(struct merging *merging, struct store_source *source)
{
	source->id = ++merging->sources;
	move_time(merging, &source->tree_peak_time);
	TRY(STEAL(merging->error));
	return store_put(merging->writer, source);
}

/* A merged profile's own are the merged one's. */
static struct error *take_source(struct merging *merging, const void *from)
{
	struct store_source row = *(const struct store_source *)from;

	TRY(map_u64_set(&merging->input.sources, row.id, merging->sources + 1));
	TRY(store_copy_string(merging->input.copy, row.file, &row.file));
	TRY(store_copy_string(merging->input.copy, row.host, &row.host));
	return put_source(merging, &row);
}

static struct error *put_itself(struct merging *merging)
{
	struct store_source source = {.start_unix_ns = STORE_UNKNOWN};
	CLEANUP_FREE char *host = NULL;
	bool found;

	source.finished = store_reader_finished(merging->input.reader);
	TRY(store_meta_number(merging->input.reader, "rank", &source.rank, &found));
	if (!found)
		source.rank = merging->input.number;
	TRY(store_meta_number(merging->input.reader, "start_unix_ns", &source.start_unix_ns,
			      &found));
	if (!found)
		source.start_unix_ns = STORE_UNKNOWN;
	TRY(store_meta_text(merging->input.reader, "host", &host, &found));
	TRY(store_intern(merging->writer, merging->input.path, strlen(merging->input.path),
			 &source.file));
	TRY(store_intern(merging->writer, host, host ? strlen(host) : 0, &source.host));
	TRY(find_peak(merging, &source));
	TRY(map_u64_set(&merging->input.sources, 0, merging->sources + 1));
	return put_source(merging, &source);
}

/* What was live in those that still ran is known from both sides. */
static struct error *copy_bounds(struct merging *merging)
{
	static const char *const names[] = {"live_bytes_low", "live_blocks_low"};
	struct store_process process;
	struct store_cursor *cursor;
	struct error *error = NULL;

	TRY(store_cursor_open(merging->input.reader, STORE_TABLE_PROCESS, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &process))
		for (size_t i = 0; process.end_kind == STORE_END_RUNNING && i < 2 && !error; i++) {
			char key[64];
			uint64_t value;
			bool found;

			snprintf(key, sizeof(key), "%s:%" PRIu64, names[i], process.id);
			error = store_meta_number(merging->input.reader, key, &value, &found);
			snprintf(key, sizeof(key), "%s:%" PRIu64, names[i],
				 merging->processes + process.id);
			if (!error && found)
				error = store_put_meta_number(merging->writer, key, value);
		}
	struct error *failure = store_cursor_close(cursor);

	if (error)
		error_free(failure);
	return error ? error : failure;
}

struct error *merge_rows(struct merging *merging)
{
	uint64_t sources = merging->sources;
	struct store_process process;
	struct store_source source;

	TRY(merge_each(merging, STORE_TABLE_SOURCE, &source, take_source));
	if (merging->sources == sources)
		TRY(put_itself(merging));
	TRY(merge_each(merging, STORE_TABLE_PROCESS, &process, take_process));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		TRY(store_copy_table(merging->input.copy, tables[i].table, tables[i].change,
				     merging));
		TRY(STEAL(merging->error));
	}
	TRY(copy_bounds(merging));
	merging->merge->processes += merging->input.processes.count;
	merging->processes += merging->input.last_process;
	merging->threads += merging->input.last_thread;
	merging->sites += merging->input.last_site;
	merging->snaps += merging->input.last_snap;
	return NULL;
}
