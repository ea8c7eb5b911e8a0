#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store_profile.h"

static struct store_reader *open_sample(const char *name)
{
	const char *path = profile_path(name);
	struct store_reader *reader = NULL;
	struct error *error;

	unlink(path);
	profile_write(path);
	error = store_reader_open(path, &reader);
	if (error)
		fail_msg("%s", error->message);
	return reader;
}

static int tear_down(void **state)
{
	(void)state;
	profile_remove();
	return 0;
}

static void assert_text(struct store_text text, const char *expected)
{
	assert_non_null(text.bytes);
	assert_int_equal(text.length, strlen(expected));
	assert_memory_equal(text.bytes, expected, text.length);
}

static void assert_string(struct store_reader *reader, uint64_t id, const char *expected)
{
	struct store_text text;

	assert_null(store_string(reader, id, &text));
	assert_text(text, expected);
}

/* The only row of a table that has one. */
#define READ_ONE(reader, row)                                                                  \
	do {                                                                                   \
		struct store_cursor *one_;                                                     \
		__typeof__(*(row)) more_;                                                      \
		assert_null(store_cursor_open(reader, STORE_TABLE_OF(row), STORE_ALL, &one_)); \
		assert_true(store_next(one_, row));                                            \
		assert_false(store_next(one_, &more_));                                        \
		assert_null(store_cursor_close(one_));                                         \
	} while (0)

static void test_process(void **state)
{
	struct store_reader *reader = open_sample("process.mgp");
	struct store_cursor *cursor;
	struct store_source source;
	struct store_process p;

	(void)state;
	assert_true(store_reader_finished(reader));
	assert_null(store_get(reader, 1, &p));
	assert_int_equal(p.how, STORE_HOW_ROOT);
	assert_int_equal(p.end_kind, STORE_END_EXIT);
	assert_int_equal(p.end_code, 3);
	assert_int_equal(p.parent, 0);
	assert_int_equal(p.allocs, 12);
	assert_true(p.peak_time == STORE_UNKNOWN);
	assert_true(p.rss_peak == STORE_UNKNOWN);
	assert_int_equal(p.tree_peak_bytes, 850);
	assert_int_equal(p.inherited_frees, 31);
	assert_int_equal(p.source, 1);
	READ_ONE(reader, &source);
	assert_int_equal(source.rank, 3);
	assert_string(reader, source.host, "node");
	assert_int_equal(p.argv.length, 10);
	assert_memory_equal(p.argv.bytes, "sample\0-x", 10);
	assert_string(reader, p.exe, "/bin/sample");

	/* The texts of a cursor's row are there until its next step. */
	assert_null(store_cursor_open(reader, STORE_TABLE_LOSS, 1, &cursor));
	struct store_loss loss;

	assert_true(store_next(cursor, &loss));
	assert_text(loss.kind, "cut_stacks");
	assert_text(loss.detail, "");
	assert_false(store_next(cursor, &loss));
	assert_null(store_cursor_close(cursor));
	store_reader_close(reader);
}

static void test_places(void **state)
{
	struct store_reader *reader = open_sample("places.mgp");
	struct store_module module;
	struct store_mapping mapping;
	struct store_loc loc;
	struct store_stack stack;
	struct store_line line;
	struct store_cursor *cursor;

	(void)state;
	assert_null(store_get(reader, 1, &module));
	assert_int_equal(module.kind, STORE_MODULE_FILE);
	assert_int_equal(module.symbols, STORE_SYMBOLS_FULL);
	assert_text(module.build_id, "0123abcd");
	assert_string(reader, module.debug_file, "/usr/lib/debug/x");
	assert_null(store_get(reader, 2, &module));
	assert_null(module.build_id.bytes);
	assert_string(reader, module.path, "[anonymous]");
	READ_ONE(reader, &mapping);
	assert_true(mapping.unloaded == STORE_UNKNOWN);
	assert_int_equal(mapping.start, 0x400000);
	assert_null(store_get(reader, 2, &loc));
	assert_true(loc.offset == UINT64_C(0xffffffffff600400));
	assert_int_equal(loc.flags, STORE_LOC_EXACT);
	assert_null(store_get(reader, 3, &stack));
	assert_int_equal(stack.loc, 0);
	assert_int_equal(stack.parent, 2);
	assert_null(store_cursor_open(reader, STORE_TABLE_LINE, 1, &cursor));
	assert_true(store_next(cursor, &line));
	assert_string(reader, line.function, "make");
	assert_true(store_next(cursor, &line));
	assert_string(reader, line.function, "main");
	assert_true(line.col == STORE_UNKNOWN);
	assert_false(store_next(cursor, &line));
	assert_null(store_cursor_close(cursor));
	store_reader_close(reader);
}

