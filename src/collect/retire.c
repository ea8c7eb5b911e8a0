#include "collect/retire.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vector.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define FIRST_NS  UINT64_C(200000000)
#define PAUSE_NS  UINT64_C(100000000)
#define GRACE_NS  UINT64_C(1000000000)
#define LINGER_NS UINT64_C(2000000000)
#define SLICE_NS  UINT64_C(20000000)
#define BATCH     64u
#define BACKLOG   4u /* times as many wait as are worth it */

/* A piece of the session file that nobody needs after a time. */
struct remains {
	uint64_t due_ns;
	uint64_t offset;
	uint64_t bytes;
};

struct collect_retiring {
	struct collect_session *session;
	struct collect_snapshots *snapshots;
	struct collect_early *early;
	const struct collect_finish_options *options;
	uint64_t due_ns;
	bool ended;
	struct map_u64 over;            /* by serial: when it was seen to be over */
	struct map_u64 sizes;           /* likewise: bytes of its ledger */
	VECTOR(size_t) places;          /* of candidates in the reader */
	VECTOR(struct remains) remains; /* by time */
	size_t next;                    /* of those */
	struct map_u64 parents;         /* by serial: whom it came from */
	struct map_u64 first_images; /* by serial of what was executed: the first of its process */
	struct map_u64 execed;       /* serials that went on as others */
	struct map_u64 waits;        /* by waiter and pid: when it was last waited for */
	uint64_t anew_ns;            /* when there was last a reader that knows all */
};

struct error *collect_retiring_create(struct collect_session *session,
				      struct collect_snapshots *snapshots,
				      struct collect_early *early,
				      const struct collect_finish_options *options,
				      struct collect_retiring **ret)
{
	struct collect_retiring *retiring = calloc(1, sizeof(*retiring));

	if (!retiring)
		return error_no_memory();
	retiring->session = session;
	retiring->snapshots = snapshots;
	retiring->early = early;
	retiring->options = options;
	retiring->due_ns = clock_now_ns() + FIRST_NS;
	*ret = retiring;
	return NULL;
}

void collect_retiring_free(struct collect_retiring *retiring)
{
	if (!retiring)
		return;
	map_u64_free(&retiring->over);
	map_u64_free(&retiring->sizes);
	map_u64_free(&retiring->parents);
	map_u64_free(&retiring->first_images);
	map_u64_free(&retiring->execed);
	map_u64_free(&retiring->waits);
	vector_free(&retiring->places);
	vector_free(&retiring->remains);
	free(retiring);
}

/* --- who is over --------------------------------------------------------------------- */

/* Who an exec made of a process is the same to its parent and its children: the first image. */
static uint32_t first_image(const struct collect_retiring *retiring, uint32_t serial)
{
	const uint64_t *first = map_u64_find(&retiring->first_images, serial);

	return first ? (uint32_t)*first : serial;
}

/* In the order of their serials, so that a parent is known before its children. */
static struct error *learn_origins(struct collect_retiring *retiring,
				   const struct ledger_reader *reader)
{
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++) {
		const struct ledger_process *process = ledger_reader_process(reader, i);
		uint32_t parent = process->parent;

		if (parent == 0 || parent >= process->serial ||
		    map_u64_find(&retiring->parents, process->serial))
			continue;
		if (process->how == MGL_HOW_EXEC) {
			TRY(map_u64_set(&retiring->first_images, process->serial,
					first_image(retiring, parent)));
			TRY(map_u64_set(&retiring->execed, parent, 1));
		}
		TRY(map_u64_set(&retiring->parents, process->serial, parent));
	}
	return NULL;
}

static uint64_t wait_key(uint32_t waiter, int32_t pid)
{
	return (uint64_t)waiter << 32 | (uint32_t)pid;
}

static struct error *learn_waits(struct collect_retiring *retiring,
				 const struct ledger_reader *reader)
{
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++) {
		const struct ledger_process *process = ledger_reader_process(reader, i);
		uint32_t waiter = first_image(retiring, process->serial);

		for (size_t j = 0; j < process->wait_count; j++) {
			const struct ledger_wait *wait = &process->waits[j];
			uint64_t key = wait_key(waiter, wait->pid);
			const uint64_t *last = map_u64_find(&retiring->waits, key);

			if (!last || *last < wait->ns)
				TRY(map_u64_set(&retiring->waits, key, wait->ns));
		}
	}
	return NULL;
}

/* It went on as another program, or its parent waited for it. Pids alone tell nothing: those of
 * another namespace are other processes' here. */
static bool is_over(const struct collect_retiring *retiring, const struct ledger_process *process)
{
	uint32_t self = first_image(retiring, process->serial);
	const uint64_t *parent = map_u64_find(&retiring->parents, self);

	if (map_u64_find(&retiring->execed, process->serial))
		return true;
	if (!parent)
		return false;
	const uint64_t *waited = map_u64_find(
		&retiring->waits, wait_key(first_image(retiring, (uint32_t)*parent), process->pid));

	return waited && *waited > process->start_ns;
}

/* It is over, so that it stays what it is. */
static uint64_t size_of(const struct collect_retiring *retiring,
			const struct ledger_process *process)
{
	const uint64_t *size = map_u64_find(&retiring->sizes, process->serial);

	return size ? *size : 0;
}

