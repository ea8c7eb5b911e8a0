/*
 * trees OUT HOW [COUNT]: processes that come and go in unusual ways, each of which allocates and
 * says `process PID`, `role` and its tally:
 *   self        executes itself COUNT times
 *   many        COUNT children by fork, one after another, which allocate; nothing of them is held
 *   daemon      a child becomes a daemon by daemon(3); the root waits for its word
 *   twice       the same by fork, setsid and fork again
 *   outlives    the root ends once its child has allocated; that waits until OUT.go exists, and
 *               then ends
 *   orphan      a subreaper learns the end (7) of a grandchild whose parent is gone
 *   shared      children by clone with CLONE_VM | CLONE_VFORK, which allocate in what is their
 *               parent's memory, and end or execute this program
 *   bare        children by a system call that no hook sees
 *   syscall     executes this program by way of syscall(2), without our variables
 *   reused      COUNT children of one pid, by turns forked and executed; needs a pid namespace
 *   spawned E   allocates and ends by E: what the others execute
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tally.h"

extern char **environ;

static struct tally t;
static char **arguments;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(50);
	tally_in(&t, size);
	return p;
}

SITE static void drop(void *p, size_t size)
{
	free(p);
	tally_out(&t, size);
}

/* Some blocks freed, one kept. */
static void work(uint64_t seed)
{
	void *held[16];
	size_t sizes[16];

	for (size_t i = 0; i < 16; i++) {
		sizes[i] = 8 + random_below(&seed, 700);
		held[i] = make(sizes[i]);
	}
	for (size_t i = 0; i < 15; i++)
		drop(held[i], sizes[i]);
}

static void say(const char *role)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_tally(&t);
	say_flush();
}

static void new_process(void) { t = (struct tally){0}; }

static void wait_for(pid_t pid, int code)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != code << 8)
		_exit(51);
}

static void wait_for_any(int code)
{
	int status;

	if (wait(&status) < 0 || status != code << 8)
		_exit(58);
}

static _Noreturn void execute(const char *how, uint64_t number)
{
	char text[24];
	char *const words[] = {arguments[0], arguments[1], (char *)how, text, NULL};

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	execv("/proc/self/exe", words);
	_exit(52);
}

/* --- who outlives whom -------------------------------------------------------------- */

static int tell[2];

static _Noreturn void last_word(const char *role, int code)
{
	work((uint64_t)getpid());
	say(role);
	if (write(tell[1], "x", 1) != 1)
		_exit(53);
	_exit(code);
}

static void hear(void)
{
	char byte;

	close(tell[1]);
	if (read(tell[0], &byte, 1) != 1)
		_exit(54);
	/* Its end of the pipe closes with it. */
	if (read(tell[0], &byte, 1) != 0)
		_exit(55);
}

static void become_daemon(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		new_process();
		work(1);
		if (daemon(1, 1) != 0)
			_exit(56);
		new_process();
		last_word("daemon", 0);
	}
	wait_for(pid, 0);
	hear();
}

static void fork_twice(int code)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0) {
			new_process();
			last_word("grandchild", code);
		}
		_exit(pid < 0 ? 57 : 0);
	}
	wait_for(pid, 0);
	hear();
}

static void outlive(void)
{
	char marker[4096];
	pid_t pid = fork();

	if (pid != 0) {
		if (read(tell[0], marker, 1) != 1)
			_exit(59);
		return;
	}
	new_process();
	work(3);
	say("ready");
	if (write(tell[1], "x", 1) != 1)
		_exit(60);
	snprintf(marker, sizeof(marker), "%s.go", arguments[1]);
	while (access(marker, F_OK) != 0)
		usleep(5000);
	work(4);
	say("outlived");
	_exit(0);
}

/* --- by the kernel's own call -------------------------------------------------------- */

static char stack[1 << 16] __attribute__((aligned(64)));

static int in_shared_memory(void *executes)
{
	work(5);
	if (executes)
		execute("spawned", 0);
	_exit(0);
}

static void share(void)
{
	for (int i = 0; i < 6; i++) {
		void *executes = i % 2 ? arguments : NULL;

		wait_for(clone(in_shared_memory, stack + sizeof(stack),
			       CLONE_VM | CLONE_VFORK | SIGCHLD, executes),
			 0);
		work(6);
	}
}

static pid_t bare_fork(void)
{
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"((long)SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(r10),
			   "r"(r8)
			 : "rcx", "r11", "memory");
	return (pid_t)ret;
}

static void fork_barely(void)
{
	for (uint64_t i = 0; i < 20; i++) {
		work(i);
		pid_t pid = bare_fork();

		if (pid == 0) {
			new_process();
			work(i + 100);
			say("child");
			_exit(0);
		}
		wait_for(pid, 0);
	}
}

/* --- many ------------------------------------------------------------------------------ */

static void fork_many(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		work(i);
		pid_t pid = fork();

		if (pid == 0) {
			new_process();
			work(i + 100);
			say("child");
			_exit((int)(i % 200));
		}
		wait_for(pid, (int)(i % 200));
	}
}

static void use_pid(const char *number)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, number, strlen(number)) < 0)
		_exit(77);
	close(fd);
}

static void reuse(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		work(i);
		use_pid("299");
		pid_t pid = fork();

		if (pid == 0) {
			new_process();
			if (i % 3 == 2)
				execute("spawned", i % 100);
			work(i);
			say("child");
			if (i % 3 == 1)
				execute("spawned", i % 100);
			_exit((int)(i % 100));
		}
		if (pid != 300)
			_exit(77);
		wait_for(pid, (int)(i % 100));
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *how = argv[2];
	uint64_t count = argc > 3 ? number_of(argv[3]) : 1;

	arguments = argv;
	say_open(argv[1]);
	if (pipe(tell) != 0)
		return 3;
	work((uint64_t)getpid() + count);
#define IS(name) (strcmp(how, name) == 0)
	if (IS("self") && count > 0) {
		say("self");
		execute(how, count - 1);
	} else if (IS("spawned")) {
		say("spawned");
		return (int)count;
	} else if (IS("many")) {
		fork_many(count);
	} else if (IS("daemon")) {
		become_daemon();
	} else if (IS("twice")) {
		fork_twice(0);
	} else if (IS("orphan")) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		fork_twice(7);
		wait_for_any(7);
	} else if (IS("outlives")) {
		outlive();
	} else if (IS("shared")) {
		share();
	} else if (IS("bare")) {
		fork_barely();
	} else if (IS("syscall")) {
		char *const words[] = {argv[0], argv[1], "spawned", "0", NULL};

		say("root");
		syscall(SYS_execve, "/proc/self/exe", words, (char *[]){"A=b", NULL});
		return 4;
	} else if (IS("reused")) {
		reuse(count);
	}
	say("root");
	return 0;
}
