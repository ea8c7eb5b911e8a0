/*
 * The inside of finishing, shared by finish*.c alone.
 *
 * Processes are finished one after the other: rows, then what refers to them (time,
 * blocks), then the process itself. Sites stay until all processes are through, since
 * symbols of all their frames are looked up at once and a site's title needs them.
 */
#ifndef MALLOGRAPH_COLLECT_FINISH_INTERNAL_H
#define MALLOGRAPH_COLLECT_FINISH_INTERNAL_H

#include "base/strbuf.h"
#include "collect/early.h"
#include "collect/finish.h"
#include "ledger/family.h"
#include "ledger/stacks.h"
#include "store/store.h"
#include "symbols/jit.h"

/* Sums over rows, which may be negative in one row or in a damaged ledger. */
struct finish_counts {
	uint64_t allocs;
	uint64_t frees;
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint64_t temporaries;
	uint64_t lifetime;
	uint64_t moved;
	uint64_t foreign_frees;
	uint64_t peak_blocks;
	uint64_t peak_bytes;
	uint64_t live_bytes_low;
	uint64_t live_blocks_low;
};

struct finish_site {
	uint32_t serial; /* of the process */
	uint32_t frame;  /* place in stacks; 0 = not known */
	uint32_t api;
	struct finish_counts counts;
};

/* Whose stacks have names: of a process of the session, by its serial. */
struct finish_named {
	uint32_t serial;
	struct ledger_naming naming;
};

/* A process that is in the profile already, and may be in the reader no more. */
struct finish_retired {
	struct ledger_kin kin;
	uint64_t start_ns;
	char *cwd; /* NULL = not of interest */
};

/* finish_allocators.c's. */
struct finish_program {
	char *path;
	char *inner; /* "path (function)": an allocator that nothing sees; NULL = none */
};

/* finish_missed.c's. */
struct finish_missed {
	char *path;
	const char *why; /* static; NULL = not known */
};

struct finishing {
	struct ledger_reader *reader;
	const struct collect_finish_options *options;
	struct store_writer *writer;
	struct ledger_family family;
	struct ledger_stacks stacks;
	VECTOR(struct finish_named *) namings; /* of processes that are not finished yet */
	VECTOR(struct finish_site) sites;      /* of processes that are not put yet */
	struct map_index site_index;
	uint64_t sites_put; /* ids of sites that are in the profile: up to this one */
	VECTOR(struct finish_retired) retired;
	struct map_u64 retired_at; /* by serial: place there */
	uint32_t last; /* serial of the process after which all frames are named; 0 = none yet */
	struct finish_placing *placing; /* finish_stacks.c's; NULL = nothing was placed yet */
	VECTOR(struct finish_program) programs; /* that were looked at */
	VECTOR(struct finish_missed) missed;    /* likewise */
	uint64_t threads;                       /* ids taken */
	uint64_t snaps;
	uint64_t series;
	uint64_t blocks_left; /* of COLLECT_BLOCKS */
};

/* One process. Sites and threads here are places from its first on. */
struct finish_process {
	struct finishing *finishing;
	size_t place;
	const struct ledger_process *from;
	struct ledger_member *member;
	struct ledger_naming *naming;
	struct ledger_rows rows;
	struct finish_counts counts;
	size_t first_site;
	uint32_t *row_sites;      /* by row: site's place in finishing, from 0 */
	uint64_t *slot_threads;   /* by slot: thread id */
	struct store_snap *snaps; /* by time, the end last */
	uint32_t *snap_ticks;     /* parallel: its tick, or FINISH_NO_TICK */
	size_t snap_count;
	uint64_t peak_error; /* the peak was this much more at most */
	uint64_t damage;
	uint64_t excused; /* of it */
};

#define FINISH_NO_TICK UINT32_MAX

/* The id of a site, by its place in finishing. */
static inline uint64_t collect_finish_site_id(const struct finishing *finishing, uint64_t place)
{
	return finishing->sites_put + place + 1;
}

/* A time of CLOCK_MONOTONIC in the session; 0 stays unknown. */
uint64_t collect_finish_time(const struct finishing *finishing, uint64_t ns);

/* finish.c. The writer and the stacks, which need a reader before anything is named; close
 * after an error, too. */
struct error *collect_finishing_open(struct finishing *finishing, const char *path,
				     const char *name) ERROR_MUST_CHECK;
/* All of the profile. The writer is gone after it. */
struct error *collect_finishing_write(struct finishing *finishing,
				      struct ledger_reader *reader) ERROR_MUST_CHECK;
