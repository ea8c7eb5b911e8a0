/*
 * deaths OUT HOW: makes 1,002 allocations, the last of 1 MiB, says its counts and dies as
 * HOW tells. `ready` comes before any waiting for a signal from outside.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tally.h"

static struct tally counts;
static void *blocks[1001];
static size_t sizes[1001];

SITE static void *small_block(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *last_block(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

static void allocate(uint64_t seed)
{
	for (int i = 0; i < 1001; i++) {
		sizes[i] = 1 + random_below(&seed, 400);
		blocks[i] = small_block(sizes[i]);
		tally_in(&counts, sizes[i]);
		if (i % 7 != 3)
			continue;
		int victim = i - (int)random_below(&seed, 4);

		if (blocks[victim] == NULL)
			continue;
		free(blocks[victim]);
		blocks[victim] = NULL;
		tally_out(&counts, sizes[victim]);
		counts.temporary += victim == i;
	}
	*(volatile char *)last_block(1 << 20) = 1;
	tally_in(&counts, 1 << 20);
	say_process();
	say_tally(&counts);
	say_count("ready", 1);
	say_flush();
}

static void *cancelled(void *done)
{
	allocate(5);
	atomic_store((_Atomic int *)done, 1);
	while (pause())
		;
	return NULL;
}

static void *last_thread(void *unused)
{
	(void)unused;
	usleep(20000);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *how = argv[2];
	pthread_t thread;

	say_open(argv[1]);
	if (strcmp(how, "cancel") == 0) {
		_Atomic int done = 0;

		if (pthread_create(&thread, NULL, cancelled, (void *)&done) != 0)
			return 3;
		while (!atomic_load(&done))
			usleep(1000);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		_exit(7);
	}
	allocate(argc > 3 ? number_of(argv[3]) : 1);
	if (strcmp(how, "exit") == 0)
		exit(7);
	if (strcmp(how, "_exit") == 0)
		_exit(7);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(7);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "segv") == 0)
		*(volatile int *)(uintptr_t)16 = 1;
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(how, "wait") == 0)
		for (;;)
			pause();
	if (strcmp(how, "exec_other") == 0)
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
	if (strcmp(how, "exec_self") == 0)
		execl("/proc/self/exe", argv[0], argv[1], "_exit", "2", (char *)NULL);
	if (strcmp(how, "exec_fails") == 0) {
		execl("/nonexistent", "nonexistent", (char *)NULL);
		_exit(7);
	}
	if (strcmp(how, "main_thread_first") == 0) {
		if (pthread_create(&thread, NULL, last_thread, NULL) != 0)
			return 3;
		pthread_exit(NULL);
	}
	return 7;
}
