/* Output put together from pieces: order, sizes, slow readers, streams in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "report/gather.h"

/* Pieces of every size around the limits, and the same bytes in one string. */
static void put_all(struct report_gather *gather, struct strbuf *expected)
{
	static char large[3 * REPORT_GATHER_BYTES];
	const size_t sizes[] = {0,
				1,
				100,
				REPORT_GATHER_BYTES - 1,
				REPORT_GATHER_BYTES,
				REPORT_GATHER_BYTES + 1,
				sizeof(large)};

	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)('a' + i % 23);
	for (unsigned int i = 0; i < 3 * REPORT_GATHER_PIECES; i++) {
		char line[32];
		size_t length = (size_t)snprintf(line, sizeof(line), "line %u\n", i);

		if (i % 3 == 0)
			assert_null(report_gather_borrow(gather, large + i, 5));
		assert_null(report_gather_copy(gather, line, length));
		strbuf_append_bytes(expected, large + i, i % 3 == 0 ? 5 : 0);
		strbuf_append_bytes(expected, line, length);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		assert_null(report_gather_copy(gather, large, sizes[i]));
		assert_null(report_gather_borrow(gather, large + 1, sizes[i] ? sizes[i] - 1 : 0));
		strbuf_append_bytes(expected, large, sizes[i]);
		strbuf_append_bytes(expected, large + 1, sizes[i] ? sizes[i] - 1 : 0);
	}
	assert_null(report_gather_flush(gather));
	assert_false(expected->failed);
}

static void test_stream_in_memory(void **state)
{
	struct report_gather *gather = calloc(1, sizeof(*gather));
	struct strbuf expected = STRBUF_EMPTY;
	char *text;
	size_t length;

	(void)state;
	assert_non_null(gather);
	gather->out = open_memstream(&text, &length);
	assert_non_null(gather->out);
	put_all(gather, &expected);
	fclose(gather->out);
	assert_int_equal(length, expected.length);
	assert_memory_equal(text, expected.text, length);
	strbuf_free(&expected);
	free(text);
	free(gather);
}

/* A pipe takes less at a time than is written. */
static void test_pipe(void **state)
{
	struct report_gather *gather = calloc(1, sizeof(*gather));
	struct strbuf expected = STRBUF_EMPTY, got = STRBUF_EMPTY;
	int ends[2], status;
	char bytes[977];
	ssize_t count;

	(void)state;
	assert_non_null(gather);
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		close(ends[0]);
		gather->out = fdopen(ends[1], "w");
		fputs("before\n", gather->out);
		put_all(gather, &expected);
		fputs("after\n", gather->out);
		_exit(fclose(gather->out) == 0 ? 0 : 1);
	}
	close(ends[1]);
	while ((count = read(ends[0], bytes, sizeof(bytes))) > 0)
		strbuf_append_bytes(&got, bytes, (size_t)count);
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);

	strbuf_append(&expected, "before\n");
	gather->out = fopen("/dev/null", "w");
	put_all(gather, &expected);
	fclose(gather->out);
	strbuf_append(&expected, "after\n");
	assert_int_equal(got.length, expected.length);
	assert_memory_equal(got.text, expected.text, got.length);
	strbuf_free(&expected);
	strbuf_free(&got);
	free(gather);
}

static void test_full_disk(void **state)
{
	struct report_gather *gather = calloc(1, sizeof(*gather));

	(void)state;
	assert_non_null(gather);
	gather->out = fopen("/dev/full", "w");
	assert_non_null(gather->out);
	assert_null(report_gather_copy(gather, "x", 1));
	struct error *error = report_gather_flush(gather);

	assert_non_null(error);
	error_free(error);
	fclose(gather->out);
	free(gather);
}

static void test_numbers(void **state)
{
	static const uint64_t numbers[] = {0,          1,          9,    10,    15,
					   16,         255,        256,  12345, 0xfffffffe,
					   1ull << 32, 1ull << 60, 9999, 1000,  UINT64_MAX};
	char text[40], expected[40];

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		*report_put_decimal(text, numbers[i]) = '\0';
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)numbers[i]);
		assert_string_equal(text, expected);
		*report_put_hex(text, numbers[i]) = '\0';
		snprintf(expected, sizeof(expected), "%llx", (unsigned long long)numbers[i]);
		assert_string_equal(text, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream_in_memory),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
