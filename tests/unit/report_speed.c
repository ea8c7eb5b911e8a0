/* A large profile: what each view of it takes, in seconds of this process, and how much
 * memory. Prints figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/layout.h"
#include "report/report.h"
#include "store_profile.h"

#define SITES     100000u
#define DEPTH     30u
#define FUNCTIONS 20000u
#define SIZES     3u
#define SNAPS     512u
#define BLOCKS    1000000u
#define SERIES    2000000u

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long peak_rss_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss / 1024;
}

static uint64_t intern(struct store_writer *writer, const char *text)
{
	uint64_t id;

	assert_null(store_intern(writer, text, strlen(text), &id));
	return id;
}

static void put_places(struct store_writer *writer)
{
	struct store_module module = {
		.id = 1,
		.kind = STORE_MODULE_FILE,
		.path = intern(writer, "/usr/bin/large"),
		.symbols = STORE_SYMBOLS_FULL,
	};
	uint64_t file = intern(writer, "/src/large/some/directory/file.c");

	assert_null(store_put(writer, &module));
	for (uint64_t i = 1; i <= FUNCTIONS; i++)
		assert_null(store_put(writer, &((struct store_loc){i, 1, i * 16, 0})));
	for (uint64_t i = 1; i <= FUNCTIONS; i++) {
		char name[64];

		snprintf(name, sizeof(name), "large::space::function_%u(int, char const*)",
			 (unsigned int)i);
		struct store_line line = {
			.loc = i,
			.function = intern(writer, name),
			.file = file,
			.line = i,
			.col = 7,
		};

		assert_null(store_put(writer, &line));
	}
}

/* A trie whose branches part at every depth: each site's stack is DEPTH deep. */
static void put_sites(struct store_writer *writer)
{
	uint64_t stack[DEPTH] = {0}, next = 1;
	uint32_t random = 1;

	for (uint64_t i = 1; i <= SITES; i++) {
		unsigned int part = i == 1 ? 0 : DEPTH - 1 - (unsigned int)__builtin_ctzll(i) % 10;

		for (unsigned int d = part; d < DEPTH; d++) {
			random = random * 1664525 + 1013904223;
			struct store_stack row = {
				next,
				d ? stack[d - 1] : 0,
				(random >> 8) % FUNCTIONS + 1,
			};

			assert_null(store_put(writer, &row));
			stack[d] = next++;
		}
		struct store_site site = {
			.id = i,
			.process = 1,
			.stack = stack[DEPTH - 1],
			.api = 1,
			.title = (random >> 8) % FUNCTIONS + 1,
			.allocs = i,
			.alloc_bytes = 100 * i,
			.live_blocks = i / 2,
			.live_bytes = 50 * i,
			.peak_blocks = i,
			.peak_bytes = 50 * i,
		};

		assert_null(store_put(writer, &site));
	}
	for (uint64_t i = 1; i <= SITES; i++)
		for (uint64_t j = 0; j < SIZES; j++)
			assert_null(store_put(
				writer, &((struct store_site_size){i, 20 + j, i, i, 40 * i})));
}

static void put_time(struct store_writer *writer)
{
	for (uint64_t i = 1; i <= SNAPS; i++)
		assert_null(store_put(writer, &((struct store_snap){.id = i,
								    .process = 1,
								    .time = i * 1000000,
								    .live_bytes = i * 1000})));
	for (uint64_t i = 0; i < SERIES; i++)
		assert_null(store_put(writer,
				      &((struct store_series){i / 20 + 1, i % 20 + 1, i, i, i})));
	for (uint64_t i = 0; i < BLOCKS; i++)
		assert_null(store_put(writer, &((struct store_block){
						      .process = 1,
						      .address = 0x555500000000 + i * 48,
						      .site = i % SITES + 1,
						      .size = 40,
						      .number = (i * 7919) % BLOCKS + 1,
						      .born = i * 1000,
						      .thread = 1,
					      })));
}

