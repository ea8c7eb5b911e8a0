#include "symbols/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define LOG_DOMAIN "symbols"
#include "base/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* wants standard error for itself */
#else
#define IS_SANITIZED 0
#endif

struct error *symbols_child_start(const char *what, pid_t *ret_pid, int *ret_fd)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return error_create_system(errno, NULL, "cannot make a pipe");
	*ret_pid = fork();
	if (*ret_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		*ret_fd = fds[1];
		return NULL;
	}
	int saved = errno;

	close(fds[1]);
	if (*ret_pid < 0) {
		close(fds[0]);
		return error_create_system(saved, NULL, "cannot start a process to %s", what);
	}
	*ret_fd = fds[0];
	return NULL;
}

/* None of the parent's descriptors: it may wait for one to be closed by everybody. */
static void isolate(int fd)
{
	int null = open("/dev/null", O_RDWR);
	bool quiet = !log_enabled(LOG_DOMAIN, LOG_DEBUG) && !IS_SANITIZED;

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    (quiet && dup2(null, STDERR_FILENO) < 0))
		_exit(1);
	/* Past the standard three the pipe alone, at 3. */
	if (fd != 3 && dup2(fd, 3) < 0)
		_exit(1);
	close_range(4, ~0u, 0);
}

static void reset_signals(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	/* From the keyboard: what to do about those is the parent's to say. */
	action.sa_handler = SIG_IGN;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGQUIT, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void step_back(void)
{
	const struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	/* Rather this process than the one being recorded. */
	CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		log_debug("oom_score_adj: %s", strerror(errno));
}

void symbols_child_enter(int fd)
{
	reset_signals();
	isolate(fd);
	step_back();
}
