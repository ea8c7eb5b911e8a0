#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/mappings.h"

#define PAGES 300u
#define BASE  UINT64_C(0x10000000)

static struct mgl_mapping entries[MGL_MAPPINGS];
static _Atomic uint32_t used;
static const struct mapping_table table = {entries, &used};

static void reset(void)
{
	memset(entries, 0, sizeof(entries));
	used = 0;
}

static uint64_t live_bytes(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < MGL_MAPPINGS; i++) {
		assert_int_not_equal(entries[i].start, 1);
		sum += entries[i].start ? entries[i].bytes : 0;
	}
	return sum;
}

static bool is_mapped(uint64_t page)
{
	uint64_t at = BASE + page * MGL_PAGE;
	uint32_t found = 0;

	for (uint32_t i = 0; i < MGL_MAPPINGS; i++) {
		if (entries[i].start && at >= entries[i].start &&
		    at < entries[i].start + entries[i].bytes)
			found++;
	}
	assert_true(found <= 1);
	return found;
}

/* A map of pages says what the table must. */
static void test_agrees_with_a_map_of_pages(void **state)
{
	static bool pages[PAGES];
	struct mappings_removed removed;
	unsigned seed = 1;

	(void)state;
	reset();
	memset(pages, 0, sizeof(pages));
	for (int round = 0; round < 3000; round++) {
		uint64_t from = (uint64_t)rand_r(&seed) % PAGES;
		uint64_t n = 1 + (uint64_t)rand_r(&seed) % 20, was = 0;
		bool adds = rand_r(&seed) % 3 == 0;

		n = from + n > PAGES ? PAGES - from : n;
		for (uint64_t i = from; i < from + n; i++) {
			was += pages[i];
			pages[i] = adds;
		}
		mappings_remove(table, BASE + from * MGL_PAGE, n * MGL_PAGE, &removed);
		assert_int_equal(removed.bytes, was * MGL_PAGE);
		assert_int_equal(removed.lost, 0);
		if (adds)
			assert_true(mappings_add(table, BASE + from * MGL_PAGE, n * MGL_PAGE));
		for (uint64_t i = 0; i < PAGES; i++)
			assert_int_equal(is_mapped(i), pages[i]);
	}
}

static void test_what_was_removed_can_be_put_back(void **state)
{
	struct mappings_removed removed;

	(void)state;
	reset();
	assert_true(mappings_add(table, BASE, 10 * MGL_PAGE));
	assert_true(mappings_add(table, BASE + 20 * MGL_PAGE, 10 * MGL_PAGE));
	mappings_remove(table, BASE + 5 * MGL_PAGE, 20 * MGL_PAGE, &removed);
	assert_int_equal(removed.count, 2);
	assert_int_equal(removed.bytes, 10 * MGL_PAGE);
	assert_int_equal(live_bytes(), 10 * MGL_PAGE);
	for (uint32_t i = 0; i < removed.count; i++)
		assert_true(mappings_add(table, removed.pieces[i].start, removed.pieces[i].bytes));
	for (uint64_t i = 0; i < 30; i++)
		assert_int_equal(is_mapped(i), i < 10 || i >= 20);
}

static void test_a_full_table_says_so(void **state)
{
	struct mappings_removed removed;

	(void)state;
	reset();
	for (uint64_t i = 0; i < MGL_MAPPINGS; i++)
		assert_true(mappings_add(table, BASE + 4 * i * MGL_PAGE, 3 * MGL_PAGE));
	assert_false(mappings_add(table, BASE - MGL_PAGE, MGL_PAGE));
	/* A hole in the middle leaves two pieces, one of which finds no entry. */
	mappings_remove(table, BASE + MGL_PAGE, MGL_PAGE, &removed);
	assert_int_equal(removed.lost, 1);
	assert_int_equal(removed.bytes, 2 * MGL_PAGE);
	assert_int_equal(live_bytes(), (3 * MGL_MAPPINGS - 2) * MGL_PAGE);
}

/* Each thread maps and unmaps in a range of its own: none may disturb another's. */
static void *work(void *arg)
{
	uint64_t base = BASE + (uint64_t)(uintptr_t)arg * 1000 * MGL_PAGE;
	struct mappings_removed removed;
	uintptr_t bad = 0;

	for (int round = 0; round < 20000; round++) {
		bad += !mappings_add(table, base, 9 * MGL_PAGE);
		mappings_remove(table, base + 3 * MGL_PAGE, 3 * MGL_PAGE, &removed);
		bad += removed.bytes != 3 * MGL_PAGE;
		mappings_remove(table, base, 9 * MGL_PAGE, &removed);
		bad += removed.bytes != 6 * MGL_PAGE;
	}
	return (void *)bad;
}

static void test_threads_do_not_disturb_each_other(void **state)
{
	pthread_t threads[4];
	void *bad;

	(void)state;
	reset();
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &bad), 0);
		assert_null(bad);
	}
	assert_int_equal(live_bytes(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agrees_with_a_map_of_pages),
		cmocka_unit_test(test_what_was_removed_can_be_put_back),
		cmocka_unit_test(test_a_full_table_says_so),
		cmocka_unit_test(test_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