static void test_sites(void **state)
{
	struct store_reader *reader = open_sample("sites.mgp");
	struct store_site site;
	struct store_site_size size;
	struct store_thread_size thread_size;
	struct store_site_thread site_thread;
	struct store_site_lifetime lifetime;
	struct store_thread thread;
	struct store_api api;

	(void)state;
	READ_ONE(reader, &site);
	assert_int_equal(site.stack, 3);
	assert_int_equal(site.title_depth, 1);
	assert_int_equal(site.heap, 0);
	assert_int_equal(site.peak_bytes, 900);
	READ_ONE(reader, &size);
	assert_int_equal(size.live, 8);
	READ_ONE(reader, &thread_size);
	assert_int_equal(thread_size.live, -4);
	READ_ONE(reader, &site_thread);
	assert_int_equal(site_thread.frees, 4);
	READ_ONE(reader, &lifetime);
	assert_int_equal(lifetime.class, 5);
	READ_ONE(reader, &thread);
	assert_string(reader, thread.name, "sample");
	READ_ONE(reader, &api);
	assert_int_equal(api.bytes, 1200);
	store_reader_close(reader);
}

static void test_time(void **state)
{
	struct store_reader *reader = open_sample("time.mgp");
	struct store_cursor *cursor;
	struct store_snap snap;
	struct store_series series;
	struct store_cohort cohort;
	struct store_block block;

	(void)state;
	assert_null(store_cursor_open(reader, STORE_TABLE_SNAP, 1, &cursor));
	assert_true(store_next(cursor, &snap));
	assert_int_equal(snap.rss, 4096);
	assert_true(snap.swap == STORE_UNKNOWN);
	assert_true(store_next(cursor, &snap));
	assert_int_equal(snap.why, STORE_WHY_END);
	assert_false(store_next(cursor, &snap));
	assert_null(store_cursor_close(cursor));
	assert_null(store_cursor_open(reader, STORE_TABLE_SNAP, STORE_ALL_PROCESSES, &cursor));
	assert_true(store_next(cursor, &snap));
	assert_int_equal(snap.process, STORE_ALL_PROCESSES);
	assert_int_equal(snap.live_bytes, 850);
	assert_false(store_next(cursor, &snap));
	assert_null(store_cursor_close(cursor));
	assert_null(store_cursor_open(reader, STORE_TABLE_SERIES, 1, &cursor));
	assert_true(store_next(cursor, &series));
	assert_true(store_next(cursor, &series));
	assert_int_equal(series.live_bytes, 800);
	assert_false(store_next(cursor, &series));
	assert_null(store_cursor_close(cursor));
	READ_ONE(reader, &cohort);
	assert_int_equal(cohort.born, 1);
	READ_ONE(reader, &block);
	assert_int_equal(block.address, 0x10000000);
	assert_int_equal(block.born, 1500);
	store_reader_close(reader);
}

static void test_nothing_there(void **state)
{
	struct store_reader *reader = open_sample("nothing.mgp");
	struct store_site site;
	struct store_cursor *cursor;
	struct store_text text;

	(void)state;
	profile_expect(store_get(reader, 77, &site), ERROR_DAMAGED, "table site has no row 77");
	assert_null(store_cursor_open(reader, STORE_TABLE_SITE, 2, &cursor));
	assert_false(store_next(cursor, &site));
	assert_null(store_cursor_close(cursor));
	assert_null(store_string(reader, 0, &text));
	assert_null(text.bytes);
	store_reader_close(reader);
}

