#include "store_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT(literal) ((struct store_text){.bytes = (literal), .length = sizeof(literal) - 1})

static uint64_t intern(struct store_writer *writer, const char *text)
{
	uint64_t id;

	assert_null(store_intern(writer, text, strlen(text), &id));
	return id;
}

static void put_modules(struct store_writer *writer)
{
	assert_null(store_put(writer, &((struct store_module){
					      .id = 1,
					      .kind = STORE_MODULE_FILE,
					      .path = intern(writer, "/bin/sample"),
					      .build_id = TEXT("0123abcd"),
					      .arch = TEXT("x86_64"),
					      .symbols = STORE_SYMBOLS_FULL,
					      .debug_file = intern(writer, "/usr/lib/debug/x"),
				      })));
	assert_null(store_put(writer, &((struct store_module){
					      .id = 2,
					      .kind = STORE_MODULE_ANON,
					      .path = intern(writer, "[anonymous]"),
					      .symbols = STORE_SYMBOLS_NONE,
					      .reason = intern(writer, "no module there"),
				      })));
	assert_null(store_put(writer, &((struct store_mapping){
					      .process = 1,
					      .module = 1,
					      .start = 0x400000,
					      .stop = 0x500000,
					      .file_offset = 0x400000,
					      .loaded = 0,
					      .unloaded = STORE_UNKNOWN,
				      })));
	assert_null(
		store_put(writer, &((struct store_loc){.id = 1, .module = 1, .offset = 0x401000})));
	assert_null(store_put(writer, &((struct store_loc){
					      .id = 2,
					      .module = 2,
					      .offset = UINT64_C(0xffffffffff600400),
					      .flags = STORE_LOC_EXACT,
				      })));
	assert_null(store_put(writer, &((struct store_line){
					      .loc = 1,
					      .depth = 0,
					      .function = intern(writer, "make"),
					      .file = intern(writer, "sample.c"),
					      .line = 12,
					      .col = 3,
				      })));
	assert_null(store_put(writer, &((struct store_line){
					      .loc = 1,
					      .depth = 1,
					      .function = intern(writer, "main"),
					      .file = intern(writer, "sample.c"),
					      .line = 40,
					      .col = STORE_UNKNOWN,
				      })));
	assert_null(store_put(writer, &((struct store_stack){.id = 1, .parent = 0, .loc = 1})));
	assert_null(store_put(writer, &((struct store_stack){.id = 2, .parent = 1, .loc = 2})));
	assert_null(store_put(writer, &((struct store_stack){.id = 3, .parent = 2, .loc = 0})));
}

static void put_process(struct store_writer *writer)
{
	assert_null(store_put(writer, &((struct store_process){
					      .id = 1,
					      .how = STORE_HOW_ROOT,
					      .pid = 4711,
					      .ppid = 100,
					      .exe = intern(writer, "/bin/sample"),
					      .cwd = intern(writer, "/tmp"),
					      .argv = {"sample\0-x", 10},
					      .start = 1000,
					      .stop = 2000000,
					      .end_kind = STORE_END_EXIT,
					      .end_code = 3,
					      .sample_period = 1,
					      .allocs = 12,
					      .frees = 4,
					      .alloc_bytes = 1200,
					      .live_blocks = 8,
					      .live_bytes = 800,
					      .peak_bytes = 900,
					      .peak_blocks = 9,
					      .peak_time = STORE_UNKNOWN,
					      .rss_peak = STORE_UNKNOWN,
					      .threads = 2,
					      .tree_peak_bytes = 850,
					      .inherited_frees = 31,
					      .source = 1,
				      })));
	assert_null(store_put(
		writer, &((struct store_api){.process = 1, .api = 1, .calls = 12, .bytes = 1200})));
	assert_null(store_put(writer, &((struct store_thread){
					      .id = 1,
					      .process = 1,
					      .name = intern(writer, "sample"),
					      .tid = 4711,
					      .merged = 1,
					      .allocs = 12,
				      })));
	assert_null(store_put(writer, &((struct store_loss){
					      .process = 1,
					      .kind = TEXT("cut_stacks"),
					      .count = 1,
					      .detail = TEXT(""),
				      })));
}

