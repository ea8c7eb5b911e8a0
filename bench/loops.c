/*
 * loops WORK DEPTH THREADS SECONDS: an allocation and a free, again and again, DEPTH calls
 * deep, for that many seconds in each thread.
 *
 *   pair       the same malloc(64) and free
 *   alternate  two chains of nine innermost frames take turns
 *   callers    the nine innermost frames are the same, their two callers take turns
 *   replace    one of 200,000 live blocks of 16 to 128 bytes is freed, another allocated
 *              through one of 4,096 stacks, both at random (DEPTH is not looked at); each
 *              stack has its size
 *   replace-sizes
 *              the same, any size through any stack
 *
 * Prints nanoseconds a pair: the median round of the first thread by the wall clock, the
 * mean of that, the process's CPU time. The median does not see what else the machine
 * was doing in between.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "branches.h"

#define PAIRS   1000 /* in a round */
#define CHAIN   9
#define LIVE    200000u
#define ROUNDS  (1 << 17)
#define THREADS 64

struct loop {
	void (*round)(struct loop *loop);
	void **live;
	double seconds;
	double wall;    /* that the rounds took */
	double *rounds; /* ns a pair; NULL = not kept */
	long count;
	long depth;
	uint64_t random;
	int sizes;
};

static double seconds_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint32_t random_next(struct loop *loop)
{
	loop->random = loop->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(loop->random >> 33);
}

static void round_pair(struct loop *loop)
{
	void *volatile kept;

	(void)loop;
	for (int i = 0; i < PAIRS; i++) {
		kept = malloc(64);
		free(kept);
	}
}

/* The asm keeps the call from becoming a jump, and two functions from becoming one. */
#define CHAIN_OF(name)                                       \
	static __attribute__((noinline)) void name(int more) \
	{                                                    \
		if (more > 1) {                              \
			name(more - 1);                      \
		} else {                                     \
			void *volatile kept = malloc(64);    \
                                                             \
			free(kept);                          \
		}                                            \
		__asm__ volatile("# " #name ::: "memory");   \
	}
CHAIN_OF(chain_even)
CHAIN_OF(chain_odd)

static void round_alternate(struct loop *loop)
{
	(void)loop;
	for (int i = 0; i < PAIRS; i += 2) {
		chain_even(CHAIN);
		chain_odd(CHAIN);
	}
}

static void round_callers(struct loop *loop)
{
	(void)loop;
	for (int i = 0; i < PAIRS; i += 2) {
		chain_even(CHAIN);
		chain_even(CHAIN);
	}
}

/* A block through a random stack, which has its size, or (sizes) of a random size. */
static void *random_block(struct loop *loop)
{
	uint32_t stack = random_next(loop) % 4096, size = stack;

	if (loop->sizes)
		size = random_next(loop);
	return branch_malloc4(stack, 16 + size % 113);
}

static void round_replace(struct loop *loop)
{
	for (int i = 0; i < PAIRS; i++) {
		void **block = &loop->live[random_next(loop) % LIVE];

		free(*block);
		*block = random_block(loop);
	}
}

static int fill(struct loop *loop)
{
	loop->live = calloc(LIVE, sizeof(*loop->live));
	if (!loop->live)
		return 0;
	for (uint32_t i = 0; i < LIVE; i++)
		loop->live[i] = random_block(loop);
	return 1;
}

static __attribute__((noinline)) void rounds(struct loop *loop)
{
	double start, end, at;

	loop->round(loop); /* what is slow once, at the first call of a thread, is over */
	loop->round(loop);
	start = at = seconds_of(CLOCK_MONOTONIC);
	for (end = at + loop->seconds; at < end; loop->count++) {
		double before = at;

		loop->round(loop);
		at = seconds_of(CLOCK_MONOTONIC);
		if (loop->rounds)
			loop->rounds[loop->count % ROUNDS] = (at - before) * 1e9 / PAIRS;
	}
	loop->wall = at - start;
}

/* The empty asm keeps the call from becoming a jump: each is a frame. */
static __attribute__((noinline)) void descend(struct loop *loop, long depth)
{
	if (depth > 1)
		descend(loop, depth - 1);
	else
		rounds(loop);
	__asm__ volatile("" ::: "memory");
}

static void *thread(void *argument)
{
	struct loop *loop = argument;

	descend(loop, loop->depth);
	return NULL;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void print(const struct loop *loops, int threads, double cpu)
{
	long kept = loops[0].count < ROUNDS ? loops[0].count : ROUNDS;
	double pairs = 0;

	for (int i = 0; i < threads; i++)
		pairs += (double)loops[i].count * PAIRS;
	qsort(loops[0].rounds, (size_t)kept, sizeof(double), compare);
	printf("%.2f %.2f %.2f\n", loops[0].rounds[kept / 2],
	       loops[0].wall * 1e9 / (double)(loops[0].count * PAIRS), cpu * 1e9 / pairs);
}

int main(int argc, char **argv)
{
	static double kept[ROUNDS];
	static struct loop loops[THREADS];
	pthread_t ids[THREADS];
	int threads = argc == 5 ? atoi(argv[3]) : 0;

	if (threads < 1 || threads > THREADS) {
		fprintf(stderr, "usage: loops WORK DEPTH THREADS SECONDS\n");
		return 2;
	}
	for (int i = 0; i < threads; i++) {
		struct loop *loop = &loops[i];

		loop->depth = atol(argv[2]);
		loop->seconds = atof(argv[4]);
		loop->random = 1 + (uint64_t)i;
		loop->round = round_pair;
		if (strcmp(argv[1], "alternate") == 0 || strcmp(argv[1], "callers") == 0) {
			loop->round = argv[1][0] == 'a' ? round_alternate : round_callers;
			loop->depth -= CHAIN;
		} else if (strncmp(argv[1], "replace", 7) == 0) {
			loop->round = round_replace;
			loop->sizes = argv[1][7] != '\0';
			if (!fill(loop))
				return 1;
		}
	}
	loops[0].rounds = kept;

	double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

	/* One thread is the program's first: malloc has a shortcut while it is alone. */
	if (threads == 1)
		thread(&loops[0]);
	else
		for (int i = 0; i < threads; i++)
			if (pthread_create(&ids[i], NULL, thread, &loops[i]) != 0)
				return 1;
	for (int i = 0; threads > 1 && i < threads; i++)
		pthread_join(ids[i], NULL);
	print(loops, threads, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}
