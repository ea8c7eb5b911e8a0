/*
 * What a site is named after: the first frame of its stack, from the innermost, that is
 * not a wrapper of the allocator. A wrapper is a function by name (operator new, *alloc*,
 * strdup and its kin, all of C++'s std, Rust's alloc and core, Python's PyMem_*, and what
 * --alloc-fn adds), or any function of the C and C++ libraries. Where a stack has nothing
 * else, the first frame that is no wrapper by name will do, else the innermost. main says
 * nothing: where it is the first, but itself called a helper that is one by its name alone
 * (xmalloc), the title is that helper.
 */
#ifndef MALLOGRAPH_SYMBOLS_TITLE_H
#define MALLOGRAPH_SYMBOLS_TITLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* function: as symbols give it, demangled, with or without its parameters. patterns: of
 * --alloc-fn, matched with fnmatch() against the whole name and the name without
 * parameters and template arguments. */
bool symbols_title_is_wrapper(const char *function, const char *const *patterns,
			      size_t pattern_count);

/* No line of a place yet. */
#define SYMBOLS_TITLE_NONE UINT32_MAX

/* What a place may be named after, from its lines in order, innermost first: start with
 * SYMBOLS_TITLE_NONE; a place without lines has 0. Of use for symbols_title_place() alone.
 * function NULL = not known. */
void symbols_title_line(uint32_t *named, uint32_t at, const char *function,
			const char *const *patterns, size_t pattern_count);

/* A stack's title, from its places in order, innermost first. All zeros is the start; places
 * have any id but 0. */
struct symbols_title {
	uint32_t place; /* 0 = there is none yet */
	uint32_t depth; /* of its line */
	uint32_t first;
	uint32_t helper; /* that the next place may have called; 0 = none */
	uint32_t helper_depth;
	bool is_library; /* place is one of the C or C++ library */
};

/* false = it is found: further out there is nothing to look for. named: of
 * symbols_title_line(). */
bool symbols_title_place(struct symbols_title *title, uint32_t place, uint32_t named,
			 bool is_runtime);
/* After the last: what there is, if only a wrapper. place 0 = an empty stack. */
void symbols_title_end(struct symbols_title *title);

/* Into an empty buffer: the qualified name alone, without parameters, template arguments
 * and what it returns: "std::vector::push_back". */
void symbols_title_plain(const char *function, struct strbuf *name);

/* Whether a file is the C library, the dynamic linker, or a C++ or compiler runtime. */
bool symbols_title_is_runtime(const char *path);

#endif