/* A batch that is not full, one that is, and what begins the next. */
static void test_many_rows(void **state)
{
	const char *path = profile_path("many.mgp");
	struct store_writer *writer;
	struct store_reader *reader;
	struct store_cursor *cursor;
	struct store_stack stack;
	uint64_t count = 0;

	(void)state;
	assert_null(store_writer_open(path, NULL, &writer));
	for (uint64_t i = 1; i <= 1000; i++)
		assert_null(store_put(writer, &((struct store_stack){i, i - 1, i})));
	assert_null(store_writer_finish(writer));
	assert_null(store_reader_open(path, &reader));
	assert_null(store_cursor_open(reader, STORE_TABLE_STACK, STORE_ALL, &cursor));
	while (store_next(cursor, &stack)) {
		assert_int_equal(stack.id, ++count);
		assert_int_equal(stack.loc, count);
	}
	assert_null(store_cursor_close(cursor));
	assert_int_equal(count, 1000);
	store_reader_close(reader);
}

static void test_strings(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *stored;
	} cases[] = {
		{"plain", 5, "plain"},
		{"", 0, ""},
		{"caf\xc3\xa9", 5, "caf\xc3\xa9"},
		{"bad\xff\xfe", 5, "bad\\xff\\xfe"},
		{"a\0b", 3, "a\\x00b"},
		{"C:\\xylo", 7, "C:\\xylo"},
		{"\\x41", 4, "\\x5cx41"},
		{"\xc3", 1, "\\xc3"},
		{"\xed\xa0\x80", 3, "\\xed\\xa0\\x80"},
		{"new\nline\x1b[31m", 13, "new\nline\x1b[31m"},
	};
	const size_t count = sizeof(cases) / sizeof(cases[0]);
	const char *path = profile_path("strings.mgp");
	struct store_writer *writer;
	struct store_reader *reader;
	uint64_t ids[sizeof(cases) / sizeof(cases[0])], again, none;

	(void)state;
	assert_null(store_writer_open(path, NULL, &writer));
	for (size_t i = 0; i < count; i++)
		assert_null(store_intern(writer, cases[i].bytes, cases[i].length, &ids[i]));
	for (size_t i = 0; i < count; i++) {
		assert_null(store_intern(writer, cases[i].bytes, cases[i].length, &again));
		assert_int_equal(again, ids[i]);
	}
	assert_null(store_intern(writer, NULL, 0, &none));
	assert_int_equal(none, 0);
	assert_null(store_writer_finish(writer));
	assert_null(store_reader_open(path, &reader));
	for (size_t i = 0; i < count; i++) {
		struct store_text text;
		char back[64];

		assert_string(reader, ids[i], cases[i].stored);
		assert_null(store_string(reader, ids[i], &text));
		memcpy(back, text.bytes, text.length);
		assert_int_equal(store_unescape(back, text.length), cases[i].length);
		assert_memory_equal(back, cases[i].bytes, cases[i].length);
	}
	store_reader_close(reader);
}

static void test_long_name(void **state)
{
	const char *path = profile_path("long.mgp");
	struct store_writer *writer;
	struct store_reader *reader;
	struct store_text text;
	size_t length = 65536;
	char *name = malloc(length);
	uint64_t id;

	(void)state;
	assert_non_null(name);
	memset(name, 0xfe, length);
	assert_null(store_writer_open(path, NULL, &writer));
	assert_null(store_intern(writer, name, length, &id));
	assert_null(store_put(writer, &((struct store_loss){
					      .process = 1,
					      .kind = {"deepbind", 8},
					      .count = 1,
					      .detail = {name, length},
				      })));
	assert_null(store_writer_finish(writer));
	assert_null(store_reader_open(path, &reader));
	assert_null(store_string(reader, id, &text));
	assert_int_equal(text.length, 4 * length);
	store_reader_close(reader);
	free(name);
}

static void test_meta(void **state)
{
	struct store_reader *reader = open_sample("meta.mgp");
	char *text = NULL;
	uint64_t number = 0;
	bool found;

	(void)state;
	assert_null(store_meta_text(reader, "tool", &text, &found));
	assert_true(found);
	assert_string_equal(text, "mallograph test");
	free(text);
	assert_null(store_meta_number(reader, "start_unix_ns", &number, &found));
	assert_true(found);
	assert_true(number == UINT64_C(1700000000000000000));
	assert_null(store_meta_number(reader, "tool", &number, &found));
	assert_false(found);
	assert_null(store_meta_text(reader, "nobody", &text, &found));
	assert_false(found);
	store_reader_close(reader);
}

