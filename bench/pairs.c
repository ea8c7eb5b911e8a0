/*
 * pairs DEPTH COUNT: COUNT pairs of malloc(64) and free, DEPTH calls deep, between two
 * int3 instructions, for bench/steps to count what they execute.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

static void *volatile kept;

static __attribute__((noinline)) void pairs(long count);

/* The empty asm keeps the call from becoming a jump: each depth is a frame. */
static __attribute__((noinline)) void descend(long depth, long count)
{
	if (depth > 1)
		descend(depth - 1, count);
	else
		pairs(count);
	__asm__ volatile("" ::: "memory");
}

static void run(long count)
{
	for (long i = 0; i < count; i++) {
		kept = malloc(64);
		free(kept);
	}
}

static __attribute__((noinline)) void pairs(long count)
{
	/* Stepped, a pair takes so long that every one would look at the clock. */
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	run(count); /* what is slow once, at the first call of a thread, is over */
	run(count);
	__asm__ volatile("int3");
	run(count);
	__asm__ volatile("int3");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: pairs DEPTH COUNT\n");
		return 2;
	}
	descend(atol(argv[1]), atol(argv[2]));
	return 0;
}
