/*
 * Whether a file is the one looked for: build-ids, the CRC of .gnu_debuglink, and what debug
 * information is in it.
 *
 * Owner: nothing is kept. Errors: none; a file that cannot be read is not the one.
 */
#ifndef MALLOGRAPH_SYMBOLS_CANDIDATE_H
#define MALLOGRAPH_SYMBOLS_CANDIDATE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "symbols/symbols.h"

#define SYMBOLS_BUILD_ID_MAX ((size_t)64)

struct symbols_build_id {
	uint8_t bytes[SYMBOLS_BUILD_ID_MAX];
	size_t count; /* 0 = none */
};

/* What a candidate must match: an id, or where that cannot be had, a CRC. */
struct symbols_wanted {
	enum symbols_place place;
	const struct symbols_build_id *id;
	const uint32_t *crc; /* NULL = the id alone counts */
	bool is_dwz;         /* has no lines of its own */
};

struct symbols_build_id symbols_build_id_of(Elf *elf);
bool symbols_build_id_equal(const struct symbols_build_id *a, const struct symbols_build_id *b);
void symbols_build_id_print(struct strbuf *buffer, const struct symbols_build_id *id);

/* A regular file to read; −1 and errno. Never waits, as a FIFO would. */
int symbols_file_open(const char *path);

/* What debug information a file has: FOUND, NO_DEBUG, NO_LINES. */
enum symbols_outcome symbols_debug_outcome(Elf *elf);

/* One of those for the file wanted; of any other what is wrong with it, and more into detail. */
enum symbols_outcome symbols_candidate_match(int fd, const struct symbols_wanted *wanted,
					     struct strbuf *detail);

#endif
