/*
 * Everything that reads a ledger, over any bytes: nothing may crash, hang, or take memory
 * out of proportion to the file. Built into a replay of the corpus (make check) and, by
 * tools/fuzz, into a libFuzzer program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger/reader.h"

#include "image.h"

struct walk {
	const struct ledger_rows *rows;
	uint64_t bytes;
};

static struct error *visit(void *context, const struct ledger_block *block)
{
	struct walk *walk = context;
	const struct ledger_row *row = ledger_rows_find(walk->rows, block->row);

	walk->bytes += row ? block->size : 0;
	return NULL;
}

static void read_process(struct ledger_reader *reader, size_t process)
{
	struct ledger_rows rows;
	struct walk walk = {.rows = &rows};
	struct error *error = ledger_rows_read(reader, process, &rows);

	if (!error) {
		error = ledger_blocks_walk(reader, process, visit, &walk);
		ledger_rows_free(&rows);
	}
	error_free(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = image_make(data, size);
	struct ledger_reader *reader = NULL;
	struct error *error = ledger_reader_open_fd(fd, "image", &reader);

	close(fd);
	if (!error) {
		for (size_t i = 0; i < ledger_reader_process_count(reader); i++)
			read_process(reader, i);
		ledger_reader_close(reader);
	}
	free(error ? error_text(error) : NULL);
	error_free(error);
	return 0;
}
