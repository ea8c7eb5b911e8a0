/*
 * From a session's ledgers to its profile: everything the reader sees, canonical and
 * summed, with symbols and the snapshots taken meanwhile.
 *
 * Of live blocks all are listed while they are COLLECT_BLOCKS at most, over all
 * processes; beyond, a process that does not fit lists the oldest and the largest of
 * each site. `cohort` sums all of them. In a tree of many processes with many sites each, the
 * small ones of those that come later are summed. Units and meaning: docs/FORMAT.md.
 */
#ifndef MALLOGRAPH_COLLECT_FINISH_H
#define MALLOGRAPH_COLLECT_FINISH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "collect/early.h"
#include "collect/files.h"
#include "collect/snapshot.h"
#include "ledger/reader.h"

struct symbols_options;

#define COLLECT_BLOCKS 200000u
#define COLLECT_SERIES 2000000u

/* From so many sites on a process that is not the root keeps those that matter most. */
#define COLLECT_SITES      250000u
#define COLLECT_SITES_KEPT 1024u

struct collect_finish_options {
	const struct collect_snapshots *snapshots; /* NULL = none were taken */
	struct collect_early *early;               /* NULL = nothing was made while it ran */
	const char
		*retired; /* a profile of processes that are in the reader no more; NULL = none */
	const struct collect_files *files; /* NULL = none were held */
	const char *const *alloc_fns;      /* globs: more wrappers of the allocator */
	size_t alloc_fn_count;
	const struct symbols_options *symbols; /* NULL = all defaults */
	uint64_t sites;                        /* instead of COLLECT_SITES; 0 = that */
	bool all_blocks;                       /* however many they are */
	bool no_symbols;                       /* leave them for later: modules are `pending` */
};

/* path: a file that is empty or not there, best a temporary one to be renamed; name: what
 * it is to be called, for messages. options NULL = all defaults. On an error the file is
 * not whole. */
struct error *collect_finish(struct ledger_reader *reader,
			     const struct collect_finish_options *options, const char *path,
			     const char *name) ERROR_MUST_CHECK;

#endif
