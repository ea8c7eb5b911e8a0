#include "large_profile.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

#define DEPTH     30u
#define FUNCTIONS 20000u
#define SIZES     3u
#define SERIES    2000000u

static struct error *intern(struct store_writer *writer, const char *text, uint64_t *ret)
{
	return store_intern(writer, text, strlen(text), ret);
}

static struct error *put_places(struct store_writer *writer)
{
	struct store_module module = {
		.id = 1,
		.kind = STORE_MODULE_FILE,
		.symbols = STORE_SYMBOLS_FULL,
	};
	uint64_t file;

	TRY(intern(writer, "/usr/bin/large", &module.path));
	TRY(intern(writer, "/src/large/some/directory/file.c", &file));
	TRY(store_put(writer, &module));
	for (uint64_t i = 1; i <= FUNCTIONS; i++)
		TRY(store_put(writer, &((struct store_loc){i, 1, i * 16, 0})));
	for (uint64_t i = 1; i <= FUNCTIONS; i++) {
		char name[64];

		snprintf(name, sizeof(name), "large::space::function_%u(int, char const*)",
			 (unsigned int)i);
		struct store_line line = {
			.loc = i,
			.file = file,
			.line = i,
			.col = 7,
		};

		TRY(intern(writer, name, &line.function));
		TRY(store_put(writer, &line));
	}
	return NULL;
}

/* A trie whose branches part at every depth: each site's stack is DEPTH deep. */
static struct error *put_sites(struct store_writer *writer)
{
	uint64_t stack[DEPTH] = {0}, next = 1;
	uint32_t random = 1;

	for (uint64_t i = 1; i <= LARGE_SITES; i++) {
		unsigned int part = i == 1 ? 0 : DEPTH - 1 - (unsigned int)__builtin_ctzll(i) % 10;

		for (unsigned int d = part; d < DEPTH; d++) {
			random = random * 1664525 + 1013904223;
			struct store_stack row = {
				next,
				d ? stack[d - 1] : 0,
				(random >> 8) % FUNCTIONS + 1,
			};

			TRY(store_put(writer, &row));
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

		TRY(store_put(writer, &site));
	}
	for (uint64_t i = 1; i <= LARGE_SITES; i++)
		for (uint64_t j = 0; j < SIZES; j++)
			TRY(store_put(writer,
				      &((struct store_site_size){i, 20 + j, i, i, 40 * i})));
	return NULL;
}

static struct error *put_time(struct store_writer *writer)
{
	for (uint64_t i = 1; i <= LARGE_SNAPSHOTS; i++)
		TRY(store_put(writer, &((struct store_snap){.id = i,
							    .process = 1,
							    .time = i * 1000000,
							    .live_bytes = i * 1000})));
	for (uint64_t i = 0; i < SERIES; i++)
		TRY(store_put(writer, &((struct store_series){i / 20 + 1, i % 20 + 1, i, i, i})));
	for (uint64_t i = 0; i < LARGE_BLOCKS; i++)
		TRY(store_put(writer, &((struct store_block){
					      .process = 1,
					      .address = 0x555500000000 + i * 48,
					      .site = i % LARGE_SITES + 1,
					      .size = 40,
					      .number = (i * 7919) % LARGE_BLOCKS + 1,
					      .born = i * 1000,
					      .thread = 1,
				      })));
	return NULL;
}

static struct error *put_process(struct store_writer *writer)
{
	uint64_t sum = (uint64_t)LARGE_SITES * (LARGE_SITES + 1) / 2;
	struct store_process process = {
		.id = 1,
		.how = STORE_HOW_ROOT,
		.pid = 1,
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
		.tree_peak_bytes = STORE_UNKNOWN,
		.inherited_frees = STORE_UNKNOWN,
	};

	TRY(intern(writer, "/usr/bin/large", &process.exe));
	return store_put(writer, &process);
}

static struct error *put_all(struct store_writer *writer)
{
	TRY(put_places(writer));
	TRY(put_sites(writer));
	TRY(put_time(writer));
	return put_process(writer);
}

struct error *large_profile_write(const char *path)
{
	struct store_writer *writer;

	TRY(store_writer_open(path, path, &writer));
	struct error *error = put_all(writer);

	if (error) {
		store_writer_abort(writer);
		return error;
	}
	return store_writer_finish(writer);
}
