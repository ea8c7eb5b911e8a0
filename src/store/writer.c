#include <string.h>

#include "store/store_internal.h"

#define CACHE_KIB 65536

/* A string that has an id: where it stands among all of them. */
struct interned {
	size_t at;
	size_t length;
};

struct store_writer {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *inserts[STORE_TABLE_COUNT];
	sqlite3_stmt *insert_meta;
	struct strbuf bytes; /* of all strings, one after the other */
	VECTOR(struct interned) strings;
	struct map_index string_index;
};

static struct error *run(struct store_writer *writer, const char *sql)
{
	if (sqlite3_exec(writer->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_write_failure(writer->db, writer->path);
	return NULL;
}

static struct error *prepare(struct store_writer *writer, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v3(writer->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) !=
	    SQLITE_OK)
		return store_write_failure(writer->db, writer->path);
	return NULL;
}

static struct error *prepare_insert(struct store_writer *writer, enum store_table which)
{
	const struct table *table = &store_tables[which];
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;

	strbuf_printf(&sql, "INSERT INTO [%s](", table->name);
	for (unsigned int i = 0; i < table->column_count; i++)
		strbuf_printf(&sql, "%s[%s]", i ? "," : "", table->columns[i].name);
	strbuf_append(&sql, ") VALUES(?");
	for (unsigned int i = 1; i < table->column_count; i++)
		strbuf_append(&sql, ",?");
	strbuf_append(&sql, ")");
	TRY(strbuf_result(&sql));
	return prepare(writer, sql.text, &writer->inserts[which]);
}

/* No journal: the file is nobody's before it is whole, and thrown away if it never is. */
static const char settings[] = "PRAGMA page_size=4096;"
			       "PRAGMA journal_mode=OFF;"
			       "PRAGMA synchronous=OFF;"
			       "PRAGMA locking_mode=EXCLUSIVE;"
			       "PRAGMA foreign_keys=OFF;"
			       "PRAGMA temp_store=MEMORY;";

static struct error *begin(struct store_writer *writer)
{
	char cache[64];

	snprintf(cache, sizeof(cache), "PRAGMA cache_size=-%d;", CACHE_KIB);
	TRY(run(writer, settings));
	TRY(run(writer, cache));
	TRY(run(writer, "BEGIN"));
	TRY(run(writer, store_schema));
	TRY(prepare(writer, "INSERT OR REPLACE INTO meta(key,value) VALUES(?,?)",
		    &writer->insert_meta));
	return store_put_meta_number(writer, "finished", 0);
}

struct error *store_writer_open(const char *path, struct store_writer **ret)
{
	struct store_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return error_no_memory();
	writer->path = strdup(path);

	struct error *error = writer->path ? NULL : error_no_memory();

	if (!error && sqlite3_open_v2(path, &writer->db,
				      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
					      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
				      NULL) != SQLITE_OK)
		error = writer->db ? store_write_failure(writer->db, path) : error_no_memory();
	if (!error)
		error = begin(writer);
	if (error) {
		store_writer_abort(writer);
		return error;
	}
	*ret = writer;
	return NULL;
}

void store_writer_abort(struct store_writer *writer)
{
	if (!writer)
		return;
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
		sqlite3_finalize(writer->inserts[i]);
	sqlite3_finalize(writer->insert_meta);
	sqlite3_close(writer->db);
	strbuf_free(&writer->bytes);
	vector_free(&writer->strings);
	map_index_free(&writer->string_index);
	free(writer->path);
	free(writer);
}

struct error *store_writer_finish(struct store_writer *writer)
{
	struct error *error = store_put_meta_number(writer, "finished", 1);

	if (!error)
		error = run(writer, "COMMIT");
	store_writer_abort(writer);
	return error;
}

/* Runs an insert whose values are bound. */
static struct error *insert(struct store_writer *writer, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);
	struct error *error =
		code == SQLITE_DONE ? NULL : store_write_failure(writer->db, writer->path);

	sqlite3_reset(statement);
	return error;
}

static void bind_text(sqlite3_stmt *statement, int at, const struct store_text *text)
{
	CLEANUP_STRBUF struct strbuf escaped = STRBUF_EMPTY;

	if (!text->bytes) {
		sqlite3_bind_null(statement, at);
		return;
	}
	if (!store_escape_needed(text->bytes, text->length)) {
		sqlite3_bind_text64(statement, at, text->bytes, text->length, SQLITE_STATIC,
				    SQLITE_UTF8);
		return;
	}
	store_escape(&escaped, text->bytes, text->length);
	sqlite3_bind_text64(statement, at, escaped.text, escaped.length, SQLITE_TRANSIENT,
			    SQLITE_UTF8);
}

