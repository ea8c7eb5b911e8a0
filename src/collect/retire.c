#include "collect/retire.h"

#include <signal.h>
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
	struct map_u64 over;  /* by serial: when it was seen to be over */
	struct map_u64 sizes; /* likewise: bytes of its ledger */
	struct map_u64
		newest; /* by pid: the last serial that has it, while candidates are sought */
	VECTOR(size_t) places;          /* of candidates in the reader */
	VECTOR(struct remains) remains; /* by time */
	size_t next;                    /* of those */
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
	map_u64_free(&retiring->newest);
	vector_free(&retiring->places);
	vector_free(&retiring->remains);
	free(retiring);
}

/* --- who is over --------------------------------------------------------------------- */

/* An exec, or another process, has its pid; or nobody has. */
static bool is_over(const struct collect_retiring *retiring, const struct ledger_process *process)
{
	const uint64_t *newest = map_u64_find(&retiring->newest, (uint32_t)process->pid);

	if (process->pid <= 0 || (newest && *newest > process->serial))
		return true;
	return kill(process->pid, 0) != 0 && errno == ESRCH;
}

static struct error *find_newest(struct collect_retiring *retiring,
				 const struct ledger_reader *reader)
{
	map_u64_free(&retiring->newest);
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++) {
		const struct ledger_process *process = ledger_reader_process(reader, i);

		TRY(map_u64_set(&retiring->newest, (uint32_t)process->pid, process->serial));
	}
	return NULL;
}

/* It is over, so that it stays what it is. */
static uint64_t size_of(const struct collect_retiring *retiring,
			const struct ledger_process *process)
{
	const uint64_t *size = map_u64_find(&retiring->sizes, process->serial);

	return size ? *size : 0;
}

/* Those that were over the last time, too: by now whoever waited has noted how they ended. */
static struct error *find_candidates(struct collect_retiring *retiring,
				     const struct ledger_reader *reader, bool *enough)
{
	uint64_t bytes = 0, now = clock_now_ns(), oldest = now;

	TRY(find_newest(retiring, reader));
	retiring->places.count = 0;
	/* The newest first: how a child ended stands in its parent's ledger. */
	for (size_t i = ledger_reader_process_count(reader); i--;) {
		const struct ledger_process *process = ledger_reader_process(reader, i);

		if (collect_early_has_retired(retiring->early, process->serial) ||
		    !is_over(retiring, process))
			continue;
		const uint64_t *over = map_u64_find(&retiring->over, process->serial);

		if (!over) {
			TRY(map_u64_set(&retiring->over, process->serial, now));
			TRY(map_u64_set(&retiring->sizes, process->serial,
					ledger_reader_bytes(reader, i)));
			continue;
		}
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
	bool enough;

	TRY(collect_snapshots_reader(retiring->snapshots, false, &reader));
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
			bytes += ledger_reader_bytes(reader, retiring->places.items[done + batch]);
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
