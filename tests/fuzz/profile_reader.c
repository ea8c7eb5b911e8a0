/*
 * Everything that reads a profile, over any bytes: nothing may crash, hang, or take memory
 * out of proportion to the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyze/model.h"
#include "report/report.h"
#include "store/store.h"

#include "image.h"

#define READ_ALL(reader, type, use)                                                           \
	do {                                                                                  \
		struct store_cursor *cursor_;                                                 \
		type row;                                                                     \
		struct error *error_ =                                                        \
			store_cursor_open(reader, STORE_TABLE_OF(&row), STORE_ALL, &cursor_); \
		if (!error_) {                                                                \
			while (store_next(cursor_, &row)) {                                   \
				use;                                                          \
			}                                                                     \
			error_ = store_cursor_close(cursor_);                                 \
		}                                                                             \
		error_free(error_);                                                           \
	} while (0)

static void read_string(struct store_reader *reader, uint64_t id)
{
	struct store_text text;
	struct error *error = store_string(reader, id, &text);

	/* Whatever it says is there can be looked at. */
	for (size_t i = 0; !error && text.bytes && i < text.length; i++)
		if (text.bytes[i] == '\1')
			break;
	error_free(error);
}

static void walk_stack(struct store_reader *reader, uint64_t id)
{
	struct error *error = NULL;

	while (id && id != STORE_UNKNOWN && !error) {
		struct store_stack frame;
		struct store_loc loc;

		error = store_get(reader, id, &frame);
		if (!error && frame.loc)
			error = store_get(reader, frame.loc, &loc);
		id = error ? 0 : frame.parent;
	}
	error_free(error);
}

static void read_lines(struct store_reader *reader, uint64_t loc)
{
	struct store_cursor *cursor;
	struct store_line line;
	struct error *error = store_cursor_open(reader, STORE_TABLE_LINE, loc, &cursor);

	if (!error) {
		while (store_next(cursor, &line)) {
			read_string(reader, line.function);
			read_string(reader, line.file);
		}
		error = store_cursor_close(cursor);
	}
	error_free(error);
}

static void read_all(struct store_reader *reader)
{
	READ_ALL(reader, struct store_string, read_string(reader, row.id));
	READ_ALL(reader, struct store_process, read_string(reader, row.exe));
	READ_ALL(reader, struct store_api, );
	READ_ALL(reader, struct store_thread, read_string(reader, row.name));
	READ_ALL(reader, struct store_loss, );
	READ_ALL(reader, struct store_module, read_string(reader, row.path));
	READ_ALL(reader, struct store_mapping, );
	READ_ALL(reader, struct store_loc, read_lines(reader, row.id));
	READ_ALL(reader, struct store_line, );
	READ_ALL(reader, struct store_stack, );
	READ_ALL(reader, struct store_site, walk_stack(reader, row.stack));
	READ_ALL(reader, struct store_site_size, );
	READ_ALL(reader, struct store_thread_size, );
	READ_ALL(reader, struct store_site_lifetime, );
	READ_ALL(reader, struct store_site_thread, );
	READ_ALL(reader, struct store_snap, );
	READ_ALL(reader, struct store_series, );
	READ_ALL(reader, struct store_cohort, );
	READ_ALL(reader, struct store_block, );
	READ_ALL(reader, struct store_source, read_string(reader, row.file));
}

static void read_some(struct store_reader *reader)
{
	struct store_cursor *cursor;
	struct store_site site;
	struct error *error = store_cursor_open(reader, STORE_TABLE_SITE, 1, &cursor);
	char *text = NULL;
	bool found;

	if (!error) {
		while (store_next(cursor, &site))
			;
		error = store_cursor_close(cursor);
	}
	error_free(error);
	error_free(store_meta_text(reader, "tool", &text, &found));
	free(text);
}

static void print(struct analyze_model *model)
{
	struct report_options options = {.sites = 5, .processes = 5};
	const struct report_summary summary = {.saved_path = "image"};
	const struct analyze_linear linear = {.high = 1000, .step = 100};
	struct report_hist hist = {.limit = 3};
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	error_free(report_json_print(model, &options, out));
	error_free(report_summary_print(model, &summary, out));
	error_free(report_blocks_print(model, out));
	error_free(report_info_print(model, "image", &options, out));
	for (hist.by = ANALYZE_BY_NOTHING; hist.by <= ANALYZE_BY_PROGRAM; hist.by++)
		error_free(report_hist_print(model, &hist, out));
	hist.linear = &linear;
	error_free(report_hist_print(model, &hist, out));
	/* Text merges sites for good: more and more. */
	for (int split = ANALYZE_SPLIT_PROGRAM; split >= ANALYZE_SPLIT_NOTHING; split--) {
		options.split = (enum analyze_split)split;
		error_free(report_tree_print(model, &options, ANALYZE_TOP_DOWN, out));
		error_free(report_tree_print(model, &options, ANALYZE_BOTTOM_UP, out));
		error_free(report_text_print(model, &options, out));
	}
	fclose(out);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* SQLite opens files by their name, which one in memory has not. */
	char path[] = "/dev/shm/mallograph-image-XXXXXX";
	int fd = mkstemp(path);
	struct store_reader *reader = NULL;
	struct analyze_model *model = NULL;

	if (fd < 0)
		abort();
	image_fill(fd, data, size);
	close(fd);
	struct error *error = store_reader_open(path, &reader);

	unlink(path);
	if (!error) {
		read_all(reader);
		read_some(reader);
		error = analyze_model_load(reader, &model);
		if (!error)
			print(model);
		analyze_model_free(model);
	}
	/* The machine's fault, and nothing was tried. */
	if (error && error->code == ERROR_SYSTEM)
		abort();
	free(error ? error_text(error) : NULL);
	error_free(error);
	return 0;
}
