/*
 * Snapshots of what lives while it runs: at an interval every live process's rows and
 * resident memory, kept as changes from one to the next. One a session, taken between
 * other work by the thread that waits for the target; nothing of the target waits for it.
 *
 * At most COLLECT_SNAPSHOTS are kept: when they are that many, every two become one (the
 * later) and the interval doubles. At most COLLECT_CHANGES changes are kept: beyond, those
 * of a row that are small beside all that lives are left out until they add up, and
 * counted. No more than 1/50 of a processor is spent here.
 *
 * Owner: the caller, by collect_snapshots_free(). Times in CLOCK_MONOTONIC ns. What fails
 * ends the taking, not the run; what was taken stays.
 */
#ifndef MALLOGRAPH_COLLECT_SNAPSHOT_H
#define MALLOGRAPH_COLLECT_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vector.h"

#define COLLECT_SNAPSHOTS 512u
#define COLLECT_CHANGES   1800000u /* leaves room below 2 M for those at the end */

#define COLLECT_UNKNOWN UINT64_MAX

/* Resident memory in bytes; COLLECT_UNKNOWN where /proc did not say. */
struct collect_resident {
	uint64_t rss;
	uint64_t anon;
	uint64_t file;
	uint64_t shmem;
	uint64_t swap;
	uint64_t peak;
};

struct collect_snap {
	uint32_t tick; /* of the whole session; ascending */
	uint64_t ns;
	uint64_t live_blocks;
	uint64_t live_bytes;
	uint64_t allocs;
	uint64_t frees;
	uint64_t mapped;
	struct collect_resident resident;
};

/* A row whose figures are new since it was last said. */
struct collect_change {
	uint32_t tick;
	uint32_t row; /* ref in the process's ledger */
	int64_t live_blocks;
	int64_t live_bytes;
	uint64_t allocs;
};

struct collect_history {
	uint32_t serial; /* of the process */
	VECTOR(struct collect_snap) snaps;
	VECTOR(struct collect_change) changes; /* by tick */
	uint64_t left_out;                     /* changes */
	uint64_t rss_peak;                     /* COLLECT_UNKNOWN = not seen */
};

/* What lived in a process at an instant. */
struct collect_share {
	uint32_t serial;
	uint64_t live_bytes;
};

/* All processes together; see snapshot_tree.h. */
struct collect_together {
	const struct collect_snap *snaps; /* by time */
	size_t count;
	struct collect_snap most;           /* where most lived; live_bytes 0 = it was not seen */
	const struct collect_share *shares; /* then; of others nothing */
	size_t share_count;
	uint64_t bound; /* no more than that lived at any time */
};

struct collect_early;
struct collect_files;
struct collect_snapshots;
struct ledger_reader;

/* fd: the session file, which must stay open; name is for messages. limits 0 = those above. */
struct error *collect_snapshots_create(int fd, const char *name, uint32_t max_snapshots,
				       uint64_t max_changes,
				       struct collect_snapshots **ret) ERROR_MUST_CHECK;
/* Nodes of new rows are handed on to it; the caller's, it must outlive the snapshots. */
void collect_snapshots_set_early(struct collect_snapshots *snapshots, struct collect_early *early);
/* The same of the modules that are seen. */
void collect_snapshots_set_files(struct collect_snapshots *snapshots, struct collect_files *files);
void collect_snapshots_free(struct collect_snapshots *snapshots);

/* Milliseconds until the next is due, or a step of what is made early; 0 = now; -1 = never. */
int collect_snapshots_wait(const struct collect_snapshots *snapshots);
/* Takes one if it is due, and such a step. */
void collect_snapshots_tick(struct collect_snapshots *snapshots);
/* Takes one now. */
struct error *collect_snapshots_take(struct collect_snapshots *snapshots) ERROR_MUST_CHECK;

/* The last look, once nothing runs any more that is waited for. */
struct error *collect_snapshots_end(struct collect_snapshots *snapshots) ERROR_MUST_CHECK;

/* A reader that knows all units taken by now, until the next call of any of these; with anew, one
 * that was just opened. */
struct error *collect_snapshots_reader(struct collect_snapshots *snapshots, bool anew,
				       struct ledger_reader **ret) ERROR_MUST_CHECK;
/* How many readers there have been, to tell one from the next. */
uint64_t collect_snapshots_opened(const struct collect_snapshots *snapshots);
/* A process that is over, by its place in that reader: what was seen of it is of use no more. */
struct error *collect_snapshots_leave(struct collect_snapshots *snapshots,
				      size_t place) ERROR_MUST_CHECK;

/* false = there never was more than one process. Until the next look. */
bool collect_snapshots_together(const struct collect_snapshots *snapshots,
				struct collect_together *ret);

/* What was seen of a process; NULL = nothing. */
const struct collect_history *collect_snapshots_of(const struct collect_snapshots *snapshots,
						   uint32_t serial);

#endif