static struct error *find_candidates(struct collect_retiring *retiring,
				     const struct ledger_reader *reader, bool *enough)
{
	uint64_t bytes = 0, now = clock_now_ns(), oldest = now;

	TRY(learn_origins(retiring, reader));
	TRY(learn_waits(retiring, reader));
	retiring->places.count = 0;
	/* The newest first: how a child ended stands in its parent's ledger. */
	for (size_t i = ledger_reader_process_count(reader); i--;) {
		const struct ledger_process *process = ledger_reader_process(reader, i);

		if (collect_early_has_retired(retiring->early, process->serial) ||
		    !is_over(retiring, process))
			continue;
		if (!map_u64_find(&retiring->over, process->serial)) {
			TRY(map_u64_set(&retiring->over, process->serial, now));
			TRY(map_u64_set(&retiring->sizes, process->serial,
					ledger_reader_bytes(reader, i)));
		}
		const uint64_t *over = map_u64_find(&retiring->over, process->serial);

		if (*over < oldest)
			oldest = *over;
		bytes += size_of(retiring, process);
		TRY(vector_push(&retiring->places, i));
	}
	if (retiring->places.count >= BACKLOG * COLLECT_RETIRE_PROCESSES ||
	    bytes >= BACKLOG * COLLECT_RETIRE_BYTES)
		collect_early_hurry(retiring->early);
	*enough = retiring->places.count >= COLLECT_RETIRE_PROCESSES ||
		  bytes >= COLLECT_RETIRE_BYTES ||
		  (collect_early_retired(retiring->early) && now - oldest >= LINGER_NS);
	return NULL;
}

/* --- what is done with them ----------------------------------------------------------- */

static struct error *add_remains(void *context, uint64_t offset, uint64_t bytes)
{
	struct collect_retiring *retiring = context;
	struct remains remains = {
		.due_ns = clock_now_ns() + GRACE_NS,
		.offset = offset,
		.bytes = bytes,
	};

	return vector_push(&retiring->remains, remains);
}

static struct error *retire(struct collect_retiring *retiring, struct ledger_reader *reader,
			    const size_t *places, size_t count)
{
	TRY(collect_early_retire(retiring->early, reader,
				 collect_snapshots_opened(retiring->snapshots), retiring->options,
				 places, count));
	collect_session_set_retired(retiring->session, collect_early_retired(retiring->early));
	for (size_t i = 0; i < count; i++) {
		TRY(collect_snapshots_leave(retiring->snapshots, places[i]));
		TRY(ledger_reader_extents(reader, places[i], add_remains, retiring));
	}
	return NULL;
}

/* *ret_more: some are left. */
static struct error *retire_some(struct collect_retiring *retiring, bool *ret_more)
{
	struct ledger_reader *reader;
	uint64_t start;
	size_t done = 0;
	bool enough, anew;

	/* Waits are told by a reader that was opened since. */
	anew = clock_now_ns() - retiring->anew_ns >= LINGER_NS / 2;
	TRY(collect_snapshots_reader(retiring->snapshots, false, &reader));
	if (anew && ledger_reader_process_count(reader) > 1) {
		TRY(collect_snapshots_reader(retiring->snapshots, true, &reader));
		retiring->anew_ns = clock_now_ns();
	}
	TRY(find_candidates(retiring, reader, &enough));
	if (!enough)
		return NULL;
	/* One that knows all they did. */
	TRY(collect_snapshots_reader(retiring->snapshots, true, &reader));
	TRY(find_candidates(retiring, reader, &enough));

	size_t count = retiring->places.count;

	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while (done < count && clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < SLICE_NS) {
		uint64_t bytes = 0;
		size_t batch = 0;

		/* Small ones together, for the sake of who commits them. */
		for (; batch < BATCH && done + batch < count && bytes < MGL_UNIT_BYTES; batch++)
			bytes += size_of(retiring,
					 ledger_reader_process(
						 reader, retiring->places.items[done + batch]));
		TRY(retire(retiring, reader, &retiring->places.items[done], batch));
		done += batch;
	}
	*ret_more = done < count;
	log_info("%zu processes are in the profile", collect_early_retired(retiring->early));
	return NULL;
}

/* What was due by then. */
static void release(struct collect_retiring *retiring, uint64_t now)
{
	for (; retiring->next < retiring->remains.count &&
	       retiring->remains.items[retiring->next].due_ns <= now;
	     retiring->next++) {
		const struct remains *remains = &retiring->remains.items[retiring->next];

		collect_session_release(retiring->session, remains->offset, remains->bytes);
	}
	if (retiring->next == retiring->remains.count)
		retiring->next = retiring->remains.count = 0;
}

void collect_retiring_end(struct collect_retiring *retiring)
{
	if (!retiring)
		return;
	release(retiring, UINT64_MAX);
	retiring->ended = true;
}

int collect_retiring_wait(const struct collect_retiring *retiring)
{
	return !retiring || retiring->ended ? -1 : clock_wait_ms(retiring->due_ns);
}

void collect_retiring_step(struct collect_retiring *retiring)
{
	uint64_t start = clock_now_ns();

	if (!retiring || retiring->ended || start < retiring->due_ns)
		return;
	release(retiring, start);
	bool more = false;
	CLEANUP_ERROR struct error *error = retire_some(retiring, &more);
	uint64_t now = clock_now_ns(), pause = more ? 0 : PAUSE_NS;

	retiring->due_ns = now + (now - start > pause ? now - start : pause);
	if (error) {
		log_info("processes that are over stay in the session file: %s", error->message);
		retiring->ended = true;
	}
}
