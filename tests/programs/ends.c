/*
 * ends OUT HOW: starts a child for each way to end, one after another, and learns how it ended by
 * HOW:
 *   wait, waitpid, waitpid_null, wait3, wait4, waitid, waitid_null, polled (WNOHANG)
 *   handler   in a handler of SIGCHLD that interrupts a loop of malloc and free
 *   looked    waitid with WNOWAIT first
 *   threads   4 threads at once, each waiting for its own
 *   vfork     children of vfork that execute this program
 *   system, popen, systems (4 threads at once)   by a shell
 *   middle    a child that allocates nothing waits for its own child, and the root for it
 *   ignored   SIGCHLD is ignored: nobody learns it
 *   nobody    no child is waited for
 *   cancelled a thread is cancelled in waitpid, and another waits for the child instead
 *   child E   what is executed: ends by E, an exit status, or a signal's number below zero
 * Every child says `process PID` and `ends`, how it will end, as waitpid has it. HOW's process says
 * how many children it learned the end of, `learned`, after checking each.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tally.h"

static const int endings[] = {0, 1, 7, 127, 255, -SIGKILL, -SIGTERM, -SIGSEGV, -SIGABRT};
enum { ENDINGS = sizeof(endings) / sizeof(endings[0]), THREADS = 4 };

static char **arguments;
static _Atomic uint64_t learned;

static int status_of(int ending) { return ending < 0 ? -ending : ending << 8; }

static _Noreturn void end_by(int ending)
{
	static const struct rlimit none;

	free(malloc(100));
	say_process();
	say_count("ends", (uint64_t)status_of(ending));
	say_flush();
	setrlimit(RLIMIT_CORE, &none);
	if (ending >= 0)
		_exit(ending);
	signal(-ending, SIG_DFL);
	raise(-ending);
	_exit(60);
}

static pid_t start(int ending)
{
	pid_t pid = fork();

	if (pid == 0)
		end_by(ending);
	if (pid < 0)
		_exit(61);
	return pid;
}

static pid_t start_program(int ending)
{
	char text[16];
	char *const child[] = {arguments[0], arguments[1], "child", text, NULL};
	pid_t pid;

	snprintf(text, sizeof(text), "%d", ending);
	pid = vfork();
	if (pid == 0) {
		execv("/proc/self/exe", child);
		_exit(62);
	}
	return pid;
}

/* errno must come out of a wait as it went in. */
static void check(pid_t expected, pid_t pid, int status, int ending)
{
	if (pid != expected || (status & ~0x80) != status_of(ending) || errno != 4711)
		_exit(63);
	learned++;
}

static void check_info(pid_t pid, int ending)
{
	siginfo_t info = {0};
	int looked = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);

	if (looked != 0 || info.si_pid != pid)
		_exit(64);
	if (info.si_status != (ending < 0 ? -ending : ending))
		_exit(65);
}

static void wait_one(const char *how, pid_t pid, int ending)
{
	int status = status_of(ending);
	struct rusage usage;
	pid_t got = pid;

	errno = 4711;
#define IS(name) (strcmp(how, name) == 0)
	if (IS("wait"))
		got = wait(&status);
	else if (IS("waitpid") || IS("vfork") || IS("middle"))
		got = waitpid(pid, &status, 0);
	else if (IS("waitpid_null"))
		got = waitpid(-1, NULL, 0);
	else if (IS("wait3"))
		got = wait3(&status, 0, &usage);
	else if (IS("wait4"))
		got = wait4(pid, &status, 0, NULL);
	else if (IS("waitid"))
		check_info(pid, ending),
			got = waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED) ? -1 : pid;
	else if (IS("waitid_null"))
		got = waitid(P_PID, (id_t)pid, NULL, WEXITED) ? -1 : pid;
	else if (IS("looked"))
		check_info(pid, ending), got = waitpid(pid, &status, 0);
	else if (IS("polled"))
		while ((got = waitpid(pid, &status, WNOHANG)) == 0)
			;
	check(pid, got, status, ending);
}

