/* Profiles that are cut short, damaged, of another version, or made to do harm. */
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store_profile.h"

struct image {
	uint8_t *bytes;
	size_t size;
};

static struct image sample;

static int set_up(void **state)
{
	const char *path = profile_path("sample.mgp");
	struct stat status;
	int fd;

	(void)state;
	profile_write(path);
	fd = open(path, O_RDONLY);
	assert_int_equal(fstat(fd, &status), 0);
	sample.size = (size_t)status.st_size;
	sample.bytes = malloc(sample.size);
	assert_non_null(sample.bytes);
	assert_int_equal(read(fd, sample.bytes, sample.size), sample.size);
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(sample.bytes);
	profile_remove();
	return 0;
}

static const char *write_image(const uint8_t *bytes, size_t size)
{
	const char *path = profile_path("image.mgp");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	return path;
}

#define READ_ALL(reader, type)                                                                 \
	({                                                                                     \
		struct store_cursor *cursor_;                                                  \
		type row_;                                                                     \
		struct error *error_ =                                                         \
			store_cursor_open(reader, STORE_TABLE_OF(&row_), STORE_ALL, &cursor_); \
		if (!error_) {                                                                 \
			while (store_next(cursor_, &row_))                                     \
				;                                                              \
			error_ = store_cursor_close(cursor_);                                  \
		}                                                                              \
		error_;                                                                        \
	})

static struct error *read_strings(struct store_reader *reader)
{
	struct store_text text;

	for (uint64_t id = 1; id < 10; id++)
		TRY(store_string(reader, id, &text));
	return NULL;
}

/* All of it; the first error. */
static struct error *read_everything(const char *path)
{
	struct store_reader *reader;
	struct error *error = store_reader_open(path, &reader);
	struct error *more[] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

	if (error)
		return error;
	more[0] = read_strings(reader);
	more[1] = READ_ALL(reader, struct store_process);
	more[2] = READ_ALL(reader, struct store_api);
	more[3] = READ_ALL(reader, struct store_thread);
	more[4] = READ_ALL(reader, struct store_loss);
	more[5] = READ_ALL(reader, struct store_module);
	more[6] = READ_ALL(reader, struct store_mapping);
	more[7] = READ_ALL(reader, struct store_loc);
	more[8] = READ_ALL(reader, struct store_line);
	more[9] = READ_ALL(reader, struct store_stack);
	more[10] = READ_ALL(reader, struct store_site);
	more[11] = READ_ALL(reader, struct store_site_size);
	more[12] = READ_ALL(reader, struct store_thread_size);
	more[13] = READ_ALL(reader, struct store_site_lifetime);
	more[14] = READ_ALL(reader, struct store_site_thread);
	more[15] = READ_ALL(reader, struct store_snap);
	more[16] = READ_ALL(reader, struct store_series);
	more[17] = READ_ALL(reader, struct store_cohort);
	more[18] = READ_ALL(reader, struct store_block);
	more[19] = READ_ALL(reader, struct store_source);
	store_reader_close(reader);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (error)
			error_free(more[i]);
		else
			error = more[i];
	return error;
}

static void test_whole(void **state)
{
	(void)state;
	assert_null(read_everything(write_image(sample.bytes, sample.size)));
}

static void test_cut_short(void **state)
{
	(void)state;
	for (size_t size = 0; size < sample.size; size += size < 256 ? 1 : 1021) {
		struct error *error = read_everything(write_image(sample.bytes, size));

		assert_non_null(error);
		if (size < 100) {
			assert_int_equal(error->code, ERROR_FORMAT);
		} else {
			assert_int_equal(error->code, ERROR_DAMAGED);
			assert_non_null(strstr(error->message, "cut short"));
			assert_non_null(error->remedy);
		}
		error_free(error);
	}
}