static void put_process(struct store_writer *writer)
{
	uint64_t sum = (uint64_t)SITES * (SITES + 1) / 2;
	struct store_process process = {
		.id = 1,
		.how = STORE_HOW_ROOT,
		.pid = 1,
		.exe = intern(writer, "/usr/bin/large"),
		.argv = {"large", 6},
		.stop = 512000000,
		.end_kind = STORE_END_EXIT,
		.allocs = sum,
		.alloc_bytes = 100 * sum,
		.live_blocks = sum / 2,
		.live_bytes = 50 * sum,
		.peak_blocks = sum,
		.peak_bytes = 50 * sum,
		.peak_time = 512000000,
		.rss_peak = STORE_UNKNOWN,
		.threads = 1,
	};

	assert_null(store_put(writer, &process));
}

static void write_profile(const char *path)
{
	struct store_writer *writer;

	assert_null(store_writer_open(path, path, &writer));
	put_places(writer);
	put_sites(writer);
	put_time(writer);
	put_process(writer);
	assert_null(store_writer_finish(writer));
}

/* --- each view, from the file on ------------------------------------------------------ */

struct timing {
	const char *name;
	double limit; /* seconds; 0 = it only prints */
	struct error *(*print)(struct analyze_model *model, FILE *out);
};

static struct error *summary(struct analyze_model *model, FILE *out)
{
	return report_summary_print(model, &((struct report_summary){0}), out);
}

static struct error *text(struct analyze_model *model, FILE *out)
{
	return report_text_print(model, &((struct report_options){.sites = 20}), out);
}

static struct error *json(struct analyze_model *model, FILE *out)
{
	return report_json_print(model, &((struct report_options){.sites = 1000}), out);
}

static struct error *tree(struct analyze_model *model, FILE *out)
{
	return report_tree_print(model, &((struct report_options){0}), ANALYZE_TOP_DOWN, out);
}

static struct error *tree_up(struct analyze_model *model, FILE *out)
{
	return report_tree_print(model, &((struct report_options){0}), ANALYZE_BOTTOM_UP, out);
}

static struct error *hist(struct analyze_model *model, FILE *out)
{
	return report_hist_print(model, &((struct report_hist){.by = ANALYZE_BY_SITE, .limit = 20}),
				 out);
}

static struct error *info(struct analyze_model *model, FILE *out)
{
	return report_info_print(model, "x", &((struct report_style){0}), out);
}

static void measure(const char *path, const struct timing *timing)
{
	FILE *out = fopen("/dev/null", "w");
	struct analyze_model *model = NULL;
	double start = now();

	assert_non_null(out);
	assert_null(analyze_model_open(path, &model));
	double loaded = now();

	assert_null(timing->print(model, out));
	double seconds = now() - start;

	printf("%-9s %.2f s, of which loading %.2f s; %ld MiB at most\n", timing->name, seconds,
	       loaded - start, peak_rss_mib());
	/* Sanitizers take their time. */
	if (timing->limit > 0 && !getenv("ASAN_OPTIONS"))
		assert_true(seconds < timing->limit);
	analyze_model_free(model);
	fclose(out);
}

static void test_views(void **state)
{
	static const struct timing timings[] = {
		{"summary", 1, summary}, {"text", 1, text},
		{"json", 1, json},       {"tree", 1, tree},
		{"tree up", 1, tree_up}, {"hist", 1, hist},
		{"info", 1, info},       {"blocks", 0, report_blocks_print},
	};
	const char *path = profile_path("large.mgp");
	struct stat status;

	(void)state;
	/* In another process, so that what writing takes is not counted. */
	pid_t writer = fork();
	int how;

	if (writer == 0) {
		write_profile(path);
		_exit(0);
	}
	assert_int_equal(waitpid(writer, &how, 0), writer);
	assert_int_equal(how, 0);
	assert_int_equal(stat(path, &status), 0);
	printf("%u sites, %u snapshots, %u blocks: %.0f MB\n", SITES, SNAPS, BLOCKS,
	       (double)status.st_size / 1e6);
	for (size_t i = 0; i < sizeof(timings) / sizeof(timings[0]); i++)
		measure(path, &timings[i]);
	assert_true(getenv("ASAN_OPTIONS") || peak_rss_mib() < 500);
	profile_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_views)};

	return cmocka_run_group_tests_name("report-speed", tests, NULL, NULL);
}
