/*
 * steps PROGRAM ARG…: how many instructions PROGRAM executes between two int3.
 *
 * It single-steps them, so the count is the same on every machine and every run; it
 * needs no performance counters, which virtual machines lack, and no valgrind, under
 * which the agent cannot grow its ledger (it refuses the agent's mremap and
 * MADV_POPULATE_WRITE).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* The next stop's signal; 0 = the program ended. */
static int resume(pid_t pid, int request, int sig)
{
	int status;

	if (ptrace(request, pid, NULL, (void *)(long)sig) == -1)
		return 0;
	while (waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			return 0;
	}
	return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

/* Whether a SIGTRAP is an int3's, not a step's or an exec's. */
static int is_mark(pid_t pid)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_code == SI_KERNEL;
}

static int run_to_mark(pid_t pid)
{
	int sig = 0;

	do {
		sig = resume(pid, PTRACE_CONT, sig == SIGTRAP ? 0 : sig);
		if (sig == 0)
			return 0;
	} while (sig != SIGTRAP || !is_mark(pid));
	return 1;
}

int main(int argc, char **argv)
{
	long steps = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: steps PROGRAM ARG...\n");
		return 2;
	}
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, NULL, 0) == -1 || !run_to_mark(pid)) {
		fprintf(stderr, "steps: %s did not reach its first int3\n", argv[1]);
		return 1;
	}
	for (;;) {
		int sig = resume(pid, PTRACE_SINGLESTEP, 0);
		if (sig != SIGTRAP) {
			fprintf(stderr, "steps: %s stopped with signal %d\n", argv[1], sig);
			return 1;
		}
		steps++;
		if (is_mark(pid))
			break;
	}
	kill(pid, SIGKILL);
	printf("%ld\n", steps);
	return 0;
}
