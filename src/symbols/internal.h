/*
 * What the parts of the symbolizer share: its objects, and a round, in which reader
 * processes work through the modules that have something to be read.
 *
 * Owner: symbols_free() ends all of it. A round's readers are forked from this process, so
 * they have the modules and addresses at hand and are told nothing; each takes the next
 * piece of work by the round's shared counter: a module, or of one with many addresses a
 * part of them, so that several readers share it and none holds all of its units at once.
 * Readers that die of a module cost it one attempt: the next, by one reader, leaves debug
 * information alone, a third is not made.
 */
#ifndef MALLOGRAPH_SYMBOLS_INTERNAL_H
#define MALLOGRAPH_SYMBOLS_INTERNAL_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/vector.h"
#include "symbols/cachefile.h"
#include "symbols/debugfile.h"
#include "symbols/image.h"

struct symbols_address {
	uint64_t pc;    /* to look up */
	uint32_t first; /* place of its frames */
	uint32_t count;
	bool is_done;
};

struct symbols_module {
	struct symbols *owner;
	char *path;
	char *file; /* where else it can be read; NULL = nowhere */
	struct symbols_build_id build_id;
	VECTOR(struct symbols_address) addresses; /* by pc, each once, when resolved */
	bool is_present;                          /* not recorded: what is there is meant */
	bool is_dirty;                            /* something was added since */
	bool is_read;                             /* by a reader, since it was added to */
	symbols_frame_list frames;
	struct symbols_cached cached; /* what the cache had of it */
	uint32_t works_left;          /* of this round */
	bool has_failed;              /* a reader died of it in this round */
	unsigned failures;            /* rounds in which one did */
	char *failure;                /* how the first did */
	struct symbols_verdict verdict;
	VECTOR(struct symbols_try) tries;
	symbols_id_list wanted; /* of debug files that no directory has */
	bool has_all_tries;     /* the reader came to its end */
	bool is_cut;            /* there were more */
};

struct symbols_reader;

struct symbols_cache {
	int fd;              /* of its directory; −1 = there is none */
	struct strbuf maker; /* what reads the files */
};

/* The addresses from first on. The first of a module also tells its verdict and tries. */
struct symbols_work {
	struct symbols_module *module;
	uint32_t first;
	uint32_t end;
};

struct symbols_round {
	struct symbols *symbols;
	VECTOR(struct symbols_module *) modules;
	VECTOR(struct symbols_work) works;
	_Atomic uint32_t *next;         /* shared with the readers */
	unsigned progress;              /* works finished, or failed at */
	struct symbols_reader *readers; /* NULL = it is not started */
	unsigned reader_count;
};

struct symbols {
	struct symbols_options options;
	VECTOR(struct symbols_module *) modules;
	VECTOR(char *) strings; /* of frames and verdicts, each once */
	struct map_index string_index;
	struct symbols_round round;
	struct symbols_cache cache;
	symbols_fetch_list fetches;
	struct symbols_counts counts;
};

/* A copy that lives as long as the symbolizer. */
struct error *symbols_intern(struct symbols *symbols, const char *bytes, size_t length,
			     const char **ret) ERROR_MUST_CHECK;

/* Starts readers. The round must stay where it is. */
struct error *symbols_round_start(struct symbols_round *round) ERROR_MUST_CHECK;
/* Takes in what they say until the last is done. Modules may be pending still; each round
 * brings at least one of them further. */
struct error *symbols_round_finish(struct symbols_round *round) ERROR_MUST_CHECK;
/* Ends the readers, if there are any, heard or not. */
void symbols_round_stop(struct symbols_round *round);

/* The life of a reader process. */
_Noreturn void symbols_reader_run(const struct symbols_round *round, int fd);

/* How a reader leaves when memory is short. */
#define SYMBOLS_READER_NO_MEMORY 3

#endif
