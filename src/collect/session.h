/*
 * The collector's end of a session file: it makes it, keeps space populated ahead of the
 * processes that record into it, and removes it. One thread.
 *
 * The file appears under its name with its lock held and its header whole; whoever can
 * take the lock knows that no collector is left. What stands in the file can be written
 * by the target and is never trusted.
 *
 * Owner: the caller, who ends it with collect_session_close(), which leaves the file in
 * place. All zeros is not a closed one: start from COLLECT_SESSION_CLOSED.
 */
#ifndef MALLOGRAPH_COLLECT_SESSION_H
#define MALLOGRAPH_COLLECT_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "collect/place.h"
#include "ledger/layout.h"
#include "ledger/reader.h"

struct collect_session {
	int fd;
	struct collect_place place;
	char *name;    /* in the place */
	char *path;    /* absolute, for the agent */
	char *profile; /* where what is over of it is kept, if anything is */
	uint64_t file_bytes;
	uint64_t max_bytes;
	uint64_t taken_units;     /* as last seen */
	uint64_t populated_units; /* units below this one were populated, or left to the agents */
	bool full;                /* the file system takes no more; never asked again */
};

#define COLLECT_SESSION_CLOSED                          \
	{                                               \
		.fd = -1, .place = COLLECT_PLACE_CLOSED \
	}

/* Of what is recorded; 0 = the default. */
struct collect_session_limits {
	uint64_t bytes;     /* of all ledgers */
	uint32_t depth;     /* frames of a stack */
	const char *choice; /* of processes, as MGL_CHOICE_BYTES; NULL = all */
};

/* For the process root, which has not begun to record. */
struct error *collect_session_create(pid_t root, const struct collect_session_limits *limits,
				     struct collect_session *ret) ERROR_MUST_CHECK;
/* Refuses where the kernel lacks what agents need (Linux 5.14). */
struct error *collect_session_check_kernel(void) ERROR_MUST_CHECK;

/* Populate a little ahead of what was taken. Whether more was taken since the last call. */
bool collect_session_tend(struct collect_session *session);
/* A piece of the file is needed no more: it takes no room, and agents may use as much anew. */
void collect_session_release(struct collect_session *session, uint64_t offset, uint64_t bytes);
/* So many processes are in the profile beside it. */
void collect_session_set_retired(struct collect_session *session, size_t count);
/* So many processes run that no ledger knows of; name: the first one's, with why. */
void collect_session_add_missed(struct collect_session *session, size_t count, const char *name);
/* No process records new allocations from now on. */
void collect_session_stop(struct collect_session *session);
/* With what is kept beside it. */
struct error *collect_session_unlink(struct collect_session *session) ERROR_MUST_CHECK;
/* The same of one that nobody watches, by its path. */
struct error *collect_session_remove(const char *path, bool with_profile) ERROR_MUST_CHECK;
void collect_session_close(struct collect_session *session);

/* The name of what is kept beside a session file; malloc'd, NULL = no memory. */
char *collect_session_profile(const char *path);
/* The same if there is one and it is trusted, in a directory that is ours alone, and the file
 * says that there are processes in it. *ret NULL = no. */
struct error *collect_session_kept(const struct ledger_session *session, const char *path,
				   char **ret) ERROR_MUST_CHECK;

/* Processes that were not to be recorded, as agents say. */
size_t collect_session_left_out(const struct collect_session *session);

/* Bytes of any session file that were taken, never more than it has. */
struct error *collect_session_used(int fd, const char *path, uint64_t *ret) ERROR_MUST_CHECK;

#endif
