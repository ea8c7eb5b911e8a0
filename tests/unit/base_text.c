#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/units.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_sizes_print(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{100352, "98 KiB"},
		{1048575, "1.0 MiB"},
		{168925593, "161.1 MiB"},
		{UINT64_MAX, "16.0 EiB"},
	};
	char buffer[UNITS_BYTES];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(units_format_size(buffer, cases[i].bytes), cases[i].text);
}

static void test_counts_and_times_print(void **state)
{
	char buffer[UNITS_BYTES];

	(void)state;
	assert_string_equal(units_format_count(buffer, 7), "7");
	assert_string_equal(units_format_count(buffer, 1722745), "1,722,745");
	assert_string_equal(units_format_count(buffer, UINT64_MAX), "18,446,744,073,709,551,615");
	assert_string_equal(units_format_short(buffer, 999999), "999,999");
	assert_string_equal(units_format_short(buffer, 1702745), "1.70 M");
	assert_string_equal(units_format_short(buffer, 999999999), "1.00 G");
	assert_string_equal(units_format_short(buffer, UINT64_MAX), "18.4 E");
	assert_string_equal(units_format_duration(buffer, 1500000), "1.5 ms");
	assert_string_equal(units_format_duration(buffer, 9949999), "9.9 ms");
	assert_string_equal(units_format_duration(buffer, 9950000), "10 ms");
	assert_string_equal(units_format_duration(buffer, 99499999), "99 ms");
	assert_string_equal(units_format_duration(buffer, 99500000), "0.10 s");
	assert_string_equal(units_format_duration(buffer, 412345678), "0.41 s");
	assert_string_equal(units_format_duration(buffer, UINT64_C(123000000000)), "2 min 3 s");
	assert_string_equal(units_format_duration(buffer, UINT64_C(3720000000000)), "1 h 2 min");
}

static void assert_size(const char *text, uint64_t bytes)
{
	uint64_t parsed = 0;

	assert_null(units_parse_size(text, &parsed));
	assert_int_equal(parsed, bytes);
}

static void test_sizes_parse(void **state)
{
	static const char *const wrong[] = {"",
					    "-1",
					    "+1",
					    " 1",
					    "1 ",
					    "1Q",
					    ".",
					    "1e3",
					    "0x10",
					    "16777216T",
					    "18446744073709551616",
					    "K"};
	uint64_t parsed;

	(void)state;
	assert_size("4096", 4096);
	assert_size("64M", 64 << 20);
	assert_size("1.5G", UINT64_C(3) << 29);
	assert_size("10kB", 10000);
	assert_size("0.5KiB", 512);
	assert_size("18446744073709551615", UINT64_MAX);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		CLEANUP_ERROR struct error *error = units_parse_size(wrong[i], &parsed);

		if (!error)
			fail_msg("'%s' parsed as a size", wrong[i]);
		assert_int_equal(error->code, ERROR_USAGE);
	}
}

static void test_durations_parse(void **state)
{
	uint64_t ns;

	(void)state;
	assert_null(units_parse_duration("30", &ns));
	assert_int_equal(ns, UINT64_C(30000000000));
	assert_null(units_parse_duration("1.5m", &ns));
	assert_int_equal(ns, UINT64_C(90000000000));
	assert_null(units_parse_duration("500ms", &ns));
	assert_int_equal(ns, 500000000);
	CLEANUP_ERROR struct error *error = units_parse_duration("1d", &ns);

	assert_non_null(error);
	assert_non_null(error->remedy);
}

static void assert_json(const char *bytes, size_t count, const char *expected)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	strbuf_json_string(&buffer, bytes, count);
	assert_string_equal(buffer.text, expected);
}

static void test_json_strings(void **state)
{
	(void)state;
	assert_json("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
	assert_json("\n\0\x7f", 3, "\"\\u000a\\u0000\\u007f\"");
	assert_json("\xc3\xa9", 2, "\"\xc3\xa9\"");
	/* Cut short, overlong, a surrogate, past U+10FFFF: no UTF-8, byte by byte. */
	assert_json("\xc3", 1, "\"\\\\xc3\"");
	assert_json("\xe0\x80\x80", 3, "\"\\\\xe0\\\\x80\\\\x80\"");
	assert_json("\xed\xa0\x80", 3, "\"\\\\xed\\\\xa0\\\\x80\"");
	assert_json("\xf4\x90\x80\x80", 4, "\"\\\\xf4\\\\x90\\\\x80\\\\x80\"");
}

static void test_terminals_are_safe(void **state)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	(void)state;
	/* An escape sequence, a C1 control and a right-to-left override. */
	strbuf_printable(&buffer, "a\n\x1b[2J\xc2\x9b\xe2\x80\xae!", 12);
	assert_string_equal(buffer.text, "a\\n\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae!");
}

static void test_columns(void **state)
{
	const char *text = "a\xe6\xbc\xa2z"; /* the middle one is two columns wide */

	(void)state;
	assert_int_equal(strbuf_columns(text, 5), 4);
	assert_int_equal(strbuf_prefix(text, 5, 2), 1);
	assert_int_equal(strbuf_prefix(text, 5, 3), 4);
}

static void test_a_string_grows(void **state)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	(void)state;
	for (int i = 0; i < 1000; i++)
		strbuf_printf(&buffer, "%03d", i);
	strbuf_fill(&buffer, '.', 3);
	strbuf_append_char(&buffer, '!');
	assert_int_equal(buffer.length, 3004);
	assert_null(strbuf_result(&buffer));
	CLEANUP_FREE char *text = strbuf_take(&buffer);

	assert_int_equal(strlen(text), 3004);
	assert_string_equal(text + 2994, "998999...!");
	CLEANUP_FREE char *empty = strbuf_take(&buffer);

	assert_string_equal(empty, "");
}

static void test_errors_gather_context(void **state)
{
	CLEANUP_ERROR struct error *error =
		error_create_system(ENOENT, "/no\nwhere", "cannot open %s", "it");

	(void)state;
	error = error_context(error, "reading %d", 7);
	error = error_remedy(error, "Try another.");
	assert_int_equal(error->code, ERROR_NOT_FOUND);
	assert_string_equal(error->remedy, "Try another.");
	CLEANUP_FREE char *text = error_text(error);

	assert_string_equal(text,
			    "reading 7: cannot open it: /no\\nwhere: No such file or directory");
	assert_null(error_context(NULL, "nothing"));
}

static void test_log_rules(void **state)
{
	CLEANUP_ERROR struct error *error = NULL;

	(void)state;
	assert_null(log_configure("collect:debug,ledger:none"));
	assert_true(log_enabled("collect", LOG_DEBUG));
	assert_false(log_enabled("ledger", LOG_ERROR));
	assert_true(log_enabled("report", LOG_WARN));
	assert_false(log_enabled("report", LOG_INFO));
	error = log_configure("collect:loud");
	assert_non_null(error);
	assert_null(log_configure(NULL));
	assert_false(log_enabled("collect", LOG_DEBUG));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_print),
		cmocka_unit_test(test_counts_and_times_print),
		cmocka_unit_test(test_sizes_parse),
		cmocka_unit_test(test_durations_parse),
		cmocka_unit_test(test_json_strings),
		cmocka_unit_test(test_terminals_are_safe),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_a_string_grows),
		cmocka_unit_test(test_errors_gather_context),
		cmocka_unit_test(test_log_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
