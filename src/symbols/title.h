/*
 * What a site is named after: the first frame of its stack, from the innermost, that is
 * not a wrapper of the allocator. A wrapper is a function by name (operator new, *alloc*,
 * strdup and its kin, all of C++'s std, Rust's alloc and core, Python's PyMem_*, and what
 * --alloc-fn adds), or any function of the C and C++ libraries. Where a stack has nothing
 * else, the first frame that is no wrapper by name will do, else the innermost.
 */
#ifndef MALLOGRAPH_SYMBOLS_TITLE_H
#define MALLOGRAPH_SYMBOLS_TITLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* function: as symbols give it, demangled, with or without its parameters. patterns: of
 * --alloc-fn, matched with fnmatch() against the whole name and the name without
 * parameters and template arguments. */
bool symbols_title_is_wrapper(const char *function, const char *const *patterns,
			      size_t pattern_count);

/* Into an empty buffer: the qualified name alone, without parameters, template arguments
 * and what it returns: "std::vector::push_back". */
void symbols_title_plain(const char *function, struct strbuf *name);

/* Whether a file is the C library, the dynamic linker, or a C++ or compiler runtime. */
bool symbols_title_is_runtime(const char *path);

#endif
