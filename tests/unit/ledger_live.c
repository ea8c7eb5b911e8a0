/* Live bounds, read while threads allocate and free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "ledger/reader.h"
#include "ledger_writer.h"

#define THREADS 2u
#define BLOCKS  100u /* live at every moment, and one more a thread now and then */
#define SIZE    64u
#define READS   2000u

struct mutator {
	struct mgl_slot *slot;
	struct mgl_row *row;
	_Atomic bool *stop;
};

static void edge(struct mgl_slot *slot)
{
	atomic_fetch_add_explicit(&slot->op, 1, memory_order_release);
}

static void *mutate(void *context)
{
	struct mutator *m = context;

	while (!atomic_load(m->stop)) {
		edge(m->slot);
		m->row->allocs++;
		m->row->bytes_in += SIZE;
		edge(m->slot);
		edge(m->slot);
		m->row->frees++;
		m->row->bytes_out += SIZE;
		edge(m->slot);
	}
	return NULL;
}

struct sums {
	uint64_t high;
	uint64_t low;
	uint64_t high_bytes;
	uint64_t low_bytes;
};

static struct sums sum(const struct ledger_rows *rows)
{
	struct sums sums = {0};

	for (size_t i = 0; i < rows->count; i++) {
		const struct ledger_row *row = &rows->items[i];

		sums.high += row->allocs - row->frees;
		sums.low += row->allocs_low - row->frees_high;
		sums.high_bytes += row->bytes_in - row->bytes_out;
		sums.low_bytes += row->bytes_in_low - row->bytes_out_high;
	}
	return sums;
}

static void test_bounds_hold_the_truth(void **state)
{
	struct writer writer;
	struct mutator mutators[THREADS];
	pthread_t threads[THREADS];
	_Atomic bool stop = false;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/x");

	for (unsigned int i = 0; i < THREADS; i++) {
		uint32_t ref;
		struct mgl_slot *slot = writer_slot(p, "x", &ref);

		mutators[i] = (struct mutator){
			.slot = slot,
			.row = writer_row(p, slot, ref, 0, MGL_API_MALLOC, SIZE, NULL),
			.stop = &stop,
		};
		writer_allocs(mutators[i].row, BLOCKS, SIZE);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, mutate, &mutators[i]), 0);

	for (unsigned int i = 0; i < THREADS; i++)
		while (atomic_load(&mutators[i].slot->op) < 100)
			sched_yield();

	struct ledger_reader *reader = NULL;
	unsigned int bounds = 0;

	assert_null(ledger_reader_open_fd(writer.fd, "test", &reader));
	for (unsigned int i = 0; i < READS; i++) {
		struct ledger_rows rows;

		assert_null(ledger_rows_read(reader, 0, &rows));
		struct sums sums = sum(&rows);

		/* The truth was never below BLOCKS a thread, nor above one more each. */
		assert_true((int64_t)sums.high >= THREADS * BLOCKS);
		assert_true((int64_t)sums.low <= (int64_t)(THREADS * (BLOCKS + 1)));
		assert_true((int64_t)sums.high_bytes >= THREADS * BLOCKS * SIZE);
		assert_true((int64_t)sums.low_bytes <= (int64_t)(THREADS * (BLOCKS + 1) * SIZE));
		if (rows.exact) {
			assert_int_equal(sums.high, sums.low);
			assert_int_equal(sums.high * SIZE, sums.high_bytes);
			assert_in_range(sums.high, THREADS * BLOCKS, THREADS * (BLOCKS + 1));
		}
		bounds += !rows.exact;
		ledger_rows_free(&rows);
	}
	assert_true(bounds > 0);
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	struct ledger_rows rows;

	assert_null(ledger_rows_read(reader, 0, &rows));
	assert_true(rows.exact);
	assert_int_equal(sum(&rows).high, THREADS * BLOCKS);
	ledger_rows_free(&rows);
	ledger_reader_close(reader);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_hold_the_truth),
	};

	return cmocka_run_group_tests_name("ledger-live", tests, NULL, NULL);
}