static void bind_number(sqlite3_stmt *statement, int at, uint64_t value)
{
	if (value == STORE_UNKNOWN)
		sqlite3_bind_null(statement, at);
	else
		sqlite3_bind_int64(statement, at, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void bind(sqlite3_stmt *statement, int at, const struct column *column, const char *row)
{
	const void *value = row + column->offset;
	uint64_t number = *(const uint64_t *)value;

	switch (column->kind) {
	case COLUMN_REFERENCE:
		bind_number(statement, at, number ? number : STORE_UNKNOWN);
		break;
	case COLUMN_NUMBER:
		bind_number(statement, at, number);
		break;
	case COLUMN_ADDRESS:
		if (number == STORE_UNKNOWN)
			sqlite3_bind_null(statement, at);
		else
			sqlite3_bind_int64(statement, at, (int64_t)number);
		break;
	case COLUMN_SIGNED:
		sqlite3_bind_int64(statement, at, *(const int64_t *)value);
		break;
	case COLUMN_WORD:
		if (number)
			sqlite3_bind_text(statement, at, column->words[number], -1, SQLITE_STATIC);
		else
			sqlite3_bind_null(statement, at);
		break;
	case COLUMN_TEXT:
		bind_text(statement, at, value);
		break;
	case COLUMN_BLOB: {
		const struct store_text *blob = value;

		if (blob->bytes)
			sqlite3_bind_blob64(statement, at, blob->bytes, blob->length,
					    SQLITE_STATIC);
		else
			sqlite3_bind_null(statement, at);
		break;
	}
	}
}

struct error *store_writer_put(struct store_writer *writer, enum store_table which, const void *row)
{
	const struct table *table = &store_tables[which];

	if (!writer->inserts[which])
		TRY(prepare_insert(writer, which));
	for (unsigned int i = 0; i < table->column_count; i++)
		bind(writer->inserts[which], (int)i + 1, &table->columns[i], row);
	return insert(writer, writer->inserts[which]);
}

struct string_key {
	const struct store_writer *writer;
	const char *bytes;
	size_t length;
};

static bool same_string(void *context, uint32_t position)
{
	const struct string_key *key = context;
	const struct interned *is = &key->writer->strings.items[position];

	return is->length == key->length &&
	       memcmp(key->writer->bytes.text + is->at, key->bytes, key->length) == 0;
}

static struct error *add_string(struct store_writer *writer, const char *bytes, size_t length,
				uint64_t hash)
{
	struct interned added = {.at = writer->bytes.length, .length = length};
	struct store_string row = {
		.id = writer->strings.count + 1,
		.s = {.bytes = bytes, .length = length},
	};

	strbuf_append_bytes(&writer->bytes, bytes, length);
	TRY(strbuf_result(&writer->bytes));
	TRY(vector_push(&writer->strings, added));
	TRY(map_index_add(&writer->string_index, hash, (uint32_t)writer->strings.count - 1));
	return store_put(writer, &row);
}

static struct error *intern(struct store_writer *writer, const char *bytes, size_t length,
			    uint64_t *ret)
{
	struct string_key key = {.writer = writer, .bytes = bytes, .length = length};
	uint64_t hash = map_hash_bytes(bytes, length);
	uint32_t at = map_index_find(&writer->string_index, hash, same_string, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)writer->strings.count;
		TRY(add_string(writer, bytes, length, hash));
	}
	*ret = (uint64_t)at + 1;
	return NULL;
}

struct error *store_intern(struct store_writer *writer, const char *bytes, size_t length,
			   uint64_t *ret)
{
	CLEANUP_STRBUF struct strbuf escaped = STRBUF_EMPTY;

	*ret = 0;
	if (!bytes)
		return NULL;
	if (!store_escape_needed(bytes, length))
		return intern(writer, bytes, length, ret);
	store_escape(&escaped, bytes, length);
	TRY(strbuf_result(&escaped));
	return intern(writer, escaped.text, escaped.length, ret);
}

static struct error *put_meta(struct store_writer *writer, const char *key)
{
	sqlite3_bind_text(writer->insert_meta, 1, key, -1, SQLITE_STATIC);
	return insert(writer, writer->insert_meta);
}

struct error *store_put_meta_text(struct store_writer *writer, const char *key, const char *value)
{
	struct store_text text = {.bytes = value, .length = strlen(value)};

	bind_text(writer->insert_meta, 2, &text);
	return put_meta(writer, key);
}

struct error *store_put_meta_number(struct store_writer *writer, const char *key, uint64_t value)
{
	bind_number(writer->insert_meta, 2, value);
	return put_meta(writer, key);
}