void collect_finishing_close(struct finishing *finishing);
/* What is of one process, but the names; place: in the reader's, family: read of it. */
struct error *collect_finishing_process(struct finishing *finishing, size_t place) ERROR_MUST_CHECK;
/* What a profile says whatever is in it. Again is no harm. */
struct error *collect_finishing_put_meta(struct finishing *finishing) ERROR_MUST_CHECK;
/* NULL = none of the process's stacks have names yet. */
struct ledger_naming *collect_finishing_find(const struct finishing *finishing, uint32_t serial);
/* place: in the reader's. */
struct error *collect_finishing_naming(struct finishing *finishing, size_t place,
				       struct ledger_naming **ret) ERROR_MUST_CHECK;

/* finish_early.c. *ret = there was something to go on with, and the profile is at path unless
 * there is an error. */
struct error *collect_early_finish(struct collect_early *early, struct ledger_reader *reader,
				   const struct collect_finish_options *options, const char *path,
				   const char *name, bool *ret) ERROR_MUST_CHECK;

/* finish_retire.c: of processes that are in the profile already. */
/* NULL = it is not one of those. */
const struct finish_retired *collect_finish_retired(const struct finishing *finishing,
						    uint32_t serial);
static inline bool collect_finish_is_retired(const struct finishing *finishing, uint32_t serial)
{
	return collect_finish_retired(finishing, serial) != NULL;
}
struct error *collect_finish_add_retired(struct finishing *finishing,
					 struct finish_retired retired) ERROR_MUST_CHECK;
/* The family of those that are not, and what it needs to know of the others. */
struct error *collect_finish_read_family(struct finishing *finishing) ERROR_MUST_CHECK;
void collect_finish_retired_free(struct finishing *finishing);

/* finish_resume.c: all of a profile that was kept, into the one just opened; the reader is set. */
struct error *collect_finishing_resume(struct finishing *finishing,
				       const char *path) ERROR_MUST_CHECK;

/* finish_rows.c: sites, sizes and threads. */
struct error *collect_finish_rows(struct finish_process *process) ERROR_MUST_CHECK;
void collect_finish_counts_add(struct finish_counts *counts, const struct ledger_row *row);
/* What is below 0 counts as damage, unless calls were under way, and is 0. */
uint64_t collect_finish_clamp(struct finish_process *process, uint64_t value);

/* finish_fold.c: *ret_places: by site of the process, as they are, its place among those that are
 * left, malloc'd; NULL = all are. After the process's counts, which stay. */
struct error *collect_finish_fold(struct finish_process *process,
				  uint32_t **ret_places) ERROR_MUST_CHECK;

/* finish_peak.c: after the rows, what they say of the peak where threads made it. */
void collect_finish_peak(struct finish_process *process);

/* finish_time.c: snapshots and series. process: its serial, or STORE_ALL_PROCESSES. */
struct store_snap collect_finish_snap(const struct finishing *finishing, uint64_t process,
				      const struct collect_snap *from);
struct error *collect_finish_snaps(struct finish_process *process) ERROR_MUST_CHECK;
struct error *collect_finish_series(struct finish_process *process) ERROR_MUST_CHECK;

/* finish_together.c: all processes at once, after each of them. */
struct error *collect_finish_together(struct finishing *finishing) ERROR_MUST_CHECK;

/* finish_process.c: the process itself, after all that is of it. */
struct error *collect_finish_put_process(struct finish_process *process) ERROR_MUST_CHECK;

/* finish_allocators.c: what a process's program has inside. */
struct error *collect_finish_allocators(struct finish_process *process) ERROR_MUST_CHECK;
void collect_finish_programs_free(struct finishing *finishing);
/* Appends a loss's detail, and of a program that ran unrecorded why. */
struct error *collect_finish_why_missed(const struct finish_process *process,
					const struct ledger_missing *missing,
					struct strbuf *detail) ERROR_MUST_CHECK;
void collect_finish_missed_free(struct finishing *finishing);

/* finish_jit.c: what runtimes left of a process, for the addresses in jit. */
struct error *collect_finish_jit(const struct finishing *finishing, uint32_t serial,
				 struct symbols_jit *jit) ERROR_MUST_CHECK;

/* finish_blocks.c: cohorts and blocks. */
struct error *collect_finish_blocks(struct finish_process *process) ERROR_MUST_CHECK;

/* finish_stacks.c: frames named since it was called last; the store takes them in while
 * others are named. */
struct error *collect_finish_frames(struct finishing *finishing) ERROR_MUST_CHECK;
/* Once all frames of all processes are named: begins to read symbols, which takes its time. */
struct error *collect_finish_symbols(struct finishing *finishing) ERROR_MUST_CHECK;
/* What is there of places and modules before their names are known. */
struct error *collect_finish_put_places(struct finishing *finishing) ERROR_MUST_CHECK;
/* Sites without titles; they are in the profile then, and sites begins anew. */
struct error *collect_finish_put_untitled(struct finishing *finishing) ERROR_MUST_CHECK;
/* Modules, lines, and the sites with their titles. */
struct error *collect_finish_stacks(struct finishing *finishing) ERROR_MUST_CHECK;
void collect_finish_frames_free(struct finishing *finishing);

#endif
