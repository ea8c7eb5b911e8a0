/* Ledgers that are not what an agent left: nothing may crash, hang or take much memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "finished.h"
#include "ledger/reader.h"
#include "report/report.h"

/* A sanitizer's own memory says nothing about ours. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static struct error *visit(void *context, const struct ledger_block *block)
{
	*(uint64_t *)context += block->size;
	return NULL;
}

static void read_rows(struct ledger_reader *reader, size_t process)
{
	struct ledger_rows rows;

	assert_null(ledger_rows_read(reader, process, &rows));
	ledger_rows_free(&rows);
}

/* Reads everything, and in every few turns makes a profile of it and prints that; whether
 * there was anything to read. */
static bool read_all(const struct writer *writer, FILE *sink)
{
	const struct report_options options = {.sites = REPORT_SITES_ALL};
	struct ledger_reader *reader = NULL;
	static unsigned int turn;
	struct analyze_model *model;
	uint64_t bytes = 0;
	struct error *error = ledger_reader_open_fd(writer->fd, "test", &reader);

	if (error) {
		assert_true(error->code == ERROR_FORMAT || error->code == ERROR_VERSION ||
			    error->code == ERROR_DAMAGED);
		error_free(error);
		return false;
	}
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++) {
		read_rows(reader, i);
		assert_null(ledger_blocks_walk(reader, i, visit, &bytes));
	}
	ledger_reader_close(reader);
	if (turn++ % 7)
		return true;
	model = finished_model(writer);
	rewind(sink);
	assert_null(report_json_print(model, &options, sink));
	assert_null(report_text_print(model, &options, sink));
	analyze_model_free(model);
	return true;
}

static long peak_rss_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* One bit in every few of what the file holds, each alone. */
static void test_flipped_bits(void **state)
{
	struct writer writer;
	FILE *sink = fopen("/dev/null", "w");
	unsigned int flips = 0, readable = 0;
	long before;

	(void)state;
	assert_non_null(sink);
	writer_sample(&writer);
	read_all(&writer, sink);
	before = peak_rss_kib();
	for (uint64_t at = 0; at < writer.session->next_unit * MGL_UNIT_BYTES; at++) {
		if (at % MGL_UNIT_BYTES >= 3 * MGL_PAGE &&
		    at % MGL_UNIT_BYTES < MGL_UNIT_BYTES - MGL_PAGE) {
			at |= MGL_PAGE - 1; /* nothing but holes and shadow */
			continue;
		}
		if (writer.map[at] == 0 && at % 61)
			continue;
		uint8_t bit = (uint8_t)(1u << (at * 5 + at / 8) % 8);

		writer.map[at] ^= bit;
		readable += read_all(&writer, sink);
		flips++;
		writer.map[at] ^= bit;
	}
	assert_in_range(flips, 1000, 5000);
	assert_true(readable > flips / 2);
	assert_true(SANITIZED || peak_rss_kib() - before < 64 * 1024);
	fclose(sink);
	writer_end(&writer);
}

/* What was not written before a crash, or not copied: zeros from some byte on. */
static void test_lost_tails(void **state)
{
	static uint8_t saved[4 * MGL_PAGE];
	struct writer writer;
	FILE *sink = fopen("/dev/null", "w");

	(void)state;
	assert_non_null(sink);
	writer_sample(&writer);
	for (uint64_t unit = 1; unit < writer.session->next_unit; unit++) {
		uint8_t *start = writer.map + unit * MGL_UNIT_BYTES;

		memcpy(saved, start, sizeof(saved));
		for (size_t at = sizeof(saved); at >= 17; at -= 17) {
			memset(start + at, 0, sizeof(saved) - at);
			assert_true(read_all(&writer, sink));
		}
		memcpy(start, saved, sizeof(saved));
	}
	fclose(sink);
	writer_end(&writer);
}

/* Counts and references that say as much as they can. */
static void test_greedy_values(void **state)
{
	static const uint32_t greedy[] = {UINT32_MAX, UINT32_MAX - 15, 0x7fffffff, 0x80000000,
					  0x20000,    0x1ffff,         1,          4};
	struct writer writer;
	FILE *sink = fopen("/dev/null", "w");
	long before;

	(void)state;
	assert_non_null(sink);
	writer_sample(&writer);
	read_all(&writer, sink);
	before = peak_rss_kib();
	for (uint64_t at = MGL_UNIT_BYTES; at < MGL_UNIT_BYTES + 4096; at += 4) {
		uint32_t *word = (uint32_t *)(writer.map + at);
		uint32_t old = *word;

		*word = greedy[at / 4 % 8];
		read_all(&writer, sink);
		*word = greedy[(at / 4 + 3) % 8];
		read_all(&writer, sink);
		*word = old;
	}
	assert_true(SANITIZED || peak_rss_kib() - before < 64 * 1024);
	fclose(sink);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_lost_tails),
		cmocka_unit_test(test_greedy_values),
	};

	return cmocka_run_group_tests_name("ledger-damage", tests, NULL, NULL);
}