/* Whatever is read from it, it ends; and an error is one that says what to do. */
static void test_flipped(void **state)
{
	uint8_t *bytes = malloc(sample.size);
	uint32_t random = 12345;
	unsigned int refused = 0;

	(void)state;
	assert_non_null(bytes);
	for (unsigned int i = 0; i < 1500; i++) {
		memcpy(bytes, sample.bytes, sample.size);
		for (unsigned int j = 0; j < 1 + i % 4; j++) {
			random = random * 1664525 + 1013904223;
			/* Where something stands; zeros are most of it. */
			size_t at = (random >> 8) % sample.size;

			while (bytes[at] == 0)
				at = (at + 1) % sample.size;
			bytes[at] ^= (uint8_t)(1u << random % 8);
		}
		struct error *error = read_everything(write_image(bytes, sample.size));

		if (!error)
			continue;
		refused++;
		assert_true(error->code == ERROR_DAMAGED || error->code == ERROR_FORMAT ||
			    error->code == ERROR_VERSION);
		assert_true(error->remedy || error->code == ERROR_FORMAT);
		error_free(error);
	}
	assert_true(refused > 100);
	free(bytes);
}

/* The sample, changed by SQL. */
static const char *change(const char *sql)
{
	const char *path = write_image(sample.bytes, sample.size);
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s: %s", sql, message);
	sqlite3_close(db);
	return path;
}

