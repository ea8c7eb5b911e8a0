#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/layout.h"

static void test_size_classes_tile_all_sizes(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 255; c++) {
		uint64_t low = mgl_class_low(c), next = mgl_class_low(c + 1);

		assert_int_equal(low + mgl_class_width(c), next);
		assert_int_equal(mgl_size_class(low), c);
		assert_int_equal(mgl_size_class(next - 1), c);
	}
	assert_int_equal(mgl_size_class(UINT64_MAX), 255);
	assert_int_equal(mgl_class_low(255) + (mgl_class_width(255) - 1), UINT64_MAX);
	assert_int_equal(mgl_class_low(MGL_LARGE_CLASS), 32768);
}

static void test_a_shadow_word_keeps_its_parts(void **state)
{
	/* Rows are 128 bytes aligned, so 8 refs: the low three bits of a row are 0. */
	const uint32_t row = (MGL_MAX_RECORD_UNITS << MGL_REF_UNIT_SHIFT) - 8;

	(void)state;
	uint64_t word = mgl_shadow_word(row, 3, 0xfff, 0xffffff);

	assert_int_equal(mgl_shadow_row(word), row);
	assert_int_equal(mgl_shadow_start(word), 3);
	assert_int_equal(mgl_shadow_rest(word), 0xfff);
	assert_int_equal(mgl_shadow_birth(word), 0xffffff);
	word = mgl_shadow_word(8, 0, 0, 0);
	assert_int_equal(mgl_shadow_row(word), 8);
	assert_int_equal(mgl_shadow_start(word) + mgl_shadow_rest(word) + mgl_shadow_birth(word),
			 0);
}

/* The rest of a class in front of MGL_LARGE_CLASS must fit its 12 bits, and no row's
 * word may look like the second word of a large block. */
static void test_small_blocks_fit_one_word(void **state)
{
	(void)state;
	assert_true(mgl_class_width(MGL_LARGE_CLASS - 1) <= 1 << 12);
	for (uint32_t birth = 0; birth < 1 << 24; birth += 4097)
		assert_true((mgl_shadow_word(8, 3, 0xfff, birth) & MGL_SHADOW_TAG) !=
			    MGL_SHADOW_TAG);
}

static void test_births_are_exact_at_first_then_close_and_monotonic(void **state)
{
	uint32_t last = 0;

	(void)state;
	for (uint64_t n = 0; n < 1 << 20; n++)
		assert_int_equal(mgl_birth_number(mgl_birth(n)), n);
	for (uint64_t n = 1 << 20; n < UINT64_C(1) << 50; n += n / 1000 + 1) {
		uint32_t birth = mgl_birth(n);
		uint64_t back = mgl_birth_number(birth);

		assert_true(birth >= last && birth <= 0xffffff);
		assert_true(back <= n && n - back < (n >> 19) + 1);
		last = birth;
	}
	assert_int_equal(mgl_birth(UINT64_MAX), 0xffffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size_classes_tile_all_sizes),
		cmocka_unit_test(test_a_shadow_word_keeps_its_parts),
		cmocka_unit_test(test_small_blocks_fit_one_word),
		cmocka_unit_test(test_births_are_exact_at_first_then_close_and_monotonic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
