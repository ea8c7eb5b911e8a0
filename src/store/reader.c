#include "store/store_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What a hostile file may make SQLite do: names are far below, argv is 2 MiB at most. */
#define MAX_VALUE_BYTES (16 << 20)

/* Of the database header, bytes at these places, big-endian. */
#define HEADER_BYTES        100
#define HEADER_MAGIC        "SQLite format 3"
#define HEADER_PAGE_SIZE    16
#define HEADER_PAGES        28
#define HEADER_USER_VERSION 60
#define HEADER_APPLICATION  68

static uint32_t big_endian(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static bool is_profile(const uint8_t header[HEADER_BYTES])
{
	return memcmp(header, HEADER_MAGIC, sizeof(HEADER_MAGIC)) == 0 &&
	       big_endian(header + HEADER_APPLICATION) == STORE_APPLICATION_ID;
}

bool store_reader_recognises(int fd)
{
	uint8_t header[HEADER_BYTES];

	return pread(fd, header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       is_profile(header);
}

/* What can be said before SQLite looks at it. */
static struct error *check_header(const char *path, uint32_t *version)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint8_t header[HEADER_BYTES];
	struct stat status;

	if (fd < 0 || fstat(fd, &status) != 0)
		return error_create_system(errno, path, "cannot open");
	if (!S_ISREG(status.st_mode))
		return error_create_path(ERROR_FORMAT, path, "not a file");
	ssize_t count = pread(fd, header, sizeof(header), 0);

	if (count < 0)
		return error_create_system(errno, path, "cannot read");
	if (count < (ssize_t)sizeof(header) || !is_profile(header))
		return error_create_path(ERROR_FORMAT, path, "not a mallograph profile");
	*version = big_endian(header + HEADER_USER_VERSION);

	uint64_t page = (uint64_t)header[HEADER_PAGE_SIZE] << 8 | header[HEADER_PAGE_SIZE + 1];
	uint64_t bytes = big_endian(header + HEADER_PAGES) * (page == 1 ? 65536 : page);

	if ((uint64_t)status.st_size < bytes)
		return store_damaged(path, "it is cut short: %llu of %llu bytes are there",
				     (unsigned long long)status.st_size, (unsigned long long)bytes);
	return NULL;
}

struct error *store_prepare(struct store_reader *reader, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v2(reader->db, sql, -1, ret, NULL) != SQLITE_OK)
		return store_read_failure(reader->db, reader->path);
	return NULL;
}

static struct error *open_database(struct store_reader *reader)
{
	CLEANUP_STRBUF struct strbuf uri = STRBUF_EMPTY;

