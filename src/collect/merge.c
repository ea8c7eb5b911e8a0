#include "collect/merge_internal.h"

#include <string.h>

#include "base/strbuf.h"
#include "collect/output.h"
#include "collect/rewrite.h"

struct error *merge_damaged(const struct merging *merging, const char *what)
{
	return error_remedy(
		error_create_path(ERROR_DAMAGED, merging->input.path, "damaged: %s", what),
		"Copy it again, whole, from where it was recorded, or merge without "
		"it.");
}

struct error *merge_each(struct merging *merging, enum store_table table, void *row,
			 merge_take *take)
{
	struct store_cursor *cursor;
	struct error *error = NULL;

	TRY(store_cursor_open(merging->input.reader, table, STORE_ALL, &cursor));
	while (!error && store_cursor_next(cursor, table, row))
		error = take(merging, row);
	struct error *failure = store_cursor_close(cursor);

	if (error)
		error_free(failure);
	return error ? error : failure;
}

/* --- one input after the other -------------------------------------------------------------- */

static void close_input(struct merge_input *input)
{
	map_u64_free(&input->module_at);
	map_u64_free(&input->levels);
	map_u64_free(&input->loc_at);
	map_u64_free(&input->worse);
	map_u64_free(&input->stack_at);
	map_u64_free(&input->processes);
	map_u64_free(&input->sources);
	store_copy_end(input->copy);
	store_reader_close(input->reader);
	*input = (struct merge_input){0};
}

/* Its time, against the earliest. */
static struct error *find_shift(struct merging *merging)
{
	uint64_t start;
	bool found;

	TRY(store_meta_number(merging->input.reader, "start_unix_ns", &start, &found));
	if (found && start && merging->is_gathering &&
	    (merging->start_unix_ns == 0 || start < merging->start_unix_ns))
		merging->start_unix_ns = start;
	merging->input.shift =
		found && start > merging->start_unix_ns ? start - merging->start_unix_ns : 0;
	return NULL;
}

static struct error *read_input(struct merging *merging,
				struct error *(*read)(struct merging *merging))
{
	TRY(store_reader_open(merging->input.path, &merging->input.reader));
	TRY(store_copy_begin(merging->input.reader, merging->writer, &merging->input.copy));
	TRY(find_shift(merging));
	TRY(merge_places(merging));
	return read ? read(merging) : NULL;
}

static struct error *each_input(struct merging *merging,
				struct error *(*read)(struct merging *merging))
{
	struct error *error = NULL;

	for (size_t i = 0; i < merging->merge->count && !error; i++) {
		merging->input.number = i;
		merging->input.path = merging->merge->paths[i];
		error = read_input(merging, read);
		close_input(&merging->input);
	}
	return error;
}

/* --- meta ------------------------------------------------------------------------------------ */

static struct error *gather(struct merging *merging)
{
	struct collect_merge *merge = merging->merge;

	if (!store_reader_finished(merging->input.reader) && merge->unfinished++ == 0)
		merge->first_unfinished = merging->input.path;
	return collect_titles_read(&merging->titles, merging->input.reader);
}

static struct error *put_alloc_fns(struct merging *merging)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	for (size_t i = 0; i < merging->titles.alloc_fns.count; i++) {
		strbuf_append(&text, i ? "\n" : "");
		strbuf_append(&text, merging->titles.alloc_fns.items[i]);
	}
	TRY(strbuf_result(&text));
	return text.length ? store_put_meta_text(merging->writer, "alloc_fn", text.text) : NULL;
}

static struct error *put_meta(struct merging *merging)
{
	TRY(store_put_meta_text(merging->writer, "tool", "mallograph " MALLOGRAPH_VERSION));
	if (merging->start_unix_ns)
		TRY(store_put_meta_number(merging->writer, "start_unix_ns",
					  merging->start_unix_ns));
	return put_alloc_fns(merging);
}

static struct error *put(void *context, struct store_writer *writer)
{
	struct merging *merging = context;

	merging->writer = writer;
	TRY(merge_begin_places(merging));
	merging->is_gathering = true;
	TRY(each_input(merging, gather));
	merging->is_gathering = false;
	TRY(put_meta(merging));
	TRY(merge_put_modules(merging));
	TRY(each_input(merging, merge_lines));
	merging->pass++;
	if (merging->differ)
		TRY(each_input(merging, merge_lines));
	return each_input(merging, merge_rows);
}

struct error *collect_merge(struct collect_merge *merge, struct collect_output *output)
{
	struct merging merging = {.merge = merge};
	struct error *error = collect_rewrite(output, put, &merging);

	close_input(&merging.input);
	merge_free_places(&merging);
	collect_titles_free(&merging.titles);
	error_free(merging.error);
	return error;
}
