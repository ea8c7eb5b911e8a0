/* Bulk: what a large profile takes to write, in seconds of this process, and how large it
 * gets. Prints figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "store_profile.h"

#define SITES  100000u
#define SIZES  3u
#define SNAPS  512u
#define BLOCKS 1000000u
#define SERIES 200000u

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double since(double *before)
{
	double at = now();
	double seconds = at - *before;

	*before = at;
	return seconds;
}

static void write_sites(struct store_writer *writer)
{
	for (uint64_t i = 1; i <= SITES; i++) {
		struct store_site site = {
			.id = i,
			.process = 1,
			.stack = i,
			.api = 1,
			.title = i % 20000 + 1,
			.allocs = i,
			.alloc_bytes = 100 * i,
			.live_blocks = i / 2,
			.live_bytes = 50 * i,
			.peak_bytes = 50 * i,
		};

		assert_null(store_put(writer, &((struct store_stack){i, i - 1, i % 20000 + 1})));
		assert_null(store_put(writer, &site));
	}
}

static void write_sizes(struct store_writer *writer)
{
	for (uint64_t i = 1; i <= SITES; i++)
		for (uint64_t j = 0; j < SIZES; j++)
			assert_null(store_put(
				writer, &((struct store_site_size){i, 20 + j, i, i / 2, 40 * i})));
}

static void write_time(struct store_writer *writer)
{
	for (uint64_t i = 1; i <= SNAPS; i++)
		assert_null(store_put(writer, &((struct store_snap){.id = i,
								    .process = 1,
								    .time = i * 1000000,
								    .live_bytes = i * 1000})));
	for (uint64_t i = 0; i < SERIES; i++)
		assert_null(
			store_put(writer, &((struct store_series){i / 2 + 1, i % 2 + 1, i, i, i})));
}

static void write_blocks(struct store_writer *writer)
{
	for (uint64_t i = 0; i < BLOCKS; i++)
		assert_null(store_put(writer, &((struct store_block){
						      .process = 1,
						      .address = 0x555500000000 + i * 48,
						      .site = i % SITES + 1,
						      .size = 40,
						      .number = i + 1,
						      .born = i * 1000,
						      .thread = 1,
					      })));
}

static void test_bulk(void **state)
{
	const char *path = profile_path("bulk.mgp");
	struct store_writer *writer;
	struct stat status;
	double start = now(), before = start;

	(void)state;
	assert_null(store_writer_open(path, NULL, &writer));
	for (uint64_t i = 1; i <= 20000; i++)
		assert_null(store_put(writer, &((struct store_loc){i, 1, i * 4, 0})));
	printf("locs   %.3f s\n", since(&before));
	write_sites(writer);
	printf("sites  %.3f s\n", since(&before));
	write_sizes(writer);
	printf("sizes  %.3f s\n", since(&before));
	write_time(writer);
	printf("time   %.3f s\n", since(&before));
	write_blocks(writer);
	printf("blocks %.3f s\n", since(&before));
	assert_null(store_writer_finish(writer));
	printf("finish %.3f s\n", since(&before));
	assert_int_equal(stat(path, &status), 0);
	printf("in all %.3f s, %.1f MB\n", before - start, (double)status.st_size / 1e6);
	/* Sanitizers take their time. */
	if (!getenv("ASAN_OPTIONS"))
		assert_true(before - start < 3);
	profile_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bulk)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
