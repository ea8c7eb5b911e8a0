/*
 * Any bytes taken for a session and finished into a profile: nothing may crash or hang, and
 * the profile's reader has nothing to say against what was written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/finish.h"
#include "ledger/reader.h"
#include "store/store.h"

#include "image.h"

static void check(struct error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error->message);
	abort();
}

#define READ_ALL(reader, type)                                                                \
	do {                                                                                  \
		struct store_cursor *cursor_;                                                 \
		type row_;                                                                    \
		check(store_cursor_open(reader, STORE_TABLE_OF(&row_), STORE_ALL, &cursor_)); \
		while (store_next(cursor_, &row_))                                            \
			;                                                                     \
		check(store_cursor_close(cursor_));                                           \
	} while (0)

static void read_back(const char *path)
{
	struct store_reader *reader = NULL;

	check(store_reader_open(path, &reader));
	READ_ALL(reader, struct store_string);
	READ_ALL(reader, struct store_process);
	READ_ALL(reader, struct store_api);
	READ_ALL(reader, struct store_thread);
	READ_ALL(reader, struct store_loss);
	READ_ALL(reader, struct store_module);
	READ_ALL(reader, struct store_mapping);
	READ_ALL(reader, struct store_loc);
	READ_ALL(reader, struct store_line);
	READ_ALL(reader, struct store_stack);
	READ_ALL(reader, struct store_site);
	READ_ALL(reader, struct store_site_size);
	READ_ALL(reader, struct store_thread_size);
	READ_ALL(reader, struct store_site_thread);
	READ_ALL(reader, struct store_snap);
	READ_ALL(reader, struct store_series);
	READ_ALL(reader, struct store_cohort);
	READ_ALL(reader, struct store_block);
	READ_ALL(reader, struct store_source);
	store_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct collect_finish_options options = {.no_symbols = true};
	char path[64];
	int fd = image_make(data, size);
	struct ledger_reader *reader = NULL;
	struct error *error = ledger_reader_open_fd(fd, "image", &reader);

	close(fd);
	if (error) {
		error_free(error);
		return 0;
	}
	snprintf(path, sizeof(path), "/dev/shm/mallograph-fuzz-%d.mgp", (int)getpid());
	unlink(path);
	check(collect_finish(reader, &options, path, NULL));
	ledger_reader_close(reader);
	read_back(path);
	unlink(path);
	return 0;
}
