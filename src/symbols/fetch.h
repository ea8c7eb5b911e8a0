/*
 * Debug files that debuginfod servers have, asked for by build-id where the search found none.
 * A child process asks, through libdebuginfod, which keeps what it fetched in a cache of its
 * own; this process waits no longer than the limits below for it, whatever the servers do:
 * one that answers nothing is given up, and with it all that was still to be asked for. Who
 * wants to hear how it goes is told through symbols_options.
 *
 * What a file brings is checked as any other's is, by the reader.
 *
 * Owner: fetches belong to the symbolizer. Errors: no memory, no child process; that there is
 * no file, or no answer, is an entry that says why. Facts: debuginfod_find_debuginfo(3).
 */
#ifndef MALLOGRAPH_SYMBOLS_FETCH_H
#define MALLOGRAPH_SYMBOLS_FETCH_H

#include <limits.h>

#include "symbols/internal.h"

/* Unless DEBUGINFOD_TIMEOUT and DEBUGINFOD_MAXTIME say otherwise. */
#define SYMBOLS_FETCH_SILENT_S 10u
#define SYMBOLS_FETCH_WHOLE_S  60u

/* What the child says, as it stands in memory. */
struct symbols_fetch_note {
	uint32_t place; /* of the fetch */
	uint32_t kind;
	uint64_t done; /* bytes */
	uint64_t whole;
	int32_t error; /* errno; 0 = path has it */
	bool is_new;   /* it was not there before */
	char path[PATH_MAX];
};

enum { SYMBOLS_FETCH_STARTED = 1, SYMBOLS_FETCH_GOES_ON, SYMBOLS_FETCH_ENDED };

/* Asks for what modules want and nobody asked for yet. Modules that may know more now are
 * dirty after it. */
struct error *symbols_fetch(struct symbols *symbols) ERROR_MUST_CHECK;

/* The life of the child: asks for the fetches from a place on. */
_Noreturn void symbols_fetcher_run(const struct symbols *symbols, size_t from, int fd);

#endif
