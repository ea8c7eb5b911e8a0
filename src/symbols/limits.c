#include "symbols/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BASE_BYTES (UINT64_C(512) << 20)
#define FILE_TIMES 16u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* wants terabytes of address space */
#else
#define IS_SANITIZED 0
#endif

static uint64_t allowed; /* 0 = not begun */

static uint64_t page_bytes(void)
{
	long bytes = sysconf(_SC_PAGESIZE);

	return bytes > 0 ? (uint64_t)bytes : 4096;
}

static uint64_t half_of_all(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);

	return pages > 0 ? (uint64_t)pages / 2 * page_bytes() : UINT64_MAX;
}

/* As RLIMIT_DATA counts it; most was there when the process was forked. */
static uint64_t data_now(void)
{
	CLEANUP_FILE FILE *file = fopen("/proc/self/statm", "re");
	uint64_t pages = 0;

	if (!file || fscanf(file, "%*u %*u %*u %*u %*u %" SCNu64, &pages) != 1)
		return 0;
	return pages * page_bytes();
}

static void apply(void)
{
	struct rlimit limit;
	uint64_t half = half_of_all();

	if (getrlimit(RLIMIT_DATA, &limit) != 0)
		return;
	limit.rlim_cur = allowed < half ? allowed : half;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_DATA, &limit);
}

void symbols_limits_begin(void)
{
	if (IS_SANITIZED)
		return;
	allowed = data_now() + BASE_BYTES;
	apply();
}

void symbols_limits_add_file(uint64_t bytes)
{
	if (allowed == 0)
		return;
	if (bytes < UINT64_MAX / FILE_TIMES - allowed)
		allowed += bytes * FILE_TIMES;
	apply();
}
