#include <string.h>

#include "store/rows.h"

#define CACHE_KIB  65536
#define BATCH_ROWS 256

/* A string that has an id: where it stands among all of them. */
struct interned {
	size_t at;
	size_t length;
};

/* Rows that wait for their insert. */
struct batch {
	sqlite3_stmt *insert;
	char *items;
	unsigned int count;
	unsigned int most;
};

struct store_writer {
	sqlite3 *db;
	char *name;             /* for messages */
	struct store_rows rows; /* of the insert that runs */
	struct batch batches[STORE_TABLE_COUNT];
	sqlite3_stmt *insert_meta;
	struct strbuf bytes; /* of all strings, one after the other */
	VECTOR(struct interned) strings;
	struct map_index string_index;
};

static struct error *run(struct store_writer *writer, const char *sql)
{
	if (sqlite3_exec(writer->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	return NULL;
}

static struct error *prepare(struct store_writer *writer, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v3(writer->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) !=
	    SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	return NULL;
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
	if (store_rows_offer(&writer->rows, writer->db) != SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	TRY(run(writer, settings));
	TRY(run(writer, cache));
	TRY(run(writer, "BEGIN"));
	TRY(run(writer, store_schema));
	TRY(prepare(writer, "INSERT OR REPLACE INTO meta(key,value) VALUES(?,?)",
		    &writer->insert_meta));
	return store_put_meta_number(writer, "finished", 0);
}

struct error *store_writer_open(const char *path, const char *name, struct store_writer **ret)
{
	struct store_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return error_no_memory();
	writer->name = strdup(name ? name : path);

	struct error *error = writer->name ? NULL : error_no_memory();

	if (!error && sqlite3_open_v2(path, &writer->db,
				      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
					      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
				      NULL) != SQLITE_OK)
		error = writer->db ? store_write_failure(writer->db, writer->name)
				   : error_no_memory();
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
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
		sqlite3_finalize(writer->batches[i].insert);
		free(writer->batches[i].items);
	}
	sqlite3_finalize(writer->insert_meta);
	sqlite3_close(writer->db);
	strbuf_free(&writer->bytes);
	vector_free(&writer->strings);
	map_index_free(&writer->string_index);
	free(writer->name);
	free(writer);
}

/* Runs an insert. */
static struct error *insert(struct store_writer *writer, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);
	struct error *error =
		code == SQLITE_DONE ? NULL : store_write_failure(writer->db, writer->name);

	sqlite3_reset(statement);
	return error;
}

static struct error *flush(struct store_writer *writer, enum store_table which)
{
	struct batch *batch = &writer->batches[which];

	if (batch->count == 0)
		return NULL;
	writer->rows = (struct store_rows){
		.table = &store_tables[which],
		.items = batch->items,
		.count = batch->count,
	};
	batch->count = 0;
	return insert(writer, batch->insert);
}

struct error *store_writer_finish(struct store_writer *writer)
{
	struct error *error = NULL;

	for (size_t i = 0; i < STORE_TABLE_COUNT && !error; i++)
		error = flush(writer, (enum store_table)i);
	if (!error)
		error = store_put_meta_number(writer, "finished", 1);
	if (!error)
		error = run(writer, "COMMIT");
	store_writer_abort(writer);
	return error;
}

/* What a text's row points to is not ours to keep. */
static bool has_text(const struct table *table)
{
	for (unsigned int i = 0; i < table->column_count; i++)
		if (table->columns[i].kind == COLUMN_TEXT || table->columns[i].kind == COLUMN_BLOB)
			return true;
	return false;
}

static struct error *begin_batch(struct store_writer *writer, enum store_table which)
{
	const struct table *table = &store_tables[which];
	struct batch *batch = &writer->batches[which];
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;

	store_rows_append_insert(&sql, table);
	TRY(strbuf_result(&sql));
	TRY(prepare(writer, sql.text, &batch->insert));
	batch->most = has_text(table) ? 1 : BATCH_ROWS;
	batch->items = malloc(batch->most * table->row_bytes);
	return batch->items ? NULL : error_no_memory();
}

struct error *store_writer_put(struct store_writer *writer, enum store_table which, const void *row)
{
	struct batch *batch = &writer->batches[which];
	size_t bytes = store_tables[which].row_bytes;

	if (!batch->items)
		TRY(begin_batch(writer, which));
	memcpy(batch->items + batch->count * bytes, row, bytes);
	return ++batch->count < batch->most ? NULL : flush(writer, which);
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

struct error *store_intern(struct store_writer *writer, const char *bytes, size_t length,
			   uint64_t *ret)
{
	struct string_key key = {.writer = writer, .bytes = bytes, .length = length};

	*ret = 0;
	if (!bytes)
		return NULL;
	uint64_t hash = map_hash_bytes(bytes, length);
	uint32_t at = map_index_find(&writer->string_index, hash, same_string, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)writer->strings.count;
		TRY(add_string(writer, bytes, length, hash));
	}
	*ret = (uint64_t)at + 1;
	return NULL;
}

static struct error *put_meta(struct store_writer *writer, const char *key)
{
	sqlite3_bind_text(writer->insert_meta, 1, key, -1, SQLITE_STATIC);
	return insert(writer, writer->insert_meta);
}

struct error *store_put_meta_text(struct store_writer *writer, const char *key, const char *value)
{
	CLEANUP_STRBUF struct strbuf escaped = STRBUF_EMPTY;

	store_escape(&escaped, value, strlen(value));
	TRY(strbuf_result(&escaped));
	sqlite3_bind_text(writer->insert_meta, 2, escaped.text ? escaped.text : "", -1,
			  SQLITE_TRANSIENT);
	return put_meta(writer, key);
}

struct error *store_put_meta_number(struct store_writer *writer, const char *key, uint64_t value)
{
	sqlite3_bind_int64(writer->insert_meta, 2, (int64_t)value);
	return put_meta(writer, key);
}
