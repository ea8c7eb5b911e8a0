#include "collect/launch.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "collect/program.h"

extern char **environ;

#define SHELL "/bin/sh"

static ssize_t read_retried(int fd, void *buffer, size_t bytes)
{
	ssize_t n;

	do
		n = read(fd, buffer, bytes);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* The environment with the agent first in LD_PRELOAD and the session's path. Everything
 * else keeps its place: the agent takes these two out, and the rest is as it was. Of several
 * LD_PRELOADs the last is the one the loader obeys. */
static char **child_environment(const char *agent, const char *session)
{
	size_t count = 0, to = 0, last = SIZE_MAX;
	const char *preload = NULL;

	while (environ[count])
		count++;
	char **result = calloc(count + 3, sizeof(*result));
	char *preload_entry = NULL, *session_entry = NULL;

	for (size_t i = 0; i < count; i++)
		if (is_variable(environ[i], "LD_PRELOAD"))
			last = i;
	if (last != SIZE_MAX)
		preload = strchr(environ[last], '=') + 1;
	if (!result ||
	    asprintf(&preload_entry, "LD_PRELOAD=%s%s%s", agent, preload ? ":" : "",
		     preload ? preload : "") < 0 ||
	    asprintf(&session_entry, "MALLOGRAPH_SESSION=%s", session) < 0)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (i == last) {
			result[to++] = preload_entry;
		} else if (!is_variable(environ[i], "MALLOGRAPH_SESSION") &&
			   !is_variable(environ[i], "MALLOGRAPH_OUT") &&
			   !is_variable(environ[i], "MALLOGRAPH_FROM")) {
			result[to++] = environ[i];
		}
	}
	if (last == SIZE_MAX)
		result[to++] = preload_entry;
	result[to] = session_entry;
	return result;
}

/* As execvp(3): what the kernel does not know is the shell's. */
static void execute(const char *path, char *const *argv, char **environment)
{
	size_t count = 0;

	execve(path, argv, environment);
	if (errno != ENOEXEC)
		return;
	while (argv[count])
		count++;
	const char **shell = calloc(count + 2, sizeof(*shell));

	if (!shell)
		return;
	shell[0] = SHELL;
	shell[1] = path;
	for (size_t i = 1; i < count; i++)
		shell[i + 1] = argv[i];
	execve(SHELL, (char *const *)shell, environment);
}

static _Noreturn void child(const struct collect_launch_options *options, int go, int report)
{
	char session[PATH_MAX];
	ssize_t bytes = read_retried(go, session, sizeof(session) - 1);

	/* Cancelled, or the collector died: nobody is there to be told. */
	if (bytes <= 0)
		_exit(COLLECT_EXIT_FAILED);
	session[bytes] = '\0';

	char **environment = child_environment(options->agent, session);

	if (environment) {
		setrlimit(RLIMIT_FSIZE, &options->file_size);
		collect_signals_restore(options->signals);
		execute(options->path, options->argv, environment);
	} else {
		errno = ENOMEM;
	}
	int errnum = errno;

	if (write(report, &errnum, sizeof(errnum)) < 0)
		_exit(COLLECT_EXIT_FAILED);
	_exit(COLLECT_EXIT_NOT_EXECUTABLE);
}

static void close_above(const int *keep, size_t count)
{
	unsigned from = STDERR_FILENO + 1;

	/* keep is ordered */
	for (size_t i = 0; i < count; i++) {
		if ((unsigned)keep[i] > from)
			close_range(from, (unsigned)keep[i] - 1, 0);
		if ((unsigned)keep[i] >= from)
			from = (unsigned)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
}

static void let_go_of_inherited(const struct collect_signals *signals,
				const struct collect_launch *launch)
{
	int keep[] = {signals->fd, launch->go, launch->report};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup3(null, STDIN_FILENO, O_CLOEXEC);
		dup3(null, STDOUT_FILENO, O_CLOEXEC);
	}
	for (size_t i = 1; i < 3; i++)
		for (size_t k = i; k > 0 && keep[k] < keep[k - 1]; k--) {
			int swapped = keep[k];

			keep[k] = keep[k - 1];
			keep[k - 1] = swapped;
		}
	close_above(keep, 3);
}

struct error *collect_launch_fork(const struct collect_launch_options *options,
				  struct collect_launch *ret)
{
	int go[2], report[2];

	if (pipe2(go, O_CLOEXEC) != 0)
		return error_create_system(errno, NULL, "cannot make a pipe");
	if (pipe2(report, O_CLOEXEC) != 0) {
		int errnum = errno;

		close(go[0]);
		close(go[1]);
		return error_create_system(errnum, NULL, "cannot make a pipe");
	}
	pid_t pid = fork();

	if (pid == 0) {
		close(go[1]);
		close(report[0]);
		child(options, go[0], report[1]);
	}
	int errnum = errno;

	close(go[0]);
	close(report[1]);
	*ret = (struct collect_launch){.pid = pid, .go = go[1], .report = report[0]};
	if (pid < 0) {
		close(ret->go);
		close(ret->report);
		return error_create_system(errnum, NULL, "cannot start a process");
	}
	let_go_of_inherited(options->signals, ret);
	return NULL;
}

static void finish(struct collect_launch *launch)
{
	if (launch->go >= 0)
		close(launch->go);
	if (launch->report >= 0)
		close(launch->report);
	launch->go = launch->report = -1;
}

void collect_launch_cancel(struct collect_launch *launch)
{
	finish(launch);
	while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

struct error *collect_launch_start(struct collect_launch *launch, const char *session,
				   const char *path, int *exit_code)
{
	ssize_t bytes = (ssize_t)strlen(session);
	int errnum = 0;

	*exit_code = COLLECT_EXIT_FAILED;
	if (write(launch->go, session, (size_t)bytes) != bytes) {
		struct error *error = error_create_system(errno, NULL, "cannot start the program");

		collect_launch_cancel(launch);
		return error;
	}
	ssize_t told = read_retried(launch->report, &errnum, sizeof(errnum));

	if (told == 0) {
		finish(launch);
		return NULL;
	}
	collect_launch_cancel(launch);
	if (told < (ssize_t)sizeof(errnum))
		return error_create(ERROR_SYSTEM, "cannot tell whether the program was started");
	*exit_code = errnum == ENOENT ? COLLECT_EXIT_NOT_FOUND : COLLECT_EXIT_NOT_EXECUTABLE;
	struct error *error = error_create_system(errnum, path, "cannot be executed");

	return errnum == E2BIG
		       ? error_remedy(error, "Recording takes some 200 bytes of the environment, "
					     "in LD_PRELOAD most of them; ulimit -s raises "
					     "the limit of all arguments and variables.")
		       : error;
}
