/*
 * Everything that reads a ledger, over any bytes: nothing may crash, hang, or take memory
 * out of proportion to the file. Built into a replay of the corpus (make check) and, by
 * tools/fuzz, into a libFuzzer program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/model.h"
#include "ledger/reader.h"
#include "report/report.h"

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

static void print(struct analyze_model *model)
{
	const struct report_options options = {.sites = 5};
	const struct report_summary summary = {.saved_path = "image"};
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	error_free(report_json_print(model, &options, out));
	error_free(report_text_print(model, &options, out));
	error_free(report_summary_print(model, &summary, out));
	fclose(out);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = image_make(data, size);
	struct ledger_reader *reader = NULL;
	struct error *error = ledger_reader_open_fd(fd, "image", &reader);

	close(fd);
	if (!error) {
		struct analyze_model *model = NULL;

		for (size_t i = 0; i < ledger_reader_process_count(reader); i++)
			read_process(reader, i);
		error = analyze_model_load(reader, &model);
		if (!error)
			print(model);
		analyze_model_free(model);
		ledger_reader_close(reader);
	}
	free(error ? error_text(error) : NULL);
	error_free(error);
	return 0;
}
