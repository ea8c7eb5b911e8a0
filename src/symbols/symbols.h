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
 * reason. A file whose build-id is not the recorded one is not used. Servers are asked where
 * the caller names some. What former runs found is taken from a cache, if the caller wants.
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

/* What the kernel puts behind the path of a mapped file that is gone from there. */
#define SYMBOLS_DELETED " (deleted)"

enum symbols_fetch_step {
	SYMBOLS_FETCH_PROGRESS = 1,
	SYMBOLS_FETCH_DONE,
	SYMBOLS_FETCH_KEPT,   /* it was fetched before */
	SYMBOLS_FETCH_ABSENT, /* no server has it */
	SYMBOLS_FETCH_FAILED,
};

struct symbols_fetch_event {
	enum symbols_fetch_step step;
	const char *name; /* of the file it is for */
	uint64_t done;    /* bytes; 0 = none yet */
	uint64_t whole;   /* 0 = not known */
	int64_t ms;       /* since it was asked for */
	const char *why;  /* it failed */
};

struct symbols_options {
	/* Roots of separate debug files, in order; /usr/lib/debug comes after them. */
	const char *const *debug_directories;
	size_t debug_directory_count;
	/* Where the file system begins that modules were recorded in; NULL = here. */
	const char *sysroot;
	/* debuginfod servers to ask for what is nowhere else, as in DEBUGINFOD_URLS; NULL = none. */
	const char *servers;
	/* How that goes, a few times a second; NULL = nobody asks. */
	void (*tell)(void *context, const struct symbols_fetch_event *event);
	void *tell_context;
	/* A reader that says nothing for so long is ended, or is at one piece of work for five
	 * times that; 0 = a minute. */
	unsigned stall_ms;
	unsigned workers; /* readers at once; 0 = by processors and work */
	bool use_cache;   /* of former runs, on disk: see cache.h */
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
	const char *build_id;   /* in hexadecimal, of the file read; NULL = none, or no file */
};

/* What was looked at for a module, in order, by symbols_module_tries(). */
enum symbols_place {
	SYMBOLS_PLACE_FILE = 1, /* the module's own file */
	SYMBOLS_PLACE_BUILD_ID, /* DIRECTORY/.build-id/xx/yyyy.debug */
	SYMBOLS_PLACE_LINK,     /* where the file's .gnu_debuglink leads */
	SYMBOLS_PLACE_NAME,     /* its own name and .debug, where a link would lead */
	SYMBOLS_PLACE_DWZ,      /* what dwz moved out of the debug information */
	SYMBOLS_PLACE_SPLIT,    /* .dwo files */
	SYMBOLS_PLACE_SERVER,   /* what debuginfod servers have */
	SYMBOLS_PLACE_LAST = SYMBOLS_PLACE_SERVER,
};

enum symbols_outcome {
	SYMBOLS_OUTCOME_FOUND = 1, /* and in use, as far as something better was not */
	SYMBOLS_OUTCOME_ABSENT,
	SYMBOLS_OUTCOME_UNREADABLE, /* detail: why */
	SYMBOLS_OUTCOME_NOT_ELF,
	SYMBOLS_OUTCOME_OTHER_BUILD_ID, /* detail: whose */
	SYMBOLS_OUTCOME_OTHER_CRC,
	SYMBOLS_OUTCOME_NO_DEBUG, /* the file wanted, without debug information */
	SYMBOLS_OUTCOME_NO_LINES, /* debug information without .debug_line */
	SYMBOLS_OUTCOME_BAD_DEBUG,
	SYMBOLS_OUTCOME_LAST = SYMBOLS_OUTCOME_BAD_DEBUG,
};

/* Which file a path was; all zeros = it was not there. */
struct symbols_identity {
	bool exists;
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	int64_t mtime_ns;
};

struct symbols_try {
	enum symbols_place place;
	enum symbols_outcome outcome;
	const char *path;
	const char *detail; /* more than the outcome's text says; NULL = nothing */
	struct symbols_identity identity;
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

/* The bytes of a build-id in hexadecimal, as many as there are room and pairs of digits for;
 * text NULL = none. */
size_t symbols_parse_build_id(const char *text, uint8_t *bytes, size_t most);

/* path and build-id as recorded, copied; build_id_bytes 0 = recorded without one. */
struct error *symbols_module_add(struct symbols *symbols, const char *path, const void *build_id,
				 size_t build_id_bytes,
				 struct symbols_module **ret) ERROR_MUST_CHECK;
/* Another place where the module's file can be read, as long as it is there: that of a process
 * that still runs. Tried first. */
struct error *symbols_module_add_file(struct symbols_module *module,
				      const char *path) ERROR_MUST_CHECK;
/* It was not recorded: whatever is at its path is what is meant, and its symbols are in no
 * doubt for want of a build-id. */
void symbols_module_take_present(struct symbols_module *module);
/* The same address may be added any number of times. */
struct error *symbols_address_add(struct symbols_module *module, uint64_t offset,
				  bool exact) ERROR_MUST_CHECK;
/* Begins to read what was added. Nothing is added until symbols_resolve() has waited for it. */
struct error *symbols_start(struct symbols *symbols) ERROR_MUST_CHECK;
/* Reads what was added since the last time. */
struct error *symbols_resolve(struct symbols *symbols) ERROR_MUST_CHECK;

/* What it cost so far. */
struct symbols_counts {
	uint64_t readers;      /* processes started */
	uint64_t modules_read; /* by them, once for each resolving */
	uint64_t modules_cached;
	uint64_t addresses_read;
	uint64_t addresses_cached;
};

struct symbols_counts symbols_counts(const struct symbols *symbols);

struct symbols_verdict symbols_module_verdict(const struct symbols_module *module);
/* In the order they were made. *ret_is_whole false = there were more, or a reader died of it. */
const struct symbols_try *symbols_module_tries(const struct symbols_module *module,
					       size_t *ret_count, bool *ret_is_whole);
/* Innermost first; NULL and 0 where nothing is known of the address. */
const struct symbols_frame *symbols_frames(const struct symbols_module *module, uint64_t offset,
					   bool exact, size_t *ret_count);

/* full, lines, symtab, none, pending */
const char *symbols_level_name(enum symbols_level level);
/* file, build-id, link, name, dwz, split, server */
const char *symbols_place_name(enum symbols_place place);
/* "not there", "of another build-id" */
const char *symbols_outcome_text(enum symbols_outcome outcome);

/* What a path is now. */
struct symbols_identity symbols_identity_of(const char *path);
bool symbols_identity_equal(const struct symbols_identity *a, const struct symbols_identity *b);

#endif
