/*
 * Reading grows with the ledger and no faster. ledger-scale N multiplies the size; 10 is
 * a million rows and nodes and ten million blocks, and prints what that took.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

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

#define NODES_EACH  100000u
#define BLOCKS_EACH 1000000u
#define DEPTH       30u

static uint32_t scale = 1;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long peak_rss_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss / 1024;
}

/* Chains of DEPTH nodes, a row at each; blocks in turn. */
static void write_ledger(struct writer *writer)
{
	uint32_t nodes = NODES_EACH * scale, slot_ref, parent = 0, row_ref = 0;

	writer_begin(writer, 4096);
	struct writer_process *p = writer_process(writer, MGL_HOW_ROOT, 1, 0, "/bin/x");
	struct mgl_slot *slot = writer_slot(p, "x", &slot_ref);
	uint32_t module = writer_module(p, "/lib/x", 0, 0);
	uint64_t address = 0x10000000;

	for (uint32_t i = 0; i < nodes; i++) {
		parent = writer_node(p, i % DEPTH ? parent : 0, i + 1, module);
		struct mgl_row *row = writer_row(p, slot, slot_ref, parent, MGL_API_MALLOC,
						 16 + i % 1000, &row_ref);

		writer_allocs(row, BLOCKS_EACH / NODES_EACH, 16 + i % 1000);
		for (uint32_t j = 0; j < BLOCKS_EACH / NODES_EACH; j++, address += 64)
			writer_block(p, address, 16 + i % 1000, row_ref, i);
	}
}

struct count {
	const struct ledger_rows *rows;
	uint64_t blocks;
	uint64_t bytes;
};

static struct error *visit(void *context, const struct ledger_block *block)
{
	struct count *count = context;

	if (ledger_rows_find(count->rows, block->row)) {
		count->blocks++;
		count->bytes += block->size;
	}
	return NULL;
}

static void test_scale(void **state)
{
	struct report_options options = {.sites = REPORT_SITES_DEFAULT};
	struct ledger_reader *reader = NULL;
	struct analyze_model *model;
	struct ledger_rows rows;
	struct writer writer;
	FILE *sink = fopen("/dev/null", "w");

	(void)state;
	write_ledger(&writer);
	long mib = peak_rss_mib();
	double start = seconds();

	assert_null(ledger_reader_open_fd(writer.fd, "test", &reader));
	assert_null(ledger_rows_read(reader, 0, &rows));
	struct count count = {.rows = &rows};

	assert_null(ledger_blocks_walk(reader, 0, visit, &count));
	double walked = seconds();

	assert_int_equal(count.blocks, (uint64_t)BLOCKS_EACH * scale);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	model = finished_model(&writer);
	assert_int_equal(model->site_count, NODES_EACH * scale);
	assert_int_equal(model->processes[0].counts.live_bytes, count.bytes);
	assert_null(report_json_print(model, &options, sink));
	double done = seconds();

	print_message(
		"%u rows and nodes, %u blocks: blocks %.2f s, profile and report %.2f s, %ld MiB more\n",
		NODES_EACH * scale, BLOCKS_EACH * scale, walked - start, done - walked,
		peak_rss_mib() - mib);
	assert_true(done - start < 20.0 * scale);
	assert_true(SANITIZED || peak_rss_mib() - mib < (long)(128 * scale));
	analyze_model_free(model);
	fclose(sink);
	writer_end(&writer);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale),
	};

	if (argc > 1)
		scale = (uint32_t)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests_name("ledger-scale", tests, NULL, NULL);
}
