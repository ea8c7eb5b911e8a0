/*
 * What a clock shows, in nanoseconds, and milliseconds to wait for a time of CLOCK_MONOTONIC.
 * Threads: any. Errors: none; the clocks asked for are always there (clock_gettime(2)).
 */
#ifndef MALLOGRAPH_BASE_CLOCK_H
#define MALLOGRAPH_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t clock_now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* Whether a process that began at `ticks` (field 22 of /proc/PID/stat) did so before a time of
 * CLOCK_MONOTONIC in this boot. */
static inline bool clock_began_before(uint64_t ticks, uint64_t ns)
{
	uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t asleep = clock_ns(CLOCK_BOOTTIME) - clock_now_ns();

	return ticks * tick < ns + asleep + tick;
}

/* Whether it is older than all that a collector recorded, which began at `ns`: of a process in a pid
 * namespace of its own the pid it knows is another's here, most often that of one as old as the
 * system. The root is forked a little before. */
static inline bool clock_began_long_before(uint64_t ticks, uint64_t ns)
{
	const uint64_t slack = UINT64_C(10000000000);

	return ns > slack && clock_began_before(ticks, ns - slack);
}

/* For poll(2): rounded up, so that it is then; 0 = it has been. */
static inline int clock_wait_ms(uint64_t due_ns)
{
	uint64_t now = clock_now_ns();

	return due_ns > now ? (int)((due_ns - now + 999999) / 1000000) : 0;
}

#endif