static void put_sites(struct store_writer *writer)
{
	assert_null(store_put(writer, &((struct store_site){
					      .id = 1,
					      .process = 1,
					      .stack = 3,
					      .api = 1,
					      .title = 1,
					      .title_depth = 1,
					      .allocs = 12,
					      .frees = 4,
					      .alloc_bytes = 1200,
					      .live_blocks = 8,
					      .live_bytes = 800,
					      .peak_blocks = 9,
					      .peak_bytes = 900,
				      })));
	assert_null(store_put(writer, &((struct store_site_size){1, 34, 12, 8, 1200})));
	assert_null(store_put(writer, &((struct store_thread_size){1, 1, 34, 12, -4, 1200})));
	assert_null(store_put(writer, &((struct store_site_lifetime){1, 5, 4})));
	assert_null(store_put(writer, &((struct store_site_thread){1, 1, 12, 4, 1200})));
}

static void put_time(struct store_writer *writer)
{
	assert_null(store_put(writer, &((struct store_snap){
					      .id = 1,
					      .process = 1,
					      .time = 10000000,
					      .why = STORE_WHY_TICK,
					      .live_blocks = 5,
					      .live_bytes = 500,
					      .allocs = 6,
					      .frees = 1,
					      .mapped = 0,
					      .rss = 4096,
					      .anon = 4096,
					      .swap = STORE_UNKNOWN,
				      })));
	assert_null(store_put(writer, &((struct store_snap){
					      .id = 2,
					      .process = 1,
					      .time = 20000000,
					      .why = STORE_WHY_END,
					      .live_blocks = 8,
					      .live_bytes = 800,
				      })));
	assert_null(store_put(writer, &((struct store_snap){
					      .id = 3,
					      .process = STORE_ALL_PROCESSES,
					      .time = 15000000,
					      .why = STORE_WHY_PEAK,
					      .live_bytes = 850,
				      })));
	assert_null(store_put(writer, &((struct store_series){1, 1, 5, 500, 6})));
	assert_null(store_put(writer, &((struct store_series){1, 2, 8, 800, 12})));
	assert_null(store_put(writer, &((struct store_cohort){2, 1, 1, 5, 500})));
	assert_null(store_put(writer, &((struct store_block){
					      .process = 1,
					      .address = 0x10000000,
					      .site = 1,
					      .size = 100,
					      .number = 1,
					      .born = 1500,
					      .thread = 1,
				      })));
}

static void put_source(struct store_writer *writer)
{
	assert_null(store_put(writer, &((struct store_source){
					      .id = 1,
					      .file = intern(writer, "rank3.mgp"),
					      .host = intern(writer, "node"),
					      .rank = 3,
					      .start_unix_ns = 1,
					      .finished = 1,
					      .tree_peak_bytes = 900,
					      .tree_peak_time = STORE_UNKNOWN,
					      .tree_peak_error = 0,
				      })));
}

void profile_put(struct store_writer *writer)
{
	assert_null(store_put_meta_text(writer, "tool", "mallograph test"));
	assert_null(store_put_meta_number(writer, "start_unix_ns", UINT64_C(1700000000000000000)));
	put_modules(writer);
	put_process(writer);
	put_sites(writer);
	put_time(writer);
	put_source(writer);
}

void profile_write(const char *path)
{
	struct store_writer *writer;

	assert_null(store_writer_open(path, NULL, &writer));
	profile_put(writer);
	assert_null(store_writer_finish(writer));
}

static char directory[64];

const char *profile_directory(void)
{
	if (!directory[0]) {
		snprintf(directory, sizeof(directory), "/tmp/mallograph-test-XXXXXX");
		assert_non_null(mkdtemp(directory));
	}
	return directory;
}

const char *profile_path(const char *name)
{
	static char paths[4][128];
	static unsigned int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", profile_directory(), name);
	return path;
}

void profile_remove(void)
{
	char command[128];

	if (!directory[0])
		return;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	assert_int_equal(system(command), 0);
	directory[0] = '\0';
}

void profile_expect(struct error *error, enum error_code code, const char *words)
{
	assert_non_null(error);
	char *text = error_text(error);

	if (error->code != code || !strstr(text, words))
		fail_msg("code %d: %s", (int)error->code, text);
	free(text);
	error_free(error);
}
