#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cursor.h"
#include "base/map.h"
#include "base/vector.h"

static void test_vector_grows(void **state)
{
	VECTOR(uint64_t) numbers = VECTOR_EMPTY;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		assert_null(vector_push(&numbers, i * i));
	assert_int_equal(numbers.count, 10000);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(numbers.items[i], i * i);
	vector_free(&numbers);
	assert_null(numbers.items);
}

static void test_vector_refuses_what_no_memory_has(void **state)
{
	VECTOR(uint64_t) numbers = VECTOR_EMPTY;

	(void)state;
	assert_null(vector_push(&numbers, 1));
	assert_ptr_equal(vector_reserve(&numbers, SIZE_MAX), error_no_memory());
	assert_ptr_equal(vector_reserve(&numbers, SIZE_MAX / 8), error_no_memory());
	assert_int_equal(numbers.count, 1);
	assert_int_equal(numbers.items[0], 1);
	vector_free(&numbers);
}

static void test_map_of_integers(void **state)
{
	struct map_u64 map = {0};

	(void)state;
	assert_null(map_u64_find(&map, 0));
	for (uint64_t i = 0; i < 5000; i++)
		assert_null(map_u64_set(&map, i << 32, i));
	for (uint64_t i = 0; i < 5000; i += 2)
		assert_null(map_u64_set(&map, i << 32, i + 1));
	assert_int_equal(map.count, 5000);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(*map_u64_find(&map, i << 32), i % 2 ? i : i + 1);
	assert_null(map_u64_find(&map, 1));
	map_u64_free(&map);
}

static bool is_position(void *context, uint32_t position)
{
	return *(uint32_t *)context == position;
}

static void test_index_tells_equal_hashes_apart(void **state)
{
	struct map_index index = {0};

	(void)state;
	/* All items hash to one of three places. */
	for (uint32_t i = 0; i < 300; i++)
		assert_null(map_index_add(&index, i % 3, i));
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(map_index_find(&index, i % 3, is_position, &i), i);
	uint32_t absent = 300;

	assert_int_equal(map_index_find(&index, 0, is_position, &absent), MAP_NONE);
	map_index_free(&index);
	assert_int_equal(map_index_find(&index, 0, is_position, &absent), MAP_NONE);
}

static void test_hashes_differ(void **state)
{
	static const char zeros[18];

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(zeros); i++)
		assert_true(map_hash_bytes(zeros, i) != map_hash_bytes(zeros, i + 1));
	assert_true(map_hash_bytes("abcdefghi", 9) != map_hash_bytes("abcdefghj", 9));
}

static void test_cursor_stays_in_bounds(void **state)
{
	static const uint8_t bytes[] = {1, 2, 0, 3, 0, 0, 0, 'h', 'i', 0, 'x'};
	struct cursor c = cursor_over(bytes, sizeof(bytes));
	size_t length;

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u16(&c), 2);
	assert_int_equal(cursor_u32(&c), 3);
	assert_string_equal(cursor_string(&c, &length), "hi");
	assert_int_equal(length, 2);
	assert_null(cursor_string(&c, &length)); /* no NUL before the end */
	assert_true(c.failed);
}

static void test_a_failed_cursor_gives_zeros(void **state)
{
	static const uint8_t bytes[] = {0xff, 0xff, 0xff};
	struct cursor c = cursor_over(bytes, sizeof(bytes));
	uint8_t copy[2] = {9, 9};

	(void)state;
	assert_int_equal(cursor_u32(&c), 0);
	assert_int_equal(cursor_u8(&c), 0); /* one would be there, but it failed before */
	assert_false(cursor_copy(&c, copy, 2));
	assert_int_equal(copy[0], 0);

	c = cursor_over(bytes, sizeof(bytes));
	cursor_skip(&c, SIZE_MAX);
	assert_true(c.failed);
	c = cursor_over(bytes, sizeof(bytes));
	cursor_seek(&c, 3);
	assert_false(c.failed);
	assert_int_equal(cursor_left(&c), 0);
	cursor_seek(&c, 4);
	assert_true(c.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vector_grows),
		cmocka_unit_test(test_vector_refuses_what_no_memory_has),
		cmocka_unit_test(test_map_of_integers),
		cmocka_unit_test(test_index_tells_equal_hashes_apart),
		cmocka_unit_test(test_hashes_differ),
		cmocka_unit_test(test_cursor_stays_in_bounds),
		cmocka_unit_test(test_a_failed_cursor_gives_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
