/*
 * Where the debug information of an ELF file is when not in it: by build-id under each
 * debug directory, then by .gnu_debuglink, or its own name and .debug, beside the file, in
 * .debug/ there and in the file's own place under each debug directory; what dwz moved to a
 * shared file by .gnu_debugaltlink. A candidate must have the file's build-id or, where one
 * of them has none, the CRC of the link. MALLOGRAPH_LOG=symbols:debug shows each path tried.
 *
 * Owner: whoever declares the search; symbols_search_free(). Errors: no memory; whatever is
 * wrong with a candidate goes to the search's account of what was refused.
 */
#ifndef MALLOGRAPH_SYMBOLS_DEBUGFILE_H
#define MALLOGRAPH_SYMBOLS_DEBUGFILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "symbols/symbols.h"

#define SYMBOLS_BUILD_ID_MAX ((size_t)64)

struct symbols_build_id {
	uint8_t bytes[SYMBOLS_BUILD_ID_MAX];
	size_t count; /* 0 = none */
};

struct symbols_search {
	const struct symbols_options *options;
	struct symbols_build_id build_id; /* of the file whose information is looked for */
	/* What the file found says of its dwz file. */
	char *alternate;
	struct symbols_build_id alternate_id;
	struct strbuf refused; /* "PATH (what is wrong with it)", comma-separated */
};

void symbols_search_free(struct symbols_search *search);

struct symbols_build_id symbols_build_id_of(Elf *elf);
bool symbols_build_id_equal(const struct symbols_build_id *a, const struct symbols_build_id *b);
void symbols_build_id_print(struct strbuf *buffer, const struct symbols_build_id *id);

/* A regular file to read; −1 and errno. Never waits, as a FIFO would. */
int symbols_file_open(const char *path);

/* The one for the search's build-id; −1 = none, else a descriptor, and its malloc'd path. */
int symbols_search_build_id(struct symbols_search *search, char **ret_path);
/* The same by the file's link or, if that is NULL, by its own name and .debug; path is the
 * file's own. */
int symbols_search_name(struct symbols_search *search, const char *path, const char *link,
			uint32_t crc, char **ret_path);
/* Note what an ELF file with debug information says of its dwz file. */
void symbols_search_note_alternate(struct symbols_search *search, Elf *elf);
/* The dwz file so noted; path is the file that names it. */
int symbols_search_alternate(struct symbols_search *search, const char *path, char **ret_path);

#endif
