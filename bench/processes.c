/*
 * processes WAY COUNT [PROGRAM]: starts that many children in turn, waits for each, and
 * prints the microseconds one took.
 *
 * Ways: exit (a fork that ends at once), allocate (one that allocates and frees first); and
 * with a program to execute: fork, vfork, spawn.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void *volatile block;
static char *program;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void allocate(void)
{
	block = malloc(100);
	free(block);
}

static pid_t start_exit(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid;
}

static pid_t start_allocate(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		allocate();
		_exit(0);
	}
	return pid;
}

static pid_t start_fork(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(program, program, (char *)NULL);
		_exit(1);
	}
	return pid;
}

static pid_t start_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl(program, program, (char *)NULL);
		_exit(1);
	}
	return pid;
}

static pid_t start_spawn(void)
{
	char *arguments[] = {program, NULL};
	pid_t pid;

	return posix_spawn(&pid, program, NULL, NULL, arguments, environ) == 0 ? pid : -1;
}

static const struct {
	const char *name;
	pid_t (*start)(void);
} ways[] = {
	{"exit", start_exit},   {"allocate", start_allocate}, {"fork", start_fork},
	{"vfork", start_vfork}, {"spawn", start_spawn},
};

static int run(pid_t (*start)(void), int count)
{
	double began = now();

	for (int i = 0; i < count; i++) {
		int status;
		pid_t pid = start();

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
	}
	printf("%.2f\n", (now() - began) * 1e6 / count);
	return 0;
}

int main(int argc, char **argv)
{
	int count = argc >= 3 ? atoi(argv[2]) : 0;

	program = argc >= 4 ? argv[3] : NULL;
	allocate();
	for (size_t i = 0; count > 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) == 0)
			return run(ways[i].start, count);
	}
	fprintf(stderr, "usage: processes exit|allocate|fork|vfork|spawn COUNT [PROGRAM]\n");
	return 2;
}