	strbuf_append(&uri, "file:");
	if (reader->path[0] != '/')
		strbuf_append(&uri, "./");
	for (const char *c = reader->path; *c; c++)
		if (strchr("%?#", *c))
			strbuf_printf(&uri, "%%%02x", (unsigned char)*c);
		else
			strbuf_append_char(&uri, *c);
	/* Immutable: a journal that lies beside the file is not the file's. */
	strbuf_append(&uri, reader->kept ? "?mode=rw" : "?mode=ro&immutable=1");
	TRY(strbuf_result(&uri));
	if (sqlite3_open_v2(uri.text, &reader->db,
			    (reader->kept ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
				    SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
				    SQLITE_OPEN_PRIVATECACHE,
			    NULL) != SQLITE_OK)
		return reader->db ? store_read_failure(reader->db, reader->path)
				  : error_no_memory();
	sqlite3_limit(reader->db, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
	sqlite3_limit(reader->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(reader->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(reader->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(reader->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	if (sqlite3_exec(reader->db, "PRAGMA cell_size_check=ON", NULL, NULL, NULL) != SQLITE_OK ||
	    (reader->kept && sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK))
		return store_read_failure(reader->db, reader->path);
	sqlite3_set_authorizer(reader->db, store_authorize, NULL);
	return NULL;
}

static struct error *refuse_version(struct store_reader *reader, uint32_t version)
{
	CLEANUP_FREE char *tool = NULL;
	bool found = false;
	CLEANUP_ERROR struct error *error = store_meta_text(reader, "tool", &tool, &found);

	return error_remedy(error_create_path(ERROR_VERSION, reader->path,
					      "a profile of version %u, written by %s; this "
					      "mallograph reads version %u",
					      version, found && !error ? tool : "an unknown tool",
					      STORE_VERSION),
			    "Read it with the mallograph that wrote it.");
}

/* A view or a virtual table in a table's place would run what the file's maker wants. */
static struct error *check_tables(struct store_reader *reader)
{
	sqlite3_stmt *statement = NULL;
	struct error *error = store_prepare(
		reader, "SELECT 1 FROM sqlite_schema WHERE type='table' AND name=? AND rootpage>0",
		&statement);

	for (size_t i = 0; i < STORE_TABLE_COUNT && !error; i++) {
		sqlite3_bind_text(statement, 1, store_tables[i].name, -1, SQLITE_STATIC);
		int code = sqlite3_step(statement);

		if (code == SQLITE_DONE && store_tables[i].is_late)
			reader->is_absent[i] = true;
		else if (code == SQLITE_DONE)
			error = store_damaged(reader->path, "it has no table %s",
					      store_tables[i].name);
		else if (code != SQLITE_ROW)
			error = store_read_failure(reader->db, reader->path);
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	return error;
}

static struct error *find_late_columns(struct store_reader *reader)
{
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
		for (unsigned int at = 0; at < store_tables[i].column_count; at++) {
			const struct column *column = &store_tables[i].columns[at];

			if (!column->is_late || reader->is_absent[i])
				continue;
			int code = sqlite3_table_column_metadata(reader->db, "main",
								 store_tables[i].name, column->name,
								 NULL, NULL, NULL, NULL, NULL);

			if (code == SQLITE_ERROR)
				reader->lacks[i] |= UINT64_C(1) << at;
			else if (code != SQLITE_OK)
				return store_read_failure(reader->db, reader->path);
		}
	return NULL;
}

static struct error *open_profile(struct store_reader *reader)
{
	uint32_t version = 0;
	uint64_t finished = 0;
	bool found;

	TRY(check_header(reader->path, &version));
	TRY(open_database(reader));
	if (version != STORE_VERSION)
		return refuse_version(reader, version);
	TRY(check_tables(reader));
	TRY(find_late_columns(reader));
	TRY(store_meta_number(reader, "finished", &finished, &found));
	reader->finished = found && finished == 1;
	return NULL;
}

static struct error *open_reader(const char *path, bool kept, struct store_reader **ret)
{
	struct store_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return error_no_memory();
	reader->kept = kept;
	reader->path = strdup(path);

	struct error *error = reader->path ? open_profile(reader) : error_no_memory();

	if (error) {
		store_reader_close(reader);
		return error;
	}
	*ret = reader;
	return NULL;
}

struct error *store_reader_open(const char *path, struct store_reader **ret)
{
	return open_reader(path, false, ret);
}

struct error *store_reader_open_kept(const char *path, struct store_reader **ret)
{
	return open_reader(path, true, ret);
}

void store_reader_close(struct store_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
		sqlite3_finalize(reader->by_id[i]);
	sqlite3_close(reader->db);
	for (size_t i = 0; i < reader->strings.count; i++)
		free((char *)(uintptr_t)reader->strings.items[i].bytes);
	vector_free(&reader->strings);
	map_u64_free(&reader->string_at);
	free(reader->path);
	free(reader);
}

bool store_reader_finished(const struct store_reader *reader) { return reader->finished; }

/* The statement stands on the value, or is NULL where there is none. */
static struct error *find_meta(struct store_reader *reader, const char *key, sqlite3_stmt **ret)
{
	TRY(store_prepare(reader, "SELECT value FROM meta WHERE key=?", ret));
	sqlite3_bind_text(*ret, 1, key, -1, SQLITE_STATIC);

	int code = sqlite3_step(*ret);

	if (code == SQLITE_ROW)
		return NULL;
	sqlite3_finalize(*ret);
	*ret = NULL;
	return code == SQLITE_DONE ? NULL : store_read_failure(reader->db, reader->path);
}

struct error *store_meta_text(struct store_reader *reader, const char *key, char **ret, bool *found)
{
	sqlite3_stmt *statement = NULL;

	*found = false;
	TRY(find_meta(reader, key, &statement));
	if (statement && sqlite3_column_type(statement, 0) == SQLITE_TEXT) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		*ret = text ? strdup(text) : NULL;
		*found = *ret != NULL;
		if (!*found) {
			sqlite3_finalize(statement);
			return error_no_memory();
		}
	}
	sqlite3_finalize(statement);
	return NULL;
}

struct error *store_meta_number(struct store_reader *reader, const char *key, uint64_t *ret,
				bool *found)
{
	sqlite3_stmt *statement = NULL;

	*found = false;
	TRY(find_meta(reader, key, &statement));
	if (statement && sqlite3_column_type(statement, 0) == SQLITE_INTEGER) {
		int64_t value = sqlite3_column_int64(statement, 0);

		*found = value >= 0;
		*ret = (uint64_t)value;
	}
	sqlite3_finalize(statement);
	return NULL;
}
