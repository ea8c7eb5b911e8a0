/* Rows of one profile into another, in which strings have other ids. */
#include "store/store_internal.h"

#include <string.h>

/* A table has no more texts. */
#define MAX_TEXTS 4

struct store_copy {
	struct store_reader *reader;
	struct store_writer *writer;
	struct map_u64 strings; /* the reader's id → the writer's */
};

struct error *store_copy_begin(struct store_reader *reader, struct store_writer *writer,
			       struct store_copy **ret)
{
	struct store_copy *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return error_no_memory();
	copy->reader = reader;
	copy->writer = writer;
	*ret = copy;
	return NULL;
}

void store_copy_end(struct store_copy *copy)
{
	if (!copy)
		return;
	map_u64_free(&copy->strings);
	free(copy);
}

/* As it was before it was escaped: it will be again. */
static struct error *unescape(const struct store_text *text, struct strbuf *ret)
{
	strbuf_append_bytes(ret, text->bytes, text->length);
	TRY(strbuf_result(ret));
	if (ret->text)
		ret->length = store_unescape(ret->text, ret->length);
	return NULL;
}

struct error *store_copy_string(struct store_copy *copy, uint64_t id, uint64_t *ret)
{
	CLEANUP_STRBUF struct strbuf plain = STRBUF_EMPTY;
	const uint64_t *known = map_u64_find(&copy->strings, id);
	struct store_text text;

	*ret = 0;
	if (known) {
		*ret = *known;
		return NULL;
	}
	if (id == 0 || id == STORE_UNKNOWN)
		return NULL;
	TRY(store_string(copy->reader, id, &text));
	TRY(unescape(&text, &plain));
	TRY(store_intern(copy->writer, plain.text ? plain.text : "", plain.length, ret));
	return map_u64_set(&copy->strings, id, *ret);
}

static struct error *put_row(struct store_copy *copy, enum store_table which, char *row)
{
	const struct table *table = &store_tables[which];
	struct strbuf texts[MAX_TEXTS] = {0};
	struct error *error = NULL;
	size_t used = 0;

	for (unsigned int i = 0; i < table->column_count && !error; i++) {
		const struct column *column = &table->columns[i];
		struct store_text *text = (struct store_text *)(void *)(row + column->offset);
		uint64_t *number = (uint64_t *)(void *)(row + column->offset);

		if (column->is_string)
			error = store_copy_string(copy, *number, number);
		if (column->kind != COLUMN_TEXT || !text->bytes)
			continue;
		error = unescape(text, &texts[used]);
		*text = (struct store_text){texts[used].text ? texts[used].text : "",
					    texts[used].length};
		used++;
	}
	if (!error)
		error = store_writer_put(copy->writer, which, row);
	for (size_t i = 0; i < used; i++)
		strbuf_free(&texts[i]);
	return error;
}

struct error *store_copy_table(struct store_copy *copy, enum store_table which,
			       store_change *change, void *context)
{
	CLEANUP_FREE char *row = malloc(store_tables[which].row_bytes);
	struct store_cursor *cursor;
	struct error *error = NULL, *failure;

	if (!row)
		return error_no_memory();
	TRY(store_cursor_open(copy->reader, which, STORE_ALL, &cursor));
	while (!error && store_cursor_next(cursor, which, row))
		if (!change || change(context, row))
			error = put_row(copy, which, row);
	failure = store_cursor_close(cursor);
	if (error)
		error_free(failure);
	return error ? error : failure;
}

/* What the writer says itself is not copied. */
static struct error *put_meta(struct store_copy *copy, sqlite3_stmt *statement)
{
	const char *key = (const char *)sqlite3_column_text(statement, 0);

	if (!key || strcmp(key, "finished") == 0)
		return NULL;
	if (sqlite3_column_type(statement, 1) == SQLITE_INTEGER)
		return store_put_meta_number(copy->writer, key,
					     (uint64_t)sqlite3_column_int64(statement, 1));
	const char *text = sqlite3_column_type(statement, 1) == SQLITE_TEXT
				   ? (const char *)sqlite3_column_text(statement, 1)
				   : NULL;

	return text ? store_put_meta_text(copy->writer, key, text) : NULL;
}

struct error *store_copy_meta(struct store_copy *copy)
{
	sqlite3_stmt *statement = NULL;
	struct error *error =
		store_prepare(copy->reader, "SELECT key, value FROM meta ORDER BY key", &statement);
	int code = SQLITE_DONE;

	while (!error && (code = sqlite3_step(statement)) == SQLITE_ROW)
		error = put_meta(copy, statement);
	if (!error && code != SQLITE_DONE)
		error = store_read_failure(copy->reader->db, copy->reader->path);
	sqlite3_finalize(statement);
	return error;
}
