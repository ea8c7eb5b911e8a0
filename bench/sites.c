/*
 * sites STACKS ALLOCATIONS LIVE SECONDS: that many allocations, through so many stacks in
 * turn, spread over so many seconds; the last LIVE blocks are still there at the end.
 *
 * The last thing it does is to print the time (CLOCK_MONOTONIC, seconds).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "branches.h"

#define DEPTH 24   /* outside the branches */
#define STEPS 1000 /* in which the allocations are spread over the time */

LEVEL(branch_malloc5, branch_malloc4)
LEVEL(branch_malloc6, branch_malloc5) /* 262,144 stacks */

struct work {
	void **live;
	uint64_t stacks, allocations, kept;
	double seconds;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void sleep_until(double at)
{
	double left = at - now();
	struct timespec time = {.tv_sec = (time_t)left};

	if (left <= 0)
		return;
	time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
	nanosleep(&time, NULL);
}

static __attribute__((noinline)) void allocate(const struct work *work)
{
	double start = now();

	for (uint64_t i = 0; i < work->allocations; i++) {
		uint64_t stack = i % work->stacks;
		void **block = &work->live[i % work->kept];

		if (work->seconds > 0 && i % (work->allocations / STEPS) == 0)
			sleep_until(start + work->seconds * (double)i / (double)work->allocations);
		free(*block);
		*block = branch_malloc6((uint32_t)stack, 16 + stack % 100);
	}
}

static __attribute__((noinline)) void descend(const struct work *work, int depth)
{
	if (depth > 1)
		descend(work, depth - 1);
	else
		allocate(work);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	struct work work;

	if (argc != 5) {
		fprintf(stderr, "usage: sites STACKS ALLOCATIONS LIVE SECONDS\n");
		return 2;
	}
	work.stacks = strtoull(argv[1], NULL, 10);
	work.allocations = strtoull(argv[2], NULL, 10);
	work.kept = strtoull(argv[3], NULL, 10);
	work.seconds = atof(argv[4]);
	work.live = calloc(work.kept, sizeof(*work.live));
	if (!work.live || work.allocations < STEPS)
		return 1;
	descend(&work, DEPTH);
	printf("%.6f\n", now());
	return 0;
}