static void test_query(void **state)
{
	struct store_reader *reader = open_sample("query.mgp");
	struct store_query *query;

	(void)state;
	assert_null(
		store_query_open(reader, "SELECT stack, 5 five, NULL FROM v_site_stack;", &query));
	assert_int_equal(store_query_columns(query), 3);
	assert_string_equal(store_query_name(query, 1), "five");
	assert_true(store_query_next(query));
	assert_text(
		store_query_text(query, 0),
		"[cut]\n[anonymous]+0xffffffffff600400\nmake (sample.c:12)\nmain (sample.c:40)");
	assert_true(store_query_is_number(query, 1));
	assert_null(store_query_text(query, 2).bytes);
	assert_false(store_query_next(query));
	assert_null(store_query_close(query));

	profile_expect(store_query_open(reader, "SELECT * FROM nowhere", &query), ERROR_USAGE,
		       "no such table");
	profile_expect(store_query_open(reader, "DELETE FROM site", &query), ERROR_USAGE, "read");
	profile_expect(store_query_open(reader, "SELECT 1; SELECT 2", &query), ERROR_USAGE,
		       "one statement");
	profile_expect(store_query_open(reader, " ", &query), ERROR_USAGE, "empty");
	store_reader_close(reader);
}

static void test_questions_that_do(void **state)
{
	static const char *const refused[] = {
		"ATTACH '/tmp/mallograph-attached' AS x",
		"DETACH main",
		"VACUUM INTO '/tmp/mallograph-attached'",
		"INSERT INTO meta VALUES(1, 2)",
		"UPDATE sqlite_master SET sql = ''",
		"DELETE FROM sqlite_master",
		"DROP TABLE site",
		"CREATE TEMP TABLE x(a)",
		"CREATE VIRTUAL TABLE x USING fts5(a)",
		"BEGIN",
		"SAVEPOINT x",
		"REINDEX",
		"ANALYZE",
		"PRAGMA writable_schema=1",
		"PRAGMA journal_mode",
		"PRAGMA temp_store_directory='/tmp'",
		"PRAGMA user_version=7",
		"SELECT load_extension('x')",
		"SELECT writefile('/tmp/mallograph-attached', 'x')",
	};
	static const char *const answered[] = {
		"PRAGMA user_version",
		"SELECT name FROM pragma_table_info('site')",
		"SELECT value FROM json_each('[1]')",
		"WITH RECURSIVE n(x) AS (VALUES(1) UNION SELECT x+1 FROM n WHERE x<9) SELECT x FROM n",
		"EXPLAIN QUERY PLAN SELECT * FROM v_site",
	};
	const char *path = profile_path("questions.mgp");
	struct store_reader *reader;
	struct store_query *query;

	(void)state;
	profile_write(path);
	assert_null(store_reader_open(path, &reader));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct error *error = store_query_open(reader, refused[i], &query);

		if (!error)
			fail_msg("allowed: %s", refused[i]);
		profile_expect(error, ERROR_USAGE, "");
	}
	assert_int_not_equal(access("/tmp/mallograph-attached", F_OK), 0);
	for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++) {
		assert_null(store_query_open(reader, answered[i], &query));
		assert_true(store_query_next(query));
		assert_null(store_query_close(query));
	}
	store_reader_close(reader);
}

static void test_recognised(void **state)
{
	struct store_reader *reader = open_sample("recognised.mgp");
	int fd = open(profile_path("recognised.mgp"), O_RDONLY);

	(void)state;
	assert_true(store_reader_recognises(fd));
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY);
	assert_false(store_reader_recognises(fd));
	close(fd);
	store_reader_close(reader);
}

/* Names that would mean something in a URI. */
static void test_odd_path(void **state)
{
	const char *path = profile_path("a%41?mode=rw#x y.mgp");
	struct store_reader *reader;

	(void)state;
	profile_write(path);
	assert_null(store_reader_open(path, &reader));
	store_reader_close(reader);
}

static void test_aborted(void **state)
{
	const char *path = profile_path("aborted.mgp");
	struct store_writer *writer;
	struct store_reader *reader;

	(void)state;
	assert_null(store_writer_open(path, NULL, &writer));
	profile_put(writer);
	store_writer_abort(writer);
	struct error *error = store_reader_open(path, &reader);

	assert_non_null(error);
	error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_sites),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_many_rows),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_meta),
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_questions_that_do),
		cmocka_unit_test(test_recognised),
		cmocka_unit_test(test_odd_path),
		cmocka_unit_test(test_aborted),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
