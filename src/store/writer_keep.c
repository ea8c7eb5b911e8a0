/* A profile that is kept while it is written, and what is put right in it later. */
#include "store/writer_internal.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#define WORD_BYTES 16
#define LOOKS      100
#define LOOK_US    50000

static struct error *change(struct store_writer *writer, const char *sql, uint64_t first,
			    uint64_t second)
{
	sqlite3_stmt *statement = NULL;

	TRY(store_writer_flush(writer));
	TRY(store_writer_prepare(writer, sql, &statement));
	sqlite3_bind_int64(statement, 1, (int64_t)first);
	if (sqlite3_bind_parameter_count(statement) > 1)
		sqlite3_bind_int64(statement, 2, (int64_t)second);
	struct error *error = store_writer_step(writer, statement);

	sqlite3_finalize(statement);
	return error;
}

static int take_word(void *context, int columns, char **texts, char **names)
{
	(void)names;
	if (columns > 0 && texts[0])
		snprintf(context, WORD_BYTES, "%s", texts[0]);
	return 0;
}

/* SQLite answers with the mode it is in, whether it is the one that was asked for or not. */
static struct error *set_journal(struct store_writer *writer, const char *mode, bool *ret)
{
	char sql[64], word[WORD_BYTES] = "";

	snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s", mode);
	int code = sqlite3_exec(writer->db, sql, take_word, word, NULL);

	if (code != SQLITE_OK && code != SQLITE_BUSY)
		return store_write_failure(writer->db, writer->name);
	*ret = code == SQLITE_OK && strcasecmp(word, mode) == 0;
	return NULL;
}

/* The number changes with what other connections commit, not with what this one does. */
static struct error *read_version(struct store_writer *writer, uint64_t *ret)
{
	char word[WORD_BYTES] = "";

	if (sqlite3_exec(writer->db, "PRAGMA data_version", take_word, word, NULL) != SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	*ret = strtoull(word, NULL, 10);
	return NULL;
}

struct error *store_writer_check_alone(struct store_writer *writer)
{
	uint64_t version = 0;

	if (!writer->kept)
		return NULL;
	TRY(read_version(writer, &version));
	return version == writer->version
		       ? NULL
		       : error_create_path(ERROR_DAMAGED, writer->name,
					   "somebody else wrote into the profile");
}

/* From now on a transaction that is cut short must leave what was there; and others may look.
 * The lock that was held alone is let go of by the next access. */
static struct error *begin_keeping(struct store_writer *writer)
{
	bool done;

	TRY(store_writer_run(writer, "PRAGMA locking_mode=NORMAL; SELECT 1 FROM sqlite_schema"));
	TRY(set_journal(writer, "wal", &done));
	if (!done)
		return error_create(ERROR_SYSTEM, "the profile cannot be kept while it is written");
	TRY(read_version(writer, &writer->version));
	writer->kept = true;
	return NULL;
}

struct error *store_writer_keep(struct store_writer *writer)
{
	TRY(store_writer_flush(writer));
	TRY(store_writer_check_alone(writer));
	TRY(store_writer_run(writer, "COMMIT"));
	if (!writer->kept)
		TRY(begin_keeping(writer));
	return store_writer_run(writer, "BEGIN");
}

/* Everything into the one file. Who looks at it meanwhile is through in a moment. */
struct error *store_writer_end_keeping(struct store_writer *writer)
{
	bool done = !writer->kept;

	for (unsigned int i = 0; i < LOOKS && !done; i++) {
		if (i)
			usleep(LOOK_US);
		TRY(set_journal(writer, "delete", &done));
	}
	return done ? NULL
		    : error_create(ERROR_SYSTEM, "the profile is held open by somebody else");
}

struct error *store_forget_modules(struct store_writer *writer)
{
	TRY(store_writer_flush(writer));
	return store_writer_run(writer, "DELETE FROM module");
}

struct error *store_change_loc(struct store_writer *writer, uint64_t id, uint64_t flags)
{
	return change(writer, "UPDATE loc SET flags=?2 WHERE id=?1", id, flags);
}

struct error *store_put_tree_peak(struct store_writer *writer, uint64_t process, uint64_t bytes)
{
	if (process == STORE_ALL_PROCESSES)
		return change(writer, "UPDATE process SET tree_peak_bytes=?1", bytes, 0);
	return change(writer, "UPDATE process SET tree_peak_bytes=?2 WHERE id=?1", process, bytes);
}

struct titling {
	store_title_of *title_of;
	void *context;
};

static void title(sqlite3_context *call, const struct titling *titling, int argc,
		  sqlite3_value **argv, bool depth)
{
	struct store_title found = {0};

	(void)argc;
	titling->title_of(titling->context, (uint64_t)sqlite3_value_int64(argv[0]), &found);
	if (found.loc)
		sqlite3_result_int64(call, (int64_t)(depth ? found.depth : found.loc));
}

static void title_loc(sqlite3_context *call, int argc, sqlite3_value **argv)
{
	title(call, sqlite3_user_data(call), argc, argv, false);
}

static void title_depth(sqlite3_context *call, int argc, sqlite3_value **argv)
{
	title(call, sqlite3_user_data(call), argc, argv, true);
}

struct error *store_title_sites(struct store_writer *writer, uint64_t last,
				store_title_of *title_of, void *context)
{
	struct titling titling = {title_of, context};

	if (sqlite3_create_function(writer->db, "title_loc", 1, SQLITE_UTF8, &titling, title_loc,
				    NULL, NULL) != SQLITE_OK ||
	    sqlite3_create_function(writer->db, "title_depth", 1, SQLITE_UTF8, &titling,
				    title_depth, NULL, NULL) != SQLITE_OK)
		return store_write_failure(writer->db, writer->name);
	return change(writer,
		      "UPDATE site SET title=title_loc(stack), title_depth=title_depth(stack) "
		      "WHERE id<=?1",
		      last, 0);
}
