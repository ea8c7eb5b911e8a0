#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/reader.h"
#include "ledger_writer.h"

static struct ledger_reader *open_writer(const struct writer *writer)
{
	struct ledger_reader *reader = NULL;

	assert_null(ledger_reader_open_fd(writer->fd, "test", &reader));
	return reader;
}

/* The refusal's code and words; the error is freed. */
static void assert_refused(const struct writer *writer, enum error_code code, const char *words)
{
	struct ledger_reader *reader = NULL;
	struct error *error = ledger_reader_open_fd(writer->fd, "test", &reader);

	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (!strstr(error->message, words))
		fail_msg("'%s' does not say '%s'", error->message, words);
	error_free(error);
}

static void test_processes(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct ledger_reader *reader = open_writer(&writer);

	assert_int_equal(ledger_reader_process_count(reader), 2);
	const struct ledger_process *p = ledger_reader_process(reader, 0);

	assert_int_equal(p->pid, 4711);
	assert_int_equal(p->damage, 0);
	assert_string_equal(p->exe.bytes, "/bin/sample");
	assert_int_equal(p->argv.length, sizeof("sample\0-x\0two words"));
	assert_memory_equal(p->argv.bytes, "sample\0-x\0two words", p->argv.length);
	assert_int_equal(p->slot_count, 2);
	assert_string_equal(p->slots[0].name, "sample");
	assert_string_equal(p->slots[1].name, "worker");
	assert_int_equal(p->slots[0].calls[MGL_API_MALLOC].failed, 2);
	assert_int_equal(p->module_count, 5);
	assert_string_equal(p->modules[1].path.bytes, "/bin/sample");
	assert_string_equal(p->modules[2].path.bytes, "/lib/libsample.so.1");
	assert_int_equal(p->modules[2].bias, 0x7f0000000000);
	assert_int_equal(p->losses[MGL_LOSS_DEEPBIND].count, 2);
	assert_string_equal(p->losses[MGL_LOSS_DEEPBIND].detail.bytes, "/lib/deep.so");
	assert_int_equal(p->end_kind, MGL_END_EXIT);
	assert_int_equal(p->end_code, 3);
	assert_int_equal(ledger_reader_process(reader, 1)->parent, 1);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_time(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct ledger_reader *reader = open_writer(&writer);
	const struct ledger_process *p = ledger_reader_process(reader, 0);

	assert_int_equal(ledger_time_of(p, 10), p->start_ns + 1000000);
	assert_int_equal(ledger_time_of(p, 19), p->start_ns + 1000000);
	assert_int_equal(ledger_time_of(p, 5), p->start_ns);
	assert_int_equal(ledger_time_of(p, 1000), p->start_ns + 2000000);
	assert_int_equal(ledger_time_of(p, 0), 0);
	assert_int_equal(ledger_time_of(ledger_reader_process(reader, 1), 5), 0);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_time_table_drops_what_is_out_of_order(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct writer_process *p = &writer.processes[0];

	for (uint64_t i = 3; i <= 1000; i++)
		writer_time(p, i * 10, p->header->start_ns + i * 1000000);
	writer_time(p, 500, p->header->start_ns + UINT64_C(2000000000));
	writer_time(p, 20000, p->header->start_ns + UINT64_C(11000000000));
	struct ledger_reader *reader = open_writer(&writer);
	const struct ledger_process *read = ledger_reader_process(reader, 0);

	assert_int_equal(read->time_count, 1001);
	assert_int_equal(ledger_time_of(read, 7775), read->start_ns + UINT64_C(777000000));
	/* A thinned table: between its entries time is taken to be even. */
	assert_int_equal(ledger_time_of(read, 15000), read->start_ns + UINT64_C(6000000000));
	assert_int_equal(ledger_time_of(read, 20001), read->start_ns + UINT64_C(11000000000));
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_rows(void **state)
{
	struct writer writer;
	struct ledger_rows rows;
	uint64_t allocs = 0;
	int64_t peak = 0;

	(void)state;
	writer_sample(&writer);
	struct ledger_reader *reader = open_writer(&writer);

	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_int_equal(rows.count, 6);
	assert_true(rows.exact);
	for (size_t i = 0; i < rows.count; i++) {
		allocs += rows.items[i].allocs;
		peak += rows.items[i].peak_bytes;
		assert_ptr_equal(ledger_rows_find(&rows, rows.items[i].ref), &rows.items[i]);
		assert_int_equal(rows.items[i].allocs, rows.items[i].allocs_low);
		assert_int_equal(rows.items[i].frees, rows.items[i].frees_high);
	}
	assert_int_equal(allocs, 17);
	assert_int_equal(peak, 800 + 4200);
	assert_null(ledger_rows_find(&rows, rows.items[0].ref + 1));
	assert_null(ledger_rows_find(&rows, UINT32_MAX));
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

struct found {
	struct ledger_block blocks[16];
	size_t count;
};

static struct error *collect_block(void *context, const struct ledger_block *block)
{
	struct found *found = context;

	assert_true(found->count < 16);
	found->blocks[found->count++] = *block;
	return NULL;
}

static void test_blocks(void **state)
{
	struct found found = {0};
	struct writer writer;
	struct ledger_rows rows;

	(void)state;
	writer_sample(&writer);
	struct ledger_reader *reader = open_writer(&writer);

	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_null(ledger_blocks_walk(reader, 0, collect_block, &found));
	assert_int_equal(found.count, 8);
	assert_int_equal(found.blocks[5].address, 0x10000280);
	assert_int_equal(found.blocks[5].size, 100);
	assert_int_equal(found.blocks[5].number, 6);
	assert_int_equal(ledger_rows_find(&rows, found.blocks[5].row)->api, MGL_API_MALLOC);
	assert_int_equal(found.blocks[6].size, 4200);
	/* Its second word stands in the next chunk. */
	assert_int_equal(found.blocks[7].address, 0x10003ff0);
	assert_int_equal(found.blocks[7].size, 50000);
	assert_in_range(found.blocks[7].number, 2000000 - 4, 2000000);
	assert_int_equal(ledger_reader_process(reader, 0)->damage, 0);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_huge_block(void **state)
{
	struct found found = {0};
	struct writer writer;
	uint64_t size = UINT64_C(0x7234567890123);
	uint32_t slot_ref, row_ref;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/x");
	struct mgl_slot *slot = writer_slot(p, "x", &slot_ref);
	struct mgl_row *row = writer_row(p, slot, slot_ref, 0, MGL_API_MALLOC, size, &row_ref);

	writer_allocs(row, 1, size);
	writer_block(p, 0x7f0012345010, size, row_ref, 77);
	struct ledger_reader *reader = open_writer(&writer);

	assert_null(ledger_blocks_walk(reader, 0, collect_block, &found));
	assert_int_equal(found.count, 1);
	assert_int_equal(found.blocks[0].address, 0x7f0012345010);
	assert_int_equal(found.blocks[0].size, size);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_refusals(void **state)
{
	struct ledger_reader *reader = NULL;
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	writer.session->magic ^= 1;
	assert_refused(&writer, ERROR_FORMAT, "not a mallograph ledger");
	assert_false(ledger_reader_recognises(writer.fd));
	writer.session->magic ^= 1;
	assert_true(ledger_reader_recognises(writer.fd));
	writer.session->layout_version = MGL_LAYOUT_VERSION + 1;
	assert_refused(&writer, ERROR_VERSION, "mallograph test");
	writer.session->layout_version = MGL_LAYOUT_VERSION;
	writer.session->unit_bytes = 4096;
	assert_refused(&writer, ERROR_DAMAGED, "header");
	writer_end(&writer);

	CLEANUP_ERROR struct error *none = ledger_reader_open("/nonexistent.mgl", &reader);

	assert_int_equal(none->code, ERROR_NOT_FOUND);
	CLEANUP_ERROR struct error *directory = ledger_reader_open("/", &reader);

	assert_int_equal(directory->code, ERROR_FORMAT);
	CLEANUP_ERROR struct error *device = ledger_reader_open("/dev/null", &reader);

	assert_int_equal(device->code, ERROR_FORMAT);
}

static void test_cut_short(void **state)
{
	struct writer writer;
	uint64_t used;

	(void)state;
	writer_sample(&writer);
	used = writer.session->next_unit * MGL_UNIT_BYTES;
	assert_int_equal(ftruncate(writer.fd, (off_t)used), 0);
	ledger_reader_close(open_writer(&writer));
	for (uint64_t size = used - 1; size > used - 5000; size -= 101) {
		assert_int_equal(ftruncate(writer.fd, (off_t)size), 0);
		assert_refused(&writer, ERROR_DAMAGED, "cut short");
	}
	for (off_t size = 400; size >= 0; size--) {
		assert_int_equal(ftruncate(writer.fd, size), 0);
		if (size < (off_t)offsetof(struct mgl_session, flags))
			assert_refused(&writer, ERROR_FORMAT, "not a mallograph ledger");
		else
			assert_refused(&writer, ERROR_DAMAGED, "cut short");
	}
	writer_end(&writer);
}

static void test_cut_short_while_open(void **state)
{
	struct writer writer;
	struct ledger_rows rows;

	(void)state;
	writer_sample(&writer);
	struct ledger_reader *reader = open_writer(&writer);
	struct ledger_reader *other = open_writer(&writer);

	assert_int_equal(ftruncate(writer.fd, 8192), 0);
	struct error *error = ledger_rows_read(reader, 0, &rows);

	assert_non_null(error);
	assert_int_equal(error->code, ERROR_DAMAGED);
	error_free(error);
	assert_null(ledger_reader_check(other));
	ledger_reader_close(reader);
	ledger_reader_close(other);
	writer_end(&writer);
}

/* Reading must not make a sparse file's pages. */
static void test_holes_stay_holes(void **state)
{
	struct writer writer;
	struct ledger_rows rows;
	struct found found = {0};
	struct stat before, after;

	(void)state;
	writer_sample(&writer);
	writer.session->next_unit = 16;
	/* Refs into holes: a module whose name is not there, and a table of mappings. */
	((struct mgl_module *)(writer.map + MGL_UNIT_BYTES +
			       (uint64_t)writer.processes[0].header->modules * MGL_REF_BYTES))
		->path = 0x10000;
	writer.processes[0].header->mappings = 0x8000;
	assert_int_equal(fstat(writer.fd, &before), 0);
	struct ledger_reader *reader = open_writer(&writer);

	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_null(ledger_blocks_walk(reader, 0, collect_block, &found));
	assert_int_equal(fstat(writer.fd, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_int_equal(ledger_reader_process(reader, 0)->mapping_count, 0);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_unit_that_nobody_finished(void **state)
{
	struct writer writer;

	(void)state;
	writer_begin(&writer, 16);
	writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/a");
	writer.session->next_unit += 3; /* holes */
	struct writer_process *p = writer_process(&writer, MGL_HOW_FORK, 2, 1, "/bin/b");

	writer_process(&writer, MGL_HOW_FORK, 3, 1, "/bin/c");
	p->header->magic = 0; /* died before its header was whole */
	struct ledger_reader *reader = open_writer(&writer);

	assert_int_equal(ledger_reader_process_count(reader), 2);
	assert_int_equal(ledger_reader_process(reader, 1)->pid, 3);
	assert_int_equal(ledger_reader_session(reader)->missed, 1);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_bounds_while_calls_are_under_way(void **state)
{
	struct writer writer;
	struct ledger_rows rows;
	uint32_t ref;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/a");
	struct mgl_slot *slot = writer_slot(p, "a", &ref);

	writer_allocs(writer_row(p, slot, ref, 0, MGL_API_MALLOC, 10, NULL), 7, 10);
	slot->op = 3;
	struct ledger_reader *reader = open_writer(&writer);

	assert_true(ledger_reader_process(reader, 0)->slots[0].unfinished);
	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_false(rows.exact);
	assert_int_equal(rows.items[0].allocs, 7);
	assert_int_equal(rows.items[0].allocs_low, 7);
	ledger_rows_free(&rows);

	/* A thread, a row and a block that came after the file was opened. */
	slot->op = 4;
	struct mgl_slot *later = writer_slot(p, "b", &ref);

	writer_allocs(writer_row(p, later, ref, 0, MGL_API_MALLOC, 10, NULL), 2, 10);
	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_true(rows.exact);
	assert_int_equal(rows.count, 2);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_cycles_end(void **state)
{
	struct writer writer;
	struct ledger_rows rows;

	(void)state;
	writer_sample(&writer);
	struct writer_process *p = &writer.processes[0];
	struct mgl_slot *slot =
		(struct mgl_slot *)(p->base + (uint64_t)p->header->slots * MGL_REF_BYTES);
	struct mgl_row *row = (struct mgl_row *)(p->base + (uint64_t)slot->rows * MGL_REF_BYTES);
	struct mgl_module *module =
		(struct mgl_module *)(p->base + (uint64_t)p->header->modules * MGL_REF_BYTES);

	slot->next = p->header->slots;
	row->next = slot->rows;
	module->next = p->header->modules;
	struct ledger_reader *reader = open_writer(&writer);

	assert_int_equal(ledger_reader_process(reader, 0)->damage, 2);
	assert_int_equal(ledger_reader_process(reader, 0)->slot_count, 1);
	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_int_equal(rows.count, 1);
	assert_int_equal(ledger_reader_process(reader, 0)->damage, 3);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_time_table_drops_what_is_out_of_order),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_huge_block),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_cut_short_while_open),
		cmocka_unit_test(test_holes_stay_holes),
		cmocka_unit_test(test_unit_that_nobody_finished),
		cmocka_unit_test(test_bounds_while_calls_are_under_way),
		cmocka_unit_test(test_cycles_end),
	};

	return cmocka_run_group_tests_name("ledger-reader", tests, NULL, NULL);
}
