#include "store/store_internal.h"

#include <string.h>

struct store_query {
	struct store_reader *reader;
	sqlite3_stmt *statement;
	struct error *error;
};

static struct error *refuse(struct store_reader *reader, int code)
{
	switch (code) {
	case SQLITE_AUTH:
		return error_create(ERROR_USAGE, "%s: a question may only read the profile",
				    sqlite3_errmsg(reader->db));
	case SQLITE_ERROR:
	case SQLITE_TOOBIG:
	case SQLITE_RANGE:
	case SQLITE_MISMATCH:
	case SQLITE_READONLY:
		return error_remedy(
			error_create(ERROR_USAGE, "%s", sqlite3_errmsg(reader->db)),
			"What there is: mallograph query 'select sql from sqlite_schema'.");
	default:
		return store_read_failure(reader->db, reader->path);
	}
}

/* Of pragmas, those that tell and change nothing. */
static bool is_telling(const char *pragma, const char *value)
{
	static const char *const telling[] = {
		"table_info", "table_xinfo", "table_list", "index_list", "index_info",
	};
	static const char *const telling_alone[] = {"user_version", "application_id"};

	for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++)
		if (sqlite3_stricmp(pragma, telling[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(telling_alone) / sizeof(telling_alone[0]); i++)
		if (!value && sqlite3_stricmp(pragma, telling_alone[i]) == 0)
			return true;
	return false;
}

int store_authorize(void *context, int action, const char *first, const char *second,
		    const char *database, const char *view)
{
	bool allowed;

	(void)context, (void)database, (void)view;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		allowed = true;
		break;
	/* How a function that gives a table declares it. No statement may that is no reading. */
	case SQLITE_UPDATE:
		allowed = first && sqlite3_stricmp(first, "sqlite_master") == 0;
		break;
	case SQLITE_FUNCTION:
		allowed = !second || sqlite3_stricmp(second, "load_extension") != 0;
		break;
	case SQLITE_PRAGMA:
		allowed = first && is_telling(first, second);
		break;
	default:
		allowed = false;
		break;
	}
	return allowed ? SQLITE_OK : SQLITE_DENY;
}

static bool is_blank(const char *sql) { return sql[strspn(sql, " \t\r\n;")] == '\0'; }

struct error *store_query_open(struct store_reader *reader, const char *sql,
			       struct store_query **ret)
{
	CLEANUP_FREE struct store_query *query = calloc(1, sizeof(*query));
	const char *rest = "";

	if (!query)
		return error_no_memory();
	int code = sqlite3_prepare_v2(reader->db, sql, -1, &query->statement, &rest);

	if (code != SQLITE_OK)
		return refuse(reader, code);
	if (!query->statement)
		return error_create(ERROR_USAGE, "an empty question");
	if (!sqlite3_stmt_readonly(query->statement) || !is_blank(rest)) {
		sqlite3_finalize(query->statement);
		return error_create(ERROR_USAGE, "one statement that reads, please");
	}
	query->reader = reader;
	*ret = STEAL(query);
	return NULL;
}

unsigned int store_query_columns(const struct store_query *query)
{
	return (unsigned int)sqlite3_column_count(query->statement);
}

const char *store_query_name(const struct store_query *query, unsigned int column)
{
	const char *name = sqlite3_column_name(query->statement, (int)column);

	return name ? name : "";
}

bool store_query_next(struct store_query *query)
{
	if (query->error)
		return false;
	int code = sqlite3_step(query->statement);

	if (code == SQLITE_ROW)
		return true;
	if (code != SQLITE_DONE)
		query->error = refuse(query->reader, code & 0xff);
	return false;
}

struct store_text store_query_text(const struct store_query *query, unsigned int column)
{
	const char *bytes = (const char *)sqlite3_column_text(query->statement, (int)column);

	return (struct store_text){
		.bytes = bytes,
		.length = (size_t)sqlite3_column_bytes(query->statement, (int)column),
	};
}

bool store_query_is_number(const struct store_query *query, unsigned int column)
{
	int type = sqlite3_column_type(query->statement, (int)column);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

struct error *store_query_close(struct store_query *query)
{
	struct error *error = query->error;

	sqlite3_finalize(query->statement);
	free(query);
	return error;
}
