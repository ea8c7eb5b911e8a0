/* So many rows that another thread inserts them: all arrive, and what fails there is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store_profile.h"

#define MANY 50000u

static struct store_writer *open_writer(const char *path)
{
	struct store_writer *writer;

	assert_null(store_writer_open(path, NULL, &writer));
	return writer;
}

/* Every third text is empty, every fifth none. */
static struct store_text build_id(char *room, size_t size, uint64_t i)
{
	snprintf(room, size, "id of %u", (unsigned int)i);
	if (i % 5 == 0)
		return (struct store_text){0};
	return (struct store_text){room, i % 3 ? strlen(room) : 0};
}

static void test_rows_and_texts(void **state)
{
	const char *path = profile_path("many.mgp");
	struct store_writer *writer = open_writer(path);
	struct store_reader *reader;
	struct store_cursor *cursor;
	struct store_module module;
	uint64_t seen = 0;

	(void)state;
	for (uint64_t i = 1; i <= MANY; i++) {
		char room[32];
		struct store_module row = {
			.id = i,
			.kind = STORE_MODULE_FILE,
			.symbols = STORE_SYMBOLS_NONE,
			.build_id = build_id(room, sizeof(room), i),
		};

		assert_null(store_intern(writer, room, strlen(room), &row.path));
		assert_null(store_put(writer, &row));
		memset(room, 'x', sizeof(room)); /* what a row pointed to is the caller's again */
	}
	assert_null(store_put_meta_number(writer, "between", 7));
	assert_null(store_writer_finish(writer));
	assert_null(store_reader_open(path, &reader));
	assert_null(store_cursor_open(reader, STORE_TABLE_MODULE, STORE_ALL, &cursor));
	while (store_next(cursor, &module)) {
		char room[32];
		struct store_text expected = build_id(room, sizeof(room), ++seen);

		assert_int_equal(module.id, seen);
		assert_int_equal(module.build_id.bytes == NULL, expected.bytes == NULL);
		assert_int_equal(module.build_id.length, expected.length);
		if (expected.length)
			assert_memory_equal(module.build_id.bytes, expected.bytes, expected.length);
	}
	assert_int_equal(seen, MANY);
	assert_null(store_cursor_close(cursor));
	store_reader_close(reader);
	profile_remove();
}

static void test_a_failure_is_told(void **state)
{
	const char *path = profile_path("twice.mgp");
	struct store_writer *writer = open_writer(path);
	struct error *error = NULL;

	(void)state;
	/* The key of a row in the middle was there. */
	for (uint64_t i = 1; i <= MANY && !error; i++)
		error = store_put(writer,
				  &((struct store_loc){i == MANY / 2 ? 1 : i, 1, i * 16, 0}));
	if (error)
		store_writer_abort(writer);
	else
		error = store_writer_finish(writer);
	profile_expect(error, ERROR_DAMAGED, "contradicts itself");
	profile_remove();
}

static void test_giving_up(void **state)
{
	const char *path = profile_path("given-up.mgp");
	struct store_writer *writer = open_writer(path);

	(void)state;
	for (uint64_t i = 1; i <= MANY; i++)
		assert_null(store_put(writer, &((struct store_loc){i, 1, i * 16, 0})));
	store_writer_abort(writer);
	profile_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_and_texts),
		cmocka_unit_test(test_a_failure_is_told),
		cmocka_unit_test(test_giving_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
