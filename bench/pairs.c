/*
 * pairs DEPTH COUNT [SECONDS]: COUNT pairs of malloc(64) and free, DEPTH calls deep.
 *
 * Without SECONDS the pairs stand between two int3 instructions, for bench/steps to
 * count what they execute. With SECONDS they run untraced, again and again for about
 * that long, and the best time a pair of all rounds is printed, in nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static void *volatile kept;

static __attribute__((noinline)) double pairs(long count, double seconds);

/* The empty asm keeps the call from becoming a jump: each depth is a frame. */
static __attribute__((noinline)) double descend(long depth, long count, double seconds)
{
	double result = depth > 1 ? descend(depth - 1, count, seconds) : pairs(count, seconds);

	__asm__ volatile("" ::: "memory");
	return result;
}

static void run(long count)
{
	for (long i = 0; i < count; i++) {
		kept = malloc(64);
		free(kept);
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double pairs(long count, double seconds)
{
	double best = 1e9;

	/* Stepped, a pair takes so long that every one would look at the clock. */
	if (seconds == 0)
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	run(count); /* what is slow once, at the first call of a thread, is over */
	run(count);
	if (seconds == 0) {
		__asm__ volatile("int3");
		run(count);
		__asm__ volatile("int3");
		return 0;
	}
	for (double end = now() + seconds; now() < end;) {
		double start = now();
		run(count);
		double each = (now() - start) / (double)count;
		if (each < best)
			best = each;
	}
	return best * 1e9;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: pairs DEPTH COUNT [SECONDS]\n");
		return 2;
	}
	double best = descend(atol(argv[1]), atol(argv[2]), argc > 3 ? atof(argv[3]) : 0);
	if (argc > 3)
		printf("%.1f\n", best);
	return 0;
}
