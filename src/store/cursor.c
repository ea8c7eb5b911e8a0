/*
 * Rows out of the profile, each column checked. Keys must ascend from row to row: a
 * damaged tree of pages could otherwise give the same rows for ever.
 */
#include "store/store_internal.h"

#include <string.h>

/* Of tables whose keys are no numbers; more of them than any run makes. */
#define MAX_UNKEYED_ROWS 1000000

struct store_cursor {
	struct store_reader *reader;
	sqlite3_stmt *statement;
	enum store_table table;
	uint64_t key;
	uint64_t rows;
	int64_t last[STORE_MAX_KEYS];
	struct error *error;
};

void store_append_select(struct strbuf *sql, const struct store_reader *reader,
			 enum store_table which)
{
	const struct table *table = &store_tables[which];

	/* Brackets: a name in quotes that is no column would be taken for a string. */
	for (unsigned int i = 0; i < table->column_count; i++)
		strbuf_printf(sql, reader->lacks[which] >> i & 1 ? "%sNULL" : "%s[%s]",
			      i ? "," : "SELECT ", table->columns[i].name);
	if (!reader->is_absent[which]) {
		strbuf_printf(sql, " FROM [%s]", table->name);
		return;
	}
	for (unsigned int i = 0; i < table->column_count; i++)
		strbuf_printf(sql, "%s NULL [%s]", i ? "," : " FROM (SELECT",
			      table->columns[i].name);
	strbuf_append(sql, " WHERE 0)");
}

static struct error *bad(const struct store_reader *reader, const struct table *table,
			 const struct column *column, const char *what)
{
	return store_damaged(reader->path, "column %s of table %s has %s", column->name,
			     table->name, what);
}

