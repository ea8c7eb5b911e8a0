/*
 * Where session files are: $XDG_RUNTIME_DIR/mallograph/ or /dev/shm/mallograph-UID/,
 * the user's own directory that nobody else can enter, never a symbolic link.
 *
 * A struct collect_place is opened to make a file in it; its fd keeps standing for the
 * directory that was checked, whatever becomes of the path. Owner: the caller, who ends
 * it with collect_place_close(). Errors: ERROR_REFUSED where no directory will do.
 */
#ifndef MALLOGRAPH_COLLECT_PLACE_H
#define MALLOGRAPH_COLLECT_PLACE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define COLLECT_PLACES 2u

struct collect_place {
	int fd;     /* -1 = closed */
	char *path; /* absolute */
};

#define COLLECT_PLACE_CLOSED \
	{                    \
		.fd = -1     \
	}

/* The index-th candidate, made if it is missing. ERROR_NOT_FOUND: no such candidate. */
struct error *collect_place_open(unsigned index, struct collect_place *ret) ERROR_MUST_CHECK;
/* The same, but one that is missing is ERROR_NOT_FOUND. */
struct error *collect_place_find(unsigned index, struct collect_place *ret) ERROR_MUST_CHECK;
void collect_place_close(struct collect_place *place);

/* An empty file of this process in the first that has room for it, or $TMPDIR or /tmp; its
 * name is malloc'd. */
struct error *collect_place_temporary(char **ret) ERROR_MUST_CHECK;

/* Start time of a process in clock ticks since boot, which with its pid names it for
 * good; 0 = there is none, or only a zombie. */
uint64_t collect_process_starttime(pid_t pid);

#endif
