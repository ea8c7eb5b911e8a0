/*
 * Starting the target: it gets everything as it would from a plain exec, but for two
 * variables in its environment that the agent takes out again. In two steps, since the
 * session file bears the pid: first a child that waits, then its exec.
 *
 * Once the child is made this process holds on to nothing that it inherited but
 * standard error: a reader of the target's output sees its end when the target closes it.
 *
 * Owner: the caller. A child that was never let go ends when collect_launch_cancel()
 * or this process's own end closes its pipe.
 */
#ifndef MALLOGRAPH_COLLECT_LAUNCH_H
#define MALLOGRAPH_COLLECT_LAUNCH_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "collect/signals.h"

struct collect_launch {
	pid_t pid;
	int go;     /* we write the session's path here, then it starts */
	int report; /* it writes errno here if the exec failed */
};

struct collect_launch_options {
	const char *path;                      /* what to execute */
	char *const *argv;                     /* as typed */
	const char *agent;                     /* path of the library to preload */
	const struct collect_signals *signals; /* to restore in the child */
	struct rlimit file_size;               /* the same */
};

struct error *collect_launch_fork(const struct collect_launch_options *options,
				  struct collect_launch *ret) ERROR_MUST_CHECK;
/* NULL: it runs the program now. exit_code is set with an error. */
struct error *collect_launch_start(struct collect_launch *launch, const char *session,
				   const char *path, int *exit_code) ERROR_MUST_CHECK;
/* End the child that was not started. */
void collect_launch_cancel(struct collect_launch *launch);

#endif