static bool find_word(const struct column *column, const char *text, uint64_t *ret)
{
	for (uint64_t i = 1; column->words[i]; i++)
		if (strcmp(column->words[i], text) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static struct error *read_number(const struct store_reader *reader, const struct table *table,
				 const struct column *column, int64_t value, void *to)
{
	switch (column->kind) {
	case COLUMN_SIGNED:
		memcpy(to, &value, sizeof(value));
		return NULL;
	case COLUMN_NUMBER:
	case COLUMN_REFERENCE:
		if (value < 0 || (uint64_t)value > column->most ||
		    (value == 0 && column->kind == COLUMN_REFERENCE && column->required))
			return bad(reader, table, column, "a number out of range");
		break;
	default:
		break;
	}
	*(uint64_t *)to = (uint64_t)value;
	return NULL;
}

static struct error *read_text(const struct store_reader *reader, const struct table *table,
			       const struct column *column, sqlite3_stmt *statement, int at,
			       void *to)
{
	struct store_text *text = to;
	bool is_blob = column->kind == COLUMN_BLOB;

	if (sqlite3_column_type(statement, at) != (is_blob ? SQLITE_BLOB : SQLITE_TEXT))
		return bad(reader, table, column, is_blob ? "no bytes" : "no text");
	text->bytes = is_blob ? sqlite3_column_blob(statement, at)
			      : (const char *)sqlite3_column_text(statement, at);
	text->length = (size_t)sqlite3_column_bytes(statement, at);
	if (text->bytes)
		return NULL;
	if (text->length)
		return error_no_memory();
	text->bytes = "";
	return NULL;
}

static struct error *read_word(const struct store_reader *reader, const struct table *table,
			       const struct column *column, sqlite3_stmt *statement, int at,
			       void *to)
{
	const char *text = sqlite3_column_type(statement, at) == SQLITE_TEXT
				   ? (const char *)sqlite3_column_text(statement, at)
				   : NULL;

	if (!text || !find_word(column, text, to))
		return bad(reader, table, column, "a word that is not of the format");
	return NULL;
}

static void set_null(const struct column *column, void *to)
{
	switch (column->kind) {
	case COLUMN_NUMBER:
	case COLUMN_ADDRESS:
		*(uint64_t *)to = STORE_UNKNOWN;
		break;
	case COLUMN_TEXT:
	case COLUMN_BLOB:
		*(struct store_text *)to = (struct store_text){NULL, 0};
		break;
	case COLUMN_REFERENCE:
	case COLUMN_SIGNED:
	case COLUMN_WORD:
		*(uint64_t *)to = 0;
		break;
	}
}

static struct error *read_column(const struct store_reader *reader, const struct table *table,
				 const struct column *column, sqlite3_stmt *statement, int at,
				 void *to)
{
	int type = sqlite3_column_type(statement, at);

	if (type == SQLITE_NULL) {
		if (column->required)
			return bad(reader, table, column, "nothing where there must be a value");
		set_null(column, to);
		return NULL;
	}
	switch (column->kind) {
	case COLUMN_TEXT:
	case COLUMN_BLOB:
		return read_text(reader, table, column, statement, at, to);
	case COLUMN_WORD:
		return read_word(reader, table, column, statement, at, to);
	default:
		break;
	}
	if (type != SQLITE_INTEGER)
		return bad(reader, table, column, "no number");
	return read_number(reader, table, column, sqlite3_column_int64(statement, at), to);
}

struct error *store_row_read(const struct store_reader *reader, enum store_table which,
			     sqlite3_stmt *statement, void *row)
{
	const struct table *table = &store_tables[which];

	for (unsigned int i = 0; i < table->column_count; i++)
		TRY(read_column(reader, table, &table->columns[i], statement, (int)i,
				(char *)row + table->columns[i].offset));
	if (which == STORE_TABLE_STACK) {
		const struct store_stack *stack = row;

		if (stack->parent >= stack->id)
			return store_damaged(reader->path, "a stack's frames go round");
	}
	return NULL;
}

struct error *store_cursor_open(struct store_reader *reader, enum store_table which, uint64_t key,
				struct store_cursor **ret)
{
	const struct table *table = &store_tables[which];
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;
	CLEANUP_FREE struct store_cursor *cursor = calloc(1, sizeof(*cursor));

	if (!cursor)
		return error_no_memory();
	store_append_select(&sql, reader, which);
	if (key != STORE_ALL)
		strbuf_printf(&sql, " WHERE [%s]=?", table->filter);
	strbuf_printf(&sql, " ORDER BY %s", table->order);
	TRY(strbuf_result(&sql));
	TRY(store_prepare(reader, sql.text, &cursor->statement));
	if (key != STORE_ALL)
		sqlite3_bind_int64(cursor->statement, 1, (int64_t)key);
	cursor->reader = reader;
	cursor->table = which;
	cursor->key = key;
	*ret = STEAL(cursor);
	return NULL;
}

/* Whether the row comes after the one before. */
static bool ascends(struct store_cursor *cursor)
{
	const struct table *table = &store_tables[cursor->table];
	bool after = cursor->rows == 0;

	if (table->keys == 0)
		return cursor->rows < MAX_UNKEYED_ROWS;
	for (unsigned int i = 0; i < table->keys; i++) {
		int64_t value = sqlite3_column_int64(cursor->statement, (int)i);

		if (!after && value < cursor->last[i])
			return false;
		after |= value > cursor->last[i];
		cursor->last[i] = value;
	}
	return after;
}

/* An index may lead to rows that are not the key's. */
static bool is_selected(const struct store_cursor *cursor, const char *row)
{
	const struct table *table = &store_tables[cursor->table];

	if (cursor->key == STORE_ALL)
		return true;
	for (unsigned int i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, table->filter) == 0)
			return *(const uint64_t *)(const void *)(row + table->columns[i].offset) ==
			       cursor->key;
	return false;
}

static struct error *next(struct store_cursor *cursor, void *row, bool *ret)
{
	const struct table *table = &store_tables[cursor->table];
	int code = sqlite3_step(cursor->statement);

	if (code == SQLITE_DONE)
		return NULL;
	if (code != SQLITE_ROW)
		return store_read_failure(cursor->reader->db, cursor->reader->path);
	TRY(store_row_read(cursor->reader, cursor->table, cursor->statement, row));
	if (!ascends(cursor) || !is_selected(cursor, row))
		return store_damaged(cursor->reader->path, "the rows of table %s are in disorder",
				     table->name);
	cursor->rows++;
	*ret = true;
	return NULL;
}

bool store_cursor_next(struct store_cursor *cursor, enum store_table table, void *row)
{
	bool found = false;

	if (cursor->error)
		return false;
	if (table != cursor->table) {
		cursor->error =
			error_create(ERROR_USAGE, "a row of table %s into one of %s",
				     store_tables[cursor->table].name, store_tables[table].name);
		return false;
	}
	cursor->error = next(cursor, row, &found);
	return found;
}

struct error *store_cursor_close(struct store_cursor *cursor)
{
	struct error *error = cursor->error;

	sqlite3_finalize(cursor->statement);
	free(cursor);
	return error;
}

struct error *store_reader_get(struct store_reader *reader, enum store_table which, uint64_t id,
			       void *row)
{
	const struct table *table = &store_tables[which];
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;
	sqlite3_stmt *statement = reader->by_id[which];

	if (!statement) {
		store_append_select(&sql, reader, which);
		strbuf_append(&sql, " WHERE id=?");
		TRY(strbuf_result(&sql));
		TRY(store_prepare(reader, sql.text, &statement));
		reader->by_id[which] = statement;
	}
	sqlite3_reset(statement);
	sqlite3_bind_int64(statement, 1, (int64_t)id);

	int code = sqlite3_step(statement);

	if (code == SQLITE_DONE)
		return store_damaged(reader->path, "table %s has no row %llu", table->name,
				     (unsigned long long)id);
	if (code != SQLITE_ROW)
		return store_read_failure(reader->db, reader->path);
	return store_row_read(reader, which, statement, row);
}

static struct error *keep_string(struct store_reader *reader, const struct store_string *string)
{
	CLEANUP_FREE char *copy = malloc(string->s.length + 1);

	if (!copy)
		return error_no_memory();
	if (string->s.length)
		memcpy(copy, string->s.bytes, string->s.length);
	copy[string->s.length] = '\0';
	TRY(map_u64_set(&reader->string_at, string->id, reader->strings.count));
	TRY(vector_push(&reader->strings,
			((struct store_text){.bytes = copy, .length = string->s.length})));
	(void)STEAL(copy);
	return NULL;
}

struct error *store_string(struct store_reader *reader, uint64_t id, struct store_text *ret)
{
	struct store_string string = {0};

	*ret = (struct store_text){NULL, 0};
	if (id == 0 || id == STORE_UNKNOWN)
		return NULL;
	const uint64_t *at = map_u64_find(&reader->string_at, id);

	if (at) {
		*ret = reader->strings.items[*at];
		return NULL;
	}
	TRY(store_get(reader, id, &string));
	TRY(keep_string(reader, &string));
	*ret = reader->strings.items[reader->strings.count - 1];
	return NULL;
}
