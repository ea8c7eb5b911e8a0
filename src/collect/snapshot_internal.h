/* The inside of snapshots, shared by snapshot*.c alone. */
#ifndef MALLOGRAPH_COLLECT_SNAPSHOT_INTERNAL_H
#define MALLOGRAPH_COLLECT_SNAPSHOT_INTERNAL_H

#include "base/map.h"
#include "collect/early.h"
#include "collect/snapshot.h"
#include "collect/snapshot_tree.h"
#include "collect/whose.h"
#include "ledger/reader.h"

#define COLLECT_WORK_SHARE 50

/* A row: as last seen, and what its last change said. */
struct snapshot_row {
	uint64_t allocs;
	uint64_t frees;
	uint64_t bytes_in;
	int64_t live_blocks;
	int64_t live_bytes;
	int64_t said_bytes;
};

/* What had come into a process by a look at it, and was left. */
struct snapshot_stand {
	uint64_t live_bytes;
	uint64_t bytes_in;
};

/* A process that is looked at. */
struct snapshot_subject {
	struct collect_history history;
	pid_t pid;         /* as it calls itself */
	pid_t here;        /* as it is called in this namespace; 0 = it has ended */
	int directory;     /* /proc/PID; -1 = it has ended, or too many are open */
	bool is_forgotten; /* it has ended */
	VECTOR(struct snapshot_row) rows;
	struct map_u64 row_at;    /* ref: place in rows */
	size_t modules;           /* that were seen */
	struct ledger_news news;  /* what is made early of it knows of these rows */
	struct collect_snap sums; /* over all rows, as last seen */
	uint64_t bytes_in;        /* likewise */
	uint64_t peak;            /* no more ever lived in it, as last seen */
	uint64_t start_ns;
	bool is_settled;                 /* it has ended, and its end was looked at */
	bool is_stale;                   /* rows were missed in the last look */
	struct snapshot_stand before[2]; /* of the look before, and of the one before that */
};

struct collect_snapshots {
	int fd;
	char *name;
	uint32_t max_snapshots;
	uint64_t max_changes;
	struct ledger_reader *reader;
	uint64_t reader_bytes;       /* of the file that were taken when it was opened */
	uint64_t opened;             /* readers, so far */
	struct collect_files *files; /* NULL = none are held */
	struct collect_early *early; /* NULL = nothing is made early */
	uint64_t early_ns; /* between looks for what there is to make; 0 = there is none */
	uint64_t early_due_ns;
	VECTOR(struct snapshot_subject *) subjects;
	size_t held; /* directories of theirs that are open */
	size_t max_held;
	struct snapshot_subject all; /* its snapshots are of all of them together */
	struct snapshot_tree tree;
	struct collect_whose whose;
	struct map_u64 ends; /* by pid: when it was last waited for */
	uint64_t ends_of;    /* the reader that says so */
	struct map_u64 by_serial;
	uint32_t tick;
	uint64_t interval_ns;
	uint64_t due_ns;
	unsigned int thin_shift; /* changes below live >> this are left out; 0 = none are */
	bool ended;
};

struct snapshot_subject *collect_snapshots_subject(const struct collect_snapshots *snapshots,
						   uint32_t serial);
/* The reader knows all units that are taken. */
struct error *collect_snapshots_refresh(struct collect_snapshots *snapshots) ERROR_MUST_CHECK;

/* By its serial; it is there. */
void collect_snapshots_forget(struct collect_snapshots *snapshots, uint32_t serial);

/* snapshot_together.c. A process was looked at, and lives or has ended. */
struct error *collect_snapshots_add_stay(struct collect_snapshots *snapshots,
					 struct snapshot_subject *subject,
					 uint64_t end_ns) ERROR_MUST_CHECK;
/* The last look at one that has ended. */
struct error *collect_snapshots_settle(struct collect_snapshots *snapshots, size_t place,
				       struct snapshot_subject *subject) ERROR_MUST_CHECK;
/* Those that were taken for ended and did something since were not: the tree may have had more. */
struct error *collect_snapshots_doubt(struct collect_snapshots *snapshots) ERROR_MUST_CHECK;
/* All were looked at. */
struct error *collect_snapshots_close_look(struct collect_snapshots *snapshots,
					   uint64_t start_ns) ERROR_MUST_CHECK;

/* snapshot_early.c: for those that have an `early`. Milliseconds, −1 = nothing to do. */
int collect_snapshots_early_wait(const struct collect_snapshots *snapshots);
/* taken: a snapshot has just been. */
void collect_snapshots_early_step(struct collect_snapshots *snapshots, bool taken);

/* Two ticks become one. */
struct error *collect_snapshot_halve(struct snapshot_subject *subject) ERROR_MUST_CHECK;
/* Leaves out changes of less than live >> shift, until they add up. */
struct error *collect_snapshot_thin(struct snapshot_subject *subject,
				    unsigned int shift) ERROR_MUST_CHECK;

/* When the next is due after one from start to end, which kept a processor busy. On a machine
 * with much to do it lasts far longer than that, and shall not be paid for with a pause. */
static inline uint64_t collect_snapshot_next(uint64_t start, uint64_t end, uint64_t busy,
					     uint64_t interval)
{
	uint64_t due = start + interval, rest = busy * COLLECT_WORK_SHARE;

	return due < end + rest ? end + rest : due;
}

/* Whether a change is small beside what lives; shift 0 = none is. */
static inline bool collect_snapshot_is_small(int64_t from, int64_t to, uint64_t live,
					     unsigned int shift)
{
	int64_t change = (int64_t)((uint64_t)to - (uint64_t)from);

	return shift && (change < 0 ? -(uint64_t)change : (uint64_t)change) < live >> shift;
}

#endif