/* --- in a handler ------------------------------------------------------------------- */

static volatile sig_atomic_t expected_pid, expected_ending;

static void on_child(int number)
{
	int saved = errno, status;
	pid_t pid;

	(void)number;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		errno = 4711;
		check(expected_pid, pid, status, expected_ending);
	}
	errno = saved;
}

static void in_handler(void)
{
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigaction(SIGCHLD, &action, NULL);
	for (uint64_t i = 0; i < ENDINGS; i++) {
		sigprocmask(SIG_BLOCK, &child, NULL);
		expected_ending = endings[i];
		expected_pid = start(endings[i]);
		sigprocmask(SIG_UNBLOCK, &child, NULL);
		while (learned == i)
			free(malloc(16 + learned * 100));
	}
}

/* --- other ways ----------------------------------------------------------------------- */

static void in_shell(const char *how, int ending)
{
	char command[4200];
	int status;

	snprintf(command, sizeof(command), "exec '%s' '%s' child %d", arguments[0], arguments[1],
		 ending);
	if (strcmp(how, "popen") == 0) {
		FILE *stream = popen(command, "r");

		status = stream ? pclose(stream) : -1;
	} else {
		status = system(command);
	}
	errno = 4711;
	check(0, 0, status, ending);
}

static void *in_thread(void *how)
{
	for (size_t i = 0; i < ENDINGS; i++) {
		errno = 4711;
		if (strcmp(how, "systems") == 0)
			in_shell("system", endings[i]);
		else
			wait_one("waitpid", start(endings[i]), endings[i]);
	}
	return NULL;
}

static void in_threads(char *how)
{
	pthread_t all[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&all[i], NULL, in_thread, how) != 0)
			_exit(66);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
}

static void in_the_middle(int ending)
{
	pid_t pid = fork();

	if (pid == 0) {
		wait_one("waitpid", start(ending), ending);
		_exit(42);
	}
	wait_one("waitpid", pid, 42);
}

static void *wait_to_be_cancelled(void *pid)
{
	int status;

	waitpid(*(pid_t *)pid, &status, 0);
	_exit(67);
}

static void cancelled(void)
{
	int pipes[2];
	void *result;
	pthread_t thread;

	if (pipe(pipes) != 0)
		_exit(68);
	pid_t pid = fork();

	if (pid == 0) {
		char byte;

		close(pipes[1]);
		if (read(pipes[0], &byte, 1) != 0)
			_exit(69);
		end_by(7);
	}
	close(pipes[0]);
	pthread_create(&thread, NULL, wait_to_be_cancelled, &pid);
	usleep(50000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		_exit(70);
	close(pipes[1]);
	wait_one("waitpid", pid, 7);
}

static void each(char *how)
{
	for (size_t i = 0; i < ENDINGS; i++) {
		errno = 4711;
		if (IS("system") || IS("popen"))
			in_shell(how, endings[i]);
		else if (IS("middle"))
			in_the_middle(endings[i]);
		else
			wait_one(how, IS("vfork") ? start_program(endings[i]) : start(endings[i]),
				 endings[i]);
	}
}

int main(int argc, char **argv)
{
	char *how = argv[2];

	if (argc < 3)
		return 2;
	arguments = argv;
	say_open(argv[1]);
	if (IS("child"))
		end_by(argv[3][0] == '-' ? -(int)number_of(argv[3] + 1) : (int)number_of(argv[3]));
	free(malloc(10));
	if (IS("handler"))
		in_handler();
	else if (IS("threads") || IS("systems"))
		in_threads(how);
	else if (IS("cancelled"))
		cancelled();
	else if (IS("ignored") || IS("nobody")) {
		if (IS("ignored"))
			signal(SIGCHLD, SIG_IGN);
		for (size_t i = 0; i < ENDINGS; i++)
			start(endings[i]);
		while (IS("ignored") && wait(NULL) > 0)
			_exit(71);
		sleep(IS("nobody"));
	} else {
		each(how);
	}
	say_process();
	say_count("learned", learned);
	say_flush();
	return 0;
}
