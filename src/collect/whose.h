/*
 * Which process of this pid namespace a ledger is of. What it calls its pid is another's name here,
 * or nobody's, where the program runs in a namespace of its own (unshare -p, containers).
 *
 * The pid is believed where whoever has it here began when that can have been. Otherwise, in a
 * session that has shown such a namespace, /proc is searched for one that is called so in its own
 * (NSpid in /proc/PID/status) and maps the session file. Where /proc cannot be listed nobody is
 * found. Owner: the caller, by collect_whose_free(); all zeros is empty. Threads: one.
 */
#ifndef MALLOGRAPH_COLLECT_WHOSE_H
#define MALLOGRAPH_COLLECT_WHOSE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/vector.h"
#include "ledger/reader.h"

struct collect_namesake {
	pid_t here;
	pid_t inner; /* what it calls itself */
	uint64_t starttime;
};

struct collect_whose {
	bool has_spaces; /* some process is in another namespace */
	bool is_fresh;   /* the list is no older than the reader */
	VECTOR(struct collect_namesake) list;
};

/* There is a reader of later: who is there is asked anew. */
void collect_whose_begin(struct collect_whose *whose);
/* *ret: its pid here, 0 = it is gone. fd: the session file's. */
struct error *collect_whose(struct collect_whose *whose, const struct ledger_process *process,
			    const struct ledger_session *session, int fd,
			    pid_t *ret) ERROR_MUST_CHECK;
void collect_whose_free(struct collect_whose *whose);

#endif
