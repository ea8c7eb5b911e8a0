/*
 * Names of code made at run time, by what its maker wrote: perf map files, and jitdump files,
 * which have lines too. Addresses are those of the process.
 *
 * A file is read once, from its beginning, for the addresses that were added before; nothing
 * else of it is kept. Where code of two functions was at one address in turn, the later one
 * has it. Files are not trusted: what makes no sense is skipped, names longer than
 * SYMBOLS_JIT_NAME are cut, and reading ends after SYMBOLS_JIT_BYTES, SYMBOLS_JIT_TEXT bytes of
 * names or SYMBOLS_JIT_WORK steps.
 *
 * Owner: symbols_jit_free(), of all that is returned. Errors: no memory; reading failed.
 * Facts: Linux, tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt.
 */
#ifndef MALLOGRAPH_SYMBOLS_JIT_H
#define MALLOGRAPH_SYMBOLS_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vector.h"

#define SYMBOLS_JIT_NAME  ((size_t)4096)
#define SYMBOLS_JIT_BYTES ((uint64_t)1 << 30)
#define SYMBOLS_JIT_TEXT  ((size_t)64 << 20)
#define SYMBOLS_JIT_WORK  ((uint64_t)1 << 28)

struct symbols_jit_pc {
	uint64_t pc;     /* to look up: of a call, a byte before where it returns to */
	size_t function; /* place in names + 1; 0 = not known */
	size_t file;     /* likewise */
	uint32_t line;   /* 0 = not known */
	uint32_t column; /* likewise */
	bool is_lined;   /* the line is that of the call, not where the function begins */
};

struct symbols_jit {
	VECTOR(struct symbols_jit_pc) pcs; /* ascending once a file is read */
	struct strbuf names;               /* each ended by a NUL */
	size_t named;                      /* of pcs */
	size_t lined;                      /* likewise */
	uint64_t work;                     /* steps taken: false files make many */
};

#define SYMBOLS_JIT_EMPTY             \
	{                             \
		.names = STRBUF_EMPTY \
	}

void symbols_jit_free(struct symbols_jit *jit);
struct error *symbols_jit_add(struct symbols_jit *jit, uint64_t pc) ERROR_MUST_CHECK;

/* fd is read from where it stands. */
struct error *symbols_jit_read_map(struct symbols_jit *jit, int fd) ERROR_MUST_CHECK;
struct error *symbols_jit_read_dump(struct symbols_jit *jit, int fd) ERROR_MUST_CHECK;

/* NULL = it was not added. After a file was read. */
const struct symbols_jit_pc *symbols_jit_find(const struct symbols_jit *jit, uint64_t pc);
/* Of a function or file above; NULL for 0. Until the next file is read. */
const char *symbols_jit_text(const struct symbols_jit *jit, size_t place);

/* --- jit*.c alone -------------------------------------------------------------------- */

/* Sorts what was added. */
void symbols_jit_sort(struct symbols_jit *jit);
/* The first at or above address; jit->pcs.count = none. */
size_t symbols_jit_first(const struct symbols_jit *jit, uint64_t address);
/* A function's name as its maker gave it, which may end in FILE:LINE:COLUMN, for all addresses
 * in a range. */
struct error *symbols_jit_name(struct symbols_jit *jit, uint64_t start, uint64_t size,
			       const char *name, size_t length) ERROR_MUST_CHECK;
/* A copy; *ret as in struct symbols_jit_pc. */
struct error *symbols_jit_keep(struct symbols_jit *jit, const char *text, size_t length,
			       size_t *ret) ERROR_MUST_CHECK;

#endif
