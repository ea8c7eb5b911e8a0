/*
 * Rows on their way in, as a virtual table: one INSERT … SELECT puts in a batch of them,
 * where a statement run for each row would cost twice as much.
 */
#include "store/rows.h"

#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 40

struct rows_cursor {
	sqlite3_vtab_cursor base;
	unsigned int at;
};

struct rows_vtab {
	sqlite3_vtab base;
	const struct store_rows *rows;
};

static int rows_connect(sqlite3 *db, void *context, int argc, const char *const *argv,
			sqlite3_vtab **ret, char **message)
{
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;
	struct rows_vtab *vtab;

	(void)argc, (void)argv, (void)message;
	for (unsigned int i = 0; i < MAX_COLUMNS; i++)
		strbuf_printf(&sql, "%sc%u", i ? "," : "CREATE TABLE rows(", i);
	strbuf_append(&sql, ")");
	if (sql.failed)
		return SQLITE_NOMEM;
	int code = sqlite3_declare_vtab(db, sql.text);

	if (code != SQLITE_OK)
		return code;
	vtab = sqlite3_malloc(sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	*vtab = (struct rows_vtab){.rows = context};
	*ret = &vtab->base;
	return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *vtab)
{
	sqlite3_free(vtab);
	return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = 1;
	return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
	struct rows_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	(void)vtab;
	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct rows_cursor){0};
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc,
		       sqlite3_value **argv)
{
	struct rows_cursor *cursor = (struct rows_cursor *)base;

	(void)index, (void)name, (void)argc, (void)argv;
	cursor->at = 0;
	return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *base)
{
	((struct rows_cursor *)base)->at++;
	return SQLITE_OK;
}

static int rows_eof(sqlite3_vtab_cursor *base)
{
	const struct rows_vtab *vtab = (const struct rows_vtab *)base->pVtab;

	return ((const struct rows_cursor *)base)->at >= vtab->rows->count;
}

static void give_number(sqlite3_context *to, uint64_t value)
{
	if (value != STORE_UNKNOWN)
		sqlite3_result_int64(to, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void give_text(sqlite3_context *to, const struct store_text *text)
{
	CLEANUP_STRBUF struct strbuf escaped = STRBUF_EMPTY;

	if (!text->bytes)
		return;
	if (!store_escape_needed(text->bytes, text->length)) {
		sqlite3_result_text64(to, text->bytes, text->length, SQLITE_TRANSIENT, SQLITE_UTF8);
		return;
	}
	store_escape(&escaped, text->bytes, text->length);
	if (escaped.failed)
		sqlite3_result_error_nomem(to);
	else
		sqlite3_result_text64(to, escaped.text, escaped.length, SQLITE_TRANSIENT,
				      SQLITE_UTF8);
}

/* What is given nothing is NULL. */
static void give(sqlite3_context *to, const struct column *column, const void *value)
{
	const struct store_text *text = value;
	uint64_t number;

	memcpy(&number, value, sizeof(number));
	switch (column->kind) {
	case COLUMN_NUMBER:
		give_number(to, number);
		break;
	case COLUMN_REFERENCE:
		if (number)
			give_number(to, number);
		break;
	case COLUMN_ADDRESS:
		if (number != STORE_UNKNOWN)
			sqlite3_result_int64(to, (int64_t)number);
		break;
	case COLUMN_SIGNED:
		sqlite3_result_int64(to, (int64_t)number);
		break;
	case COLUMN_WORD:
		if (number)
			sqlite3_result_text(to, column->words[number], -1, SQLITE_STATIC);
		break;
	case COLUMN_TEXT:
		give_text(to, text);
		break;
	case COLUMN_BLOB:
		if (text->bytes)
			sqlite3_result_blob64(to, text->bytes, text->length, SQLITE_TRANSIENT);
		break;
	}
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *to, int at)
{
	const struct store_rows *rows = ((const struct rows_vtab *)base->pVtab)->rows;
	const struct rows_cursor *cursor = (const struct rows_cursor *)base;
	const struct column *column = &rows->table->columns[at];

	give(to, column, rows->items + cursor->at * rows->table->row_bytes + column->offset);
	return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((const struct rows_cursor *)base)->at;
	return SQLITE_OK;
}

static const sqlite3_module rows_module = {
	.xConnect = rows_connect,
	.xBestIndex = rows_best_index,
	.xDisconnect = rows_disconnect,
	.xOpen = rows_open,
	.xClose = rows_close,
	.xFilter = rows_filter,
	.xNext = rows_next,
	.xEof = rows_eof,
	.xColumn = rows_column,
	.xRowid = rows_rowid,
};

int store_rows_offer(struct store_rows *rows, sqlite3 *db)
{
	return sqlite3_create_module_v2(db, "rows", &rows_module, rows, NULL);
}

void store_rows_append_insert(struct strbuf *sql, const struct table *table)
{
	strbuf_printf(sql, "INSERT INTO [%s](", table->name);
	for (unsigned int i = 0; i < table->column_count; i++)
		strbuf_printf(sql, "%s[%s]", i ? "," : "", table->columns[i].name);
	for (unsigned int i = 0; i < table->column_count; i++)
		strbuf_printf(sql, "%sc%u", i ? "," : ") SELECT ", i);
	strbuf_append(sql, " FROM rows");
}
