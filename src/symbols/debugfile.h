/*
 * Where the debug information of an ELF file is when not in it: by build-id under each
 * debug directory (those of the options, /usr/lib/debug of the sysroot, /usr/lib/debug), then
 * by .gnu_debuglink, or its own name and .debug, beside the file, in
 * .debug/ there and in the file's own place under each debug directory; what dwz moved to a
 * shared file by .gnu_debugaltlink. A candidate must have the file's build-id or, where one
 * of them has none, the CRC of the link. MALLOGRAPH_LOG=symbols:debug shows each path tried.
 *
 * Owner: whoever declares the search; symbols_search_free(). Errors: no memory; whatever is
 * wrong with a candidate is in the search's trace.
 */
#ifndef MALLOGRAPH_SYMBOLS_DEBUGFILE_H
#define MALLOGRAPH_SYMBOLS_DEBUGFILE_H

#include "symbols/candidate.h"
#include "symbols/trace.h"

/* What was asked of debuginfod servers. */
struct symbols_fetch {
	struct symbols_build_id id;
	bool is_known;
	const char *path; /* NULL = they have none, or: */
	const char *why;  /* there is no answer */
};

typedef VECTOR(struct symbols_fetch) symbols_fetch_list;

/* Of what a module wants servers to be asked for: itself and its dwz file, in practice. */
#define SYMBOLS_WANTED_MAX 8u

typedef VECTOR(struct symbols_build_id) symbols_id_list;

struct symbols_search {
	const char *sysroot; /* "" = none */
	VECTOR(char *) directories;
	const symbols_fetch_list *fetches; /* NULL = no servers are asked */
	symbols_id_list wanted;            /* of fetches that were not made yet */
	struct symbols_build_id build_id;  /* of the file whose information is looked for */
	/* What the file found says of its dwz file. */
	char *alternate;
	struct symbols_build_id alternate_id;
	/* The file wanted, but with nothing more than a symbol table; −1 = none. */
	int poor_fd;
	char *poor_path;
	struct symbols_trace trace;
};

struct error *symbols_search_init(struct symbols_search *search,
				  const struct symbols_options *options,
				  const symbols_fetch_list *fetches) ERROR_MUST_CHECK;

void symbols_search_free(struct symbols_search *search);

/* "PATH (what is wrong with it)", comma-separated, of what was there and is not in use. */
void symbols_search_refused(const struct symbols_search *search, struct strbuf *text);

/* A file of the search's at path; −1 and errno, and then in the trace. *ret is for the trace,
 * with what becomes of it: it borrows path. */
int symbols_search_open(struct symbols_search *search, enum symbols_place place, const char *path,
			struct symbols_try *ret);

/* Calls visit with each path where the file itself may be by its build-id, until it answers
 * false. */
void symbols_search_own(const struct symbols_search *search, const struct symbols_build_id *id,
			bool (*visit)(void *context, const char *path), void *context);

/* The one for the search's build-id; −1 = none, else a descriptor, and its malloc'd path. */
int symbols_search_build_id(struct symbols_search *search, char **ret_path);
/* The same by the file's link or, if that is NULL, by its own name and .debug; path is the
 * file's own. */
int symbols_search_name(struct symbols_search *search, const char *path, const char *link,
			uint32_t crc, char **ret_path);
/* One that a server had; if nobody asked, it is wanted. */
int symbols_search_server(struct symbols_search *search, const struct symbols_build_id *id,
			  char **ret_path);
/* What the trace calls it. */
void symbols_search_server_path(struct strbuf *text, const struct symbols_build_id *id);
/* Where none found one: a file that was right, but has no debug information. */
int symbols_search_poor(struct symbols_search *search, char **ret_path);
/* Note what an ELF file with debug information says of its dwz file. */
void symbols_search_note_alternate(struct symbols_search *search, Elf *elf);
void symbols_search_forget_alternate(struct symbols_search *search);
/* The dwz file so noted; path is the file that names it. */
int symbols_search_alternate(struct symbols_search *search, const char *path, char **ret_path);

#endif
