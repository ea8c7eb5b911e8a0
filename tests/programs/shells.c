/*
 * shells PROGRAM: starts it by system and popen, alone and while other threads read and change
 * the environment or are cancelled, and checks that its own is then what it made of it. Exit 0 = it
 * was.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char command[4096];
static _Atomic int stop;

static int by_popen(void)
{
	char line[4096];
	FILE *pipe = popen(command, "r");

	if (!pipe)
		return -1;
	while (fgets(line, sizeof(line), pipe))
		fputs(line, stdout);
	return pclose(pipe);
}

static void *run_some(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++) {
		if (system(":") != 0)
			return &stop;
	}
	return NULL;
}

/* The environment is whole whenever somebody looks. */
static void *look(void *unused)
{
	(void)unused;
	while (!stop) {
		if (!getenv("FIRST") || !getenv("LAST") || getenv("NOT_THERE"))
			return &stop;
	}
	return NULL;
}

static void join(pthread_t thread, int code)
{
	void *failed;

	pthread_join(thread, &failed);
	if (failed)
		exit(code);
}

/* Adds, changes and removes while a shell runs. */
static void *change(void *unused)
{
	char name[32];

	(void)unused;
	usleep(100000);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "NEW_%d", i);
		setenv(name, "1", 1);
	}
	setenv("CHANGED", "new", 1);
	unsetenv("REMOVED");
	return NULL;
}

static void *change_in_place(void *unused)
{
	(void)unused;
	usleep(100000);
	setenv("CHANGED", "again", 1);
	unsetenv("NEW_3");
	return NULL;
}

/* Ends by being cancelled. */
static void *wait_for_a_shell(void *instead)
{
	system("exec sleep 60");
	return instead;
}

static int is_clean(void)
{
	for (char **e = environ; *e; e++) {
		if (strncmp(*e, "MALLOGRAPH_", 11) == 0 || strstr(*e, "libmallograph-agent"))
			return 0;
	}
	return 1;
}

static long resident(void)
{
	char line[256];
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || !fgets(line, sizeof(line), file) || sscanf(line, "%ld", &pages) != 1)
		exit(11);
	fclose(file);
	return pages;
}

/* A new environment for each shell takes no more memory for each. */
static int change_often(void)
{
	char value[32];
	long before = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(value, sizeof(value), "%d", i);
		setenv("OFTEN", value, 1);
		if (system(NULL) == 0 || system(i % 20 ? "" : ":") != 0)
			return 0;
		if (i == 40)
			before = resident();
	}
	unsetenv("OFTEN");
	return resident() < before + 100;
}

/* Nothing of a shell stays behind whose thread was cancelled, whether others wait or not. */
static int cancel_some(void)
{
	char **before = environ;
	pthread_t threads[4];
	void *result;

	for (int others = 0; others < 2; others++) {
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, wait_for_a_shell, NULL);
		if (others)
			pthread_create(&threads[3], NULL, run_some, NULL);
		usleep(50000);
		for (int i = 0; i < 3; i++) {
			pthread_cancel(threads[i]);
			pthread_join(threads[i], &result);
			if (result != PTHREAD_CANCELED)
				return 0;
		}
		if (others && (pthread_join(threads[3], &result) != 0 || result))
			return 0;
		if (environ != before || !is_clean() || system(":") != 0 || environ != before)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	char **before = environ;
	pthread_t threads[3];

	if (argc < 2)
		return 2;
	snprintf(command, sizeof(command), "exec '%s' from a shell", argv[1]);
	fflush(stdout);
	if (system(command) != 0 || by_popen() != 0 || environ != before)
		return 3;
	if (system("exit 7") >> 8 != 7 || system(NULL) == 0)
		return 4;
	if (!change_often())
		return 12;
	if (!cancel_some())
		return 13;
	setenv("FIRST", "1", 1);
	setenv("REMOVED", "1", 1);
	setenv("CHANGED", "old", 1);
	setenv("LAST", "1", 1);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i ? run_some : look, NULL);
	join(threads[1], 5);
	join(threads[2], 5);
	stop = 1;
	join(threads[0], 6);
	pthread_create(&threads[0], NULL, change, NULL);
	if (system("sleep 0.3") != 0)
		return 7;
	join(threads[0], 7);
	if (!is_clean() || strcmp(getenv("CHANGED"), "new") != 0 || !getenv("NEW_0") ||
	    !getenv("NEW_7") || getenv("REMOVED"))
		return 8;
	pthread_create(&threads[0], NULL, change_in_place, NULL);
	if (system("sleep 0.3") != 0)
		return 9;
	join(threads[0], 9);
	if (!is_clean() || strcmp(getenv("CHANGED"), "again") != 0 || !getenv("NEW_7") ||
	    getenv("NEW_3"))
		return 10;
	return 0;
}