static void test_values(void **state)
{
	static const struct {
		const char *sql;
		const char *words;
	} cases[] = {
		{"UPDATE process SET allocs=-1", "column allocs of table process has a number"},
		{"UPDATE process SET allocs='many'",
		 "column allocs of table process has no number"},
		{"UPDATE process SET allocs=1.5", "has no number"},
		{"UPDATE process SET how='magic'", "column how of table process has a word"},
		{"UPDATE process SET how=1", "a word"},
		{"UPDATE process SET argv='text'", "no bytes"},
		{"UPDATE process SET exe=99999999999", "column exe of table process has a number"},
		{"UPDATE site SET process=NULL", "nothing where there must be a value"},
		{"UPDATE site SET api=256", "column api"},
		{"UPDATE site_size SET class=300", "column class"},
		{"UPDATE line SET depth=70000 WHERE depth=1", "column depth"},
		{"UPDATE loc SET flags=4 WHERE id=1", "column flags"},
		{"UPDATE snap SET why=9 WHERE id=1", "column why"},
		{"UPDATE snap SET process=-1", "column process of table snap"},
		{"UPDATE snap SET process=NULL", "nothing where there must be a value"},
		{"UPDATE process SET tree_peak_bytes=-1", "column tree_peak_bytes"},
		{"UPDATE source SET rank='first'", "column rank of table source has no number"},
		{"UPDATE stack SET parent=3 WHERE id=1", "frames go round"},
		{"UPDATE stack SET parent=1 WHERE id=1", "frames go round"},
		{"UPDATE stack SET parent=-1 WHERE id=1", "column parent"},
		{"UPDATE module SET symbols='some'", "column symbols"},
		{"UPDATE string SET s=x'00ff' WHERE id=1", "no text"},
		{"UPDATE series SET live_bytes=x'00'", "no number"},
		{"UPDATE block SET site=-5", "column site of table block"},
		{"UPDATE cohort SET born=0", "column born"},
		{"DELETE FROM string WHERE id=2", "table string has no row 2"},
		{"DROP TABLE cohort", "it has no table cohort"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		profile_expect(read_everything(change(cases[i].sql)), ERROR_DAMAGED,
			       cases[i].words);
	}
}

/* What a later version adds is none of ours. */
static void test_more_than_known(void **state)
{
	(void)state;
	assert_null(read_everything(change("ALTER TABLE site ADD COLUMN colour TEXT DEFAULT 'red';"
					   "CREATE TABLE smell(site INT)")));
}

static void test_missing_column(void **state)
{
	(void)state;
	profile_expect(read_everything(change("DROP VIEW v_block; DROP VIEW v_site;"
					      "ALTER TABLE site DROP COLUMN peak_bytes")),
		       ERROR_DAMAGED, "peak_bytes");
}

/* One from before the column came. */
static void test_late_column(void **state)
{
	const char *path = change("ALTER TABLE process DROP COLUMN tree_peak_bytes;"
				  "ALTER TABLE process DROP COLUMN inherited_frees;"
				  "ALTER TABLE process DROP COLUMN source; DROP TABLE source");
	struct store_reader *reader;
	struct store_process process;

	(void)state;
	assert_null(read_everything(path));
	assert_null(store_reader_open(path, &reader));
	assert_null(store_get(reader, 1, &process));
	assert_int_equal(process.threads, 2);
	assert_true(process.tree_peak_bytes == STORE_UNKNOWN);
	assert_true(process.inherited_frees == STORE_UNKNOWN);
	assert_int_equal(process.source, 0);
	store_reader_close(reader);
	/* A view in the table's place is not looked at. */
	assert_null(read_everything(change("DROP TABLE source; CREATE VIEW source AS WITH "
					   "RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 "
					   "FROM n) SELECT i id FROM n")));
}

static void test_other_version(void **state)
{
	(void)state;
	profile_expect(read_everything(change("PRAGMA user_version=7;"
					      "UPDATE meta SET value='mallograph 9.1' "
					      "WHERE key='tool'")),
		       ERROR_VERSION,
		       "version 7, written by mallograph 9.1; this mallograph reads "
		       "version 1");
	/* Even where its tables are not ours at all. */
	profile_expect(read_everything(change("PRAGMA user_version=2; DROP TABLE meta")),
		       ERROR_VERSION, "version 2, written by an unknown tool");
}

static void test_not_a_profile(void **state)
{
	static const uint8_t text[200] = "not a database";

	(void)state;
	profile_expect(read_everything(change("PRAGMA application_id=5")), ERROR_FORMAT,
		       "not a mallograph profile");
	profile_expect(read_everything(write_image(text, sizeof(text))), ERROR_FORMAT,
		       "not a mallograph profile");
	profile_expect(read_everything("/nowhere/x.mgp"), ERROR_NOT_FOUND, "cannot open");
	profile_expect(read_everything("/dev/null"), ERROR_FORMAT, "not a file");
}

/* A view in a table's place could compute for ever. */
static void test_view_for_a_table(void **state)
{
	(void)state;
	profile_expect(read_everything(change("DROP TABLE cohort; CREATE VIEW cohort AS "
					      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
					      "SELECT i+1 FROM n) SELECT i snap, i site, i born, "
					      "1 blocks, 1 bytes FROM n")),
		       ERROR_DAMAGED, "it has no table cohort");
}

static void test_not_finished(void **state)
{
	struct store_reader *reader;

	(void)state;
	assert_null(
		store_reader_open(change("UPDATE meta SET value=0 WHERE key='finished'"), &reader));
	assert_false(store_reader_finished(reader));
	store_reader_close(reader);
	assert_null(store_reader_open(change("DELETE FROM meta"), &reader));
	assert_false(store_reader_finished(reader));
	store_reader_close(reader);
}

/* What lies beside the file is not the file's. */
static void test_journal_beside(void **state)
{
	const char *path = write_image(sample.bytes, sample.size);
	char journal[256];

	(void)state;
	for (const char *const *suffix = (const char *const[]){"-journal", "-wal", NULL}; *suffix;
	     suffix++) {
		snprintf(journal, sizeof(journal), "%s%s", path, *suffix);
		int fd = open(journal, O_WRONLY | O_CREAT, 0600);

		assert_int_equal(write(fd, sample.bytes, 4096), 4096);
		close(fd);
	}
	assert_null(read_everything(path));
}

/* An index that says a site is another process's. */
static void test_false_index(void **state)
{
	const char *path = change("PRAGMA writable_schema=ON;"
				  "UPDATE sqlite_schema SET rootpage=(SELECT rootpage FROM "
				  "sqlite_schema WHERE name='loc_key') WHERE name='site_process'");
	struct store_reader *reader;
	struct store_cursor *cursor;
	struct store_site site;

	(void)state;
	assert_null(store_reader_open(path, &reader));
	assert_null(store_cursor_open(reader, STORE_TABLE_SITE, 1, &cursor));
	while (store_next(cursor, &site))
		assert_int_equal(site.process, 1);
	error_free(store_cursor_close(cursor));
	store_reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),           cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_flipped),         cmocka_unit_test(test_values),
		cmocka_unit_test(test_more_than_known), cmocka_unit_test(test_missing_column),
		cmocka_unit_test(test_late_column),     cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_not_a_profile),   cmocka_unit_test(test_view_for_a_table),
		cmocka_unit_test(test_not_finished),    cmocka_unit_test(test_journal_beside),
		cmocka_unit_test(test_false_index),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
