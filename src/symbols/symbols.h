/*
 * Function names, lines and inlined calls for addresses in ELF files, offline.
 *
 * Use: add modules, add their addresses, symbols_resolve(), then ask. More of both may be
 * added and resolved later; what was resolved stays.
 *
 * Addresses are ELF addresses (pc − load bias). One that is not exact is a return address,
 * and its call is looked up one byte before it.
 *
 * Files are not trusted: they are read in child processes, limited in memory and in time,
 * and one that crashes or stalls its reader ends as a module with fewer symbols and the
 * reason. A file whose build-id is not the recorded one is not used. Nothing is fetched
 * from the network.
 *
 * Owner: the symbolizer owns modules, frames and strings until symbols_free(); a frame
 * array moves when more is resolved, strings do not. Strings are bytes as they stand in
 * the file, not always UTF-8. Threads: one at a time. Errors: no memory, no child process;
 * anything about a file is its module's verdict. Facts: the DWARF 4 and 5 standards, the
 * System V ABI, and "Debugging Information in Separate Files" of gdb's manual.
 */
#ifndef MALLOGRAPH_SYMBOLS_SYMBOLS_H
#define MALLOGRAPH_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct symbols;
struct symbols_module;

struct symbols_options {
	/* Roots of separate debug files, in order. NULL = /usr/lib/debug. */
	const char *const *debug_directories;
	size_t debug_directory_count;
	unsigned stall_ms; /* a reader that says nothing for so long is ended; 0 = a minute */
	unsigned workers;  /* readers at once; 0 = by processors and work */
};

enum symbols_level {
	SYMBOLS_PENDING, /* not read yet */
	SYMBOLS_NONE,
	SYMBOLS_SYMTAB, /* function names from a symbol table */
	SYMBOLS_LINES,  /* lines too, but nothing about functions */
	SYMBOLS_FULL,   /* functions, inlined calls, lines */
};

struct symbols_verdict {
	enum symbols_level level;
	const char *reason;     /* why it is not full, or what is doubtful; NULL = nothing is */
	const char *debug_file; /* where they came from; NULL = the module's own file */
};

struct symbols_frame {
	const char *function; /* demangled; NULL = not known */
	const char *file;     /* NULL = not known */
	uint32_t line;        /* 0 = not known */
	uint32_t column;      /* 0 = not known */
	bool inlined;         /* into the next frame */
};

/* options NULL = all defaults; copied. */
struct error *symbols_create(const struct symbols_options *options,
			     struct symbols **ret) ERROR_MUST_CHECK;
void symbols_free(struct symbols *symbols);

/* path and build-id as recorded, copied; build_id_bytes 0 = recorded without one. */
struct error *symbols_module_add(struct symbols *symbols, const char *path, const void *build_id,
				 size_t build_id_bytes,
				 struct symbols_module **ret) ERROR_MUST_CHECK;
/* The same address may be added any number of times. */
struct error *symbols_address_add(struct symbols_module *module, uint64_t offset,
				  bool exact) ERROR_MUST_CHECK;
/* Begins to read what was added. Nothing is added until symbols_resolve() has waited for it. */
struct error *symbols_start(struct symbols *symbols) ERROR_MUST_CHECK;
/* Reads what was added since the last time. */
struct error *symbols_resolve(struct symbols *symbols) ERROR_MUST_CHECK;

struct symbols_verdict symbols_module_verdict(const struct symbols_module *module);
/* Innermost first; NULL and 0 where nothing is known of the address. */
const struct symbols_frame *symbols_frames(const struct symbols_module *module, uint64_t offset,
					   bool exact, size_t *ret_count);

/* full, lines, symtab, none, pending */
const char *symbols_level_name(enum symbols_level level);

#endif
