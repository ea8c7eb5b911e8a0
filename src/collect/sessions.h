/*
 * The session files of this user, wherever collectors and agents left them.
 * Owner: the caller, who frees the list. The files may be gone by the time they are opened.
 */
#ifndef MALLOGRAPH_COLLECT_SESSIONS_H
#define MALLOGRAPH_COLLECT_SESSIONS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vector.h"

struct collect_found {
	char *path;
	pid_t pid;           /* by its name; 0 = it says none */
	uint64_t starttime;  /* the same */
	uint64_t changed_ns; /* CLOCK_REALTIME */
};

struct collect_sessions {
	VECTOR(struct collect_found) list; /* newest first */
};

struct error *collect_sessions_list(struct collect_sessions *ret) ERROR_MUST_CHECK;
/* The same of any directory: ledgers and profiles; their names say nothing more. */
struct error *collect_sessions_list_directory(const char *path,
					      struct collect_sessions *ret) ERROR_MUST_CHECK;
void collect_sessions_free(struct collect_sessions *sessions);

#endif
