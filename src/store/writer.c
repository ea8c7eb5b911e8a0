#include <string.h>

#include "store/writer_internal.h"

#define CACHE_KIB    65536
#define BATCH_ROWS   256
#define FEW          16 /* batches that are not worth a thread */
#define LOW_PRIORITY 19

struct error *store_writer_run(struct store_writer *writer, const char *sql)
{
	if (sqlite3_exec(writer->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	return NULL;
}

struct error *store_writer_prepare(struct store_writer *writer, const char *sql, sqlite3_stmt **ret)
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
	TRY(store_writer_run(writer, settings));
	TRY(store_writer_run(writer, cache));
	TRY(store_writer_run(writer, "BEGIN"));
	TRY(store_writer_run(writer, store_schema));
	TRY(store_writer_prepare(writer, "INSERT OR REPLACE INTO meta(key,value) VALUES(?,?)",
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
	store_queue_stop(writer->queue);
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
		sqlite3_finalize(writer->inserts[i]);
		store_batch_free(writer->batches[i]);
	}
	sqlite3_finalize(writer->insert_meta);
	sqlite3_close(writer->db);
	strbuf_free(&writer->bytes);
	vector_free(&writer->strings);
	map_index_free(&writer->string_index);
	free(writer->name);
	free(writer);
}

struct error *store_writer_step(struct store_writer *writer, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);
	struct error *error =
		code == SQLITE_DONE ? NULL : store_write_failure(writer->db, writer->name);

	sqlite3_reset(statement);
	return error;
}

static struct error *prepare_insert(struct store_writer *writer, enum store_table which)
{
	CLEANUP_STRBUF struct strbuf sql = STRBUF_EMPTY;

	store_rows_append_insert(&sql, &store_tables[which]);
	TRY(strbuf_result(&sql));
	return store_writer_prepare(writer, sql.text, &writer->inserts[which]);
}

/* Of the queue's thread, if there is one. */
static struct error *run_batch(void *context, const struct store_batch *batch)
{
	struct store_writer *writer = context;

	if (!writer->inserts[batch->table])
		TRY(prepare_insert(writer, batch->table));
	writer->rows = (struct store_rows){
		.table = &store_tables[batch->table],
		.items = batch->items,
		.count = batch->count,
	};
	return store_writer_step(writer, writer->inserts[batch->table]);
}

static bool is_text(const struct column *column)
{
	return column->kind == COLUMN_TEXT || column->kind == COLUMN_BLOB;
}

/* The texts of a batch may move while it fills: until then rows have places among them, from 1. */
static struct error *keep_texts(struct store_batch *batch, char *row)
{
	const struct table *table = &store_tables[batch->table];

	for (unsigned int i = 0; i < table->column_count; i++) {
		struct store_text *text = (void *)(row + table->columns[i].offset);

		if (!is_text(&table->columns[i]) || !text->bytes)
			continue;
		uintptr_t place = batch->texts.length + 1;

		strbuf_append_bytes(&batch->texts, text->bytes, text->length);
		TRY(strbuf_result(&batch->texts));
		text->bytes = (const char *)place;
	}
	return NULL;
}

static void place_texts(struct store_batch *batch)
{
	const struct table *table = &store_tables[batch->table];

	for (unsigned int i = 0; i < table->column_count; i++) {
		if (!is_text(&table->columns[i]))
			continue;
		for (unsigned int at = 0; at < batch->count; at++) {
			struct store_text *text = (void *)(batch->items + at * table->row_bytes +
							   table->columns[i].offset);

			if (text->bytes)
				text->bytes = text->length ? batch->texts.text +
								     ((uintptr_t)text->bytes - 1)
							   : "";
		}
	}
}

static struct error *flush(struct store_writer *writer, enum store_table which)
{
	struct store_batch *batch = writer->batches[which];

	if (!batch)
		return NULL;
	writer->batches[which] = NULL;
	place_texts(batch);
	if (++writer->flushed == FEW)
		writer->queue = store_queue_start(run_batch, writer, writer->nice);
	if (writer->queue)
		return store_queue_push(writer->queue, batch);

	struct error *error = run_batch(writer, batch);

	store_batch_free(batch);
	return error;
}

void store_writer_yield(struct store_writer *writer) { writer->nice = LOW_PRIORITY; }

struct error *store_writer_hurry(struct store_writer *writer)
{
	if (!writer->nice)
		return NULL;
	writer->nice = 0;
	/* A priority once lowered cannot be raised again: the next flush starts another thread. */
	if (writer->queue) {
		TRY(store_queue_wait(writer->queue));
		store_queue_stop(writer->queue);
		writer->queue = NULL;
		writer->flushed = FEW - 1;
	}
	return NULL;
}

struct error *store_writer_settle(struct store_writer *writer)
{
	return writer->queue ? store_queue_wait(writer->queue) : NULL;
}

struct error *store_writer_flush(struct store_writer *writer)
{
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
		TRY(flush(writer, (enum store_table)i));
	return store_writer_settle(writer);
}

struct error *store_writer_finish(struct store_writer *writer)
{
	struct error *error = store_writer_flush(writer);

	if (!error)
		error = store_writer_check_alone(writer);
	if (!error)
		error = store_put_meta_number(writer, "finished", 1);
	if (!error)
		error = store_writer_run(writer, "COMMIT");
	if (!error)
		error = store_writer_end_keeping(writer);
	store_writer_abort(writer);
	return error;
}

static struct store_batch *make_batch(enum store_table which)
{
	struct store_batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->table = which;
	batch->items = malloc(BATCH_ROWS * store_tables[which].row_bytes);
	if (!batch->items) {
		free(batch);
		return NULL;
	}
	return batch;
}

struct error *store_writer_put(struct store_writer *writer, enum store_table which, const void *row)
{
	size_t bytes = store_tables[which].row_bytes;

	if (!writer->batches[which])
		writer->batches[which] = make_batch(which);

	struct store_batch *batch = writer->batches[which];

	if (!batch)
		return error_no_memory();
	char *to = batch->items + batch->count * bytes;

	memcpy(to, row, bytes);
	TRY(keep_texts(batch, to));
	return ++batch->count < BATCH_ROWS ? NULL : flush(writer, which);
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
	return store_writer_step(writer, writer->insert_meta);
}

struct error *store_put_meta_text(struct store_writer *writer, const char *key, const char *value)
{
	CLEANUP_STRBUF struct strbuf escaped = STRBUF_EMPTY;

	store_escape(&escaped, value, strlen(value));
	TRY(strbuf_result(&escaped));
	TRY(store_writer_settle(writer));
	sqlite3_bind_text(writer->insert_meta, 2, escaped.text ? escaped.text : "", -1,
			  SQLITE_TRANSIENT);
	return put_meta(writer, key);
}

struct error *store_put_meta_number(struct store_writer *writer, const char *key, uint64_t value)
{
	TRY(store_writer_settle(writer));
	sqlite3_bind_int64(writer->insert_meta, 2, (int64_t)value);
	return put_meta(writer, key);
}
