/*
 * What a search for symbols tried: each path, in order, what came of it and which file it was.
 * Answers taken from these files hold for as long as every path is what it was, those that
 * were not there included: symbols_identity_of(path) equals the trace's.
 *
 * Owner: whoever declares the trace; symbols_trace_free(). Errors: none: a trace that could
 * not take a path is marked as cut.
 */
#ifndef MALLOGRAPH_SYMBOLS_TRACE_H
#define MALLOGRAPH_SYMBOLS_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/vector.h"
#include "symbols/symbols.h"

/* Past these a trace is cut: a program of so many .dwo files. */
#define SYMBOLS_TRACE_MAX ((size_t)4096)

struct symbols_trace {
	VECTOR(struct symbols_try) tries;
	VECTOR(char *) strings;
	bool is_cut;
};

void symbols_trace_free(struct symbols_trace *trace);

/* Copies path and detail, which may be NULL. */
void symbols_trace_add(struct symbols_trace *trace, const struct symbols_try *tried);
/* What turned out of the last try of this path, if it was to have debug information. */
void symbols_trace_amend(struct symbols_trace *trace, const char *path,
			 enum symbols_outcome outcome, const char *detail);

struct symbols_identity symbols_identity_of_stat(const struct stat *st);

#endif
