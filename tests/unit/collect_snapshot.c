/* Snapshots of a ledger written by hand, of a process that is this one. */
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

#include "collect/place.h"
#include "collect/resident.h"
#include "collect/snapshot_internal.h"
#include "ledger_writer.h"

struct live {
	struct writer writer;
	struct writer_process *process;
	struct mgl_slot *slot;
	uint32_t slot_ref;
	uint32_t node;
	struct collect_snapshots *snapshots;
};

static void begin(struct live *live, uint32_t max_snapshots, uint64_t max_changes)
{
	writer_begin(&live->writer, 64);
	live->process = writer_process(&live->writer, MGL_HOW_ROOT, getpid(), getppid(), "/bin/x");
	live->process->header->starttime = collect_process_starttime(getpid());
	live->slot = writer_slot(live->process, "x", &live->slot_ref);
	live->node = writer_node(live->process, 0, 0x1000, 0);
	assert_null(collect_snapshots_create(live->writer.fd, "test", max_snapshots, max_changes,
					     &live->snapshots));
}

static void end(struct live *live)
{
	collect_snapshots_free(live->snapshots);
	writer_end(&live->writer);
}

static struct mgl_row *add_row(struct live *live, uint64_t size, uint32_t *ref)
{
	return writer_row(live->process, live->slot, live->slot_ref, live->node, MGL_API_MALLOC,
			  size, ref);
}

static const struct collect_history *take(struct live *live)
{
	assert_null(collect_snapshots_take(live->snapshots));
	return collect_snapshots_of(live->snapshots, live->process->header->serial);
}

static void test_changes(void **state)
{
	struct live live;
	uint32_t first_ref, second_ref;

	(void)state;
	begin(&live, 0, 0);
	struct mgl_row *first = add_row(&live, 100, &first_ref);
	struct mgl_row *second = add_row(&live, 200, &second_ref);

	writer_allocs(first, 3, 100);
	const struct collect_history *history = take(&live);

	assert_int_equal(history->snaps.count, 1);
	assert_int_equal(history->snaps.items[0].live_bytes, 300);
	assert_int_equal(history->snaps.items[0].live_blocks, 3);
	assert_int_equal(history->changes.count, 1);
	assert_int_equal(history->changes.items[0].row, first_ref);

	/* Nothing happened: a snapshot, but no change. */
	history = take(&live);
	assert_int_equal(history->snaps.count, 2);
	assert_int_equal(history->changes.count, 1);

	writer_frees(first, 2, 100);
	writer_allocs(second, 1, 200);
	live.process->header->mapped_bytes = 4096;
	history = take(&live);
	assert_int_equal(history->changes.count, 3);
	assert_int_equal(history->snaps.items[2].live_bytes, 300);
	assert_int_equal(history->snaps.items[2].allocs, 4);
	assert_int_equal(history->snaps.items[2].frees, 2);
	assert_int_equal(history->snaps.items[2].mapped, 4096);
	assert_int_equal(
		history->changes.items[2].live_bytes + history->changes.items[1].live_bytes, 300);
	end(&live);
}

/* Rows in units that were not there when the reader was opened. */
static void test_growth(void **state)
{
	struct live live;
	uint64_t bytes = 0;

	(void)state;
	begin(&live, 0, 0);
	writer_allocs(add_row(&live, 10, NULL), 1, 10);
	bytes += 10;
	take(&live);
	for (unsigned int i = 0; i < 40000; i++) {
		writer_allocs(add_row(&live, 8, NULL), 1, 8);
		bytes += 8;
	}
	const struct collect_history *history = take(&live);

	assert_int_equal(history->snaps.items[1].live_bytes, bytes);
	assert_int_equal(history->changes.count, 40001);
	end(&live);
}

static void test_resident(void **state)
{
	struct live live;

	(void)state;
	begin(&live, 0, 0);
	const struct collect_history *history = take(&live);
	const struct collect_resident *resident = &history->snaps.items[0].resident;

	assert_true(resident->rss > 4096 && resident->rss < UINT64_C(1) << 40);
	assert_int_equal(resident->rss, resident->anon + resident->file + resident->shmem);
	assert_true(history->rss_peak >= resident->rss);
	end(&live);
}

/* A process that is gone, and one that got its pid. */
static void test_dead(void **state)
{
	struct live live;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	begin(&live, 0, 0);
	struct writer_process *dead =
		writer_process(&live.writer, MGL_HOW_FORK, pid, getpid(), "/bin/x");
	struct writer_process *other =
		writer_process(&live.writer, MGL_HOW_FORK, getpid() + 0, 1, "/bin/y");

	dead->header->starttime = 0;
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	take(&live);
	assert_int_equal(collect_snapshots_of(live.snapshots, dead->header->serial)->snaps.count,
			 0);
	/* The writer gave it a starttime that is not this process's. */
	assert_int_equal(collect_snapshots_of(live.snapshots, other->header->serial)->snaps.count,
			 0);
	assert_null(collect_snapshots_of(live.snapshots, 77));
	end(&live);
}

/* An exec: the same process goes on in another ledger. */
static void test_exec(void **state)
{
	struct live live;

	(void)state;
	begin(&live, 0, 0);
	assert_int_equal(take(&live)->snaps.count, 1);
	struct writer_process *after =
		writer_process(&live.writer, MGL_HOW_EXEC, getpid(), getppid(), "/bin/y");

	after->header->starttime = live.process->header->starttime;
	assert_int_equal(take(&live)->snaps.count, 1);
	assert_int_equal(collect_snapshots_of(live.snapshots, after->header->serial)->snaps.count,
			 1);
	end(&live);
}

/* What a row's live bytes are at a tick, by the changes up to it. */
static int64_t live_at(const struct collect_history *history, uint32_t row, uint32_t tick)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < history->changes.count; i++)
		if (history->changes.items[i].row == row && history->changes.items[i].tick <= tick)
			bytes = history->changes.items[i].live_bytes;
	return bytes;
}

static void test_halving(void **state)
{
	struct live live;
	uint32_t refs[2];
	struct mgl_row *rows[2];
	int64_t truth[2][100] = {{0}};

	(void)state;
	begin(&live, 16, 0);
	for (unsigned int i = 0; i < 2; i++)
		rows[i] = add_row(&live, 100, &refs[i]);
	for (unsigned int i = 0; i < 100; i++) {
		writer_allocs(rows[0], 1, 100);
		if (i % 3 == 0)
			writer_allocs(rows[1], 1, 100);
		const struct collect_history *history = take(&live);
		size_t count = history->snaps.count;

		truth[0][i] = (int64_t)rows[0]->bytes_in;
		truth[1][i] = (int64_t)rows[1]->bytes_in;
		assert_true(count <= 16);
		/* The newest is never given up; and every one that is kept is a true one. */
		for (size_t j = 0; j < count; j++) {
			const struct collect_snap *snap = &history->snaps.items[j];
			unsigned int at = (unsigned int)((int64_t)snap->allocs - 1);
			bool found = false;

			assert_true(j == 0 || snap->tick > history->snaps.items[j - 1].tick);
			for (at = 0; at <= i && !found; at++)
				found = truth[0][at] + truth[1][at] == (int64_t)snap->live_bytes &&
					truth[0][at] == live_at(history, refs[0], snap->tick) &&
					truth[1][at] == live_at(history, refs[1], snap->tick);
			assert_true(found);
		}
		assert_int_equal(history->snaps.items[count - 1].live_bytes,
				 truth[0][i] + truth[1][i]);
	}
	end(&live);
}

static void test_thinning(void **state)
{
	enum { SMALL = 300 };
	struct live live;
	struct mgl_row *big, *small[SMALL];
	uint32_t big_ref, small_refs[SMALL];
	const struct collect_history *history = NULL;

	(void)state;
	begin(&live, 0, 4000);
	big = add_row(&live, 1000000, &big_ref);
	for (unsigned int i = 0; i < SMALL; i++)
		small[i] = add_row(&live, 16, &small_refs[i]);
	for (unsigned int tick = 0; tick < 100; tick++) {
		writer_allocs(big, 1, 1000000);
		for (unsigned int i = 0; i < SMALL; i++)
			writer_allocs(small[i], 1, 16);
		history = take(&live);
		assert_true(history->changes.count <= 4000);
		/* The large one is true at every snapshot. */
		assert_int_equal(live_at(history, big_ref, UINT32_MAX), (int64_t)big->bytes_in);
	}
	assert_true(history->left_out > 20000);
	for (size_t i = 0; i < history->snaps.count; i++)
		assert_int_equal(live_at(history, big_ref, history->snaps.items[i].tick),
				 (int64_t)(i + 1) * 1000000);

	/* A small one that grows is said once it matters. */
	writer_allocs(small[7], 100000, 16);
	history = take(&live);
	assert_int_equal(live_at(history, small_refs[7], UINT32_MAX), (int64_t)small[7]->bytes_in);
	end(&live);
}

static void test_list_that_goes_round(void **state)
{
	struct live live;
	uint32_t ref;

	(void)state;
	begin(&live, 0, 0);
	add_row(&live, 8, NULL);
	struct mgl_row *row = add_row(&live, 16, &ref);

	writer_allocs(row, 1, 16);
	row->next = ref;
	live.slot->next = live.slot_ref;
	take(&live);
	assert_int_equal(take(&live)->snaps.items[0].live_bytes, 16);
	end(&live);
}

static void test_waiting(void **state)
{
	struct live live;

	(void)state;
	begin(&live, 0, 0);
	int wait = collect_snapshots_wait(live.snapshots);

	assert_true(wait >= 0 && wait <= 11);
	while ((wait = collect_snapshots_wait(live.snapshots)) > 0)
		usleep((useconds_t)wait * 1000);
	collect_snapshots_tick(live.snapshots);
	assert_true(collect_snapshots_wait(live.snapshots) > 0);
	assert_int_equal(collect_snapshots_of(live.snapshots, 1)->snaps.count, 1);

	/* A file that stops being a ledger ends the snapshots; nobody is told but the log. */
	memset(live.writer.map, 0, 4096);
	live.writer.session->next_unit = 0;
	setenv("MALLOGRAPH_LOG", "error", 1);
	while ((wait = collect_snapshots_wait(live.snapshots)) > 0)
		usleep((useconds_t)wait * 1000);
	collect_snapshots_tick(live.snapshots);
	assert_int_equal(collect_snapshots_wait(live.snapshots), -1);
	end(&live);
}

/* Of the time between two it is the processor's that counts. */
static void test_next(void **state)
{
	(void)state;
	assert_int_equal(collect_snapshot_next(1000, 1100, 1, 10000), 11000);
	assert_int_equal(collect_snapshot_next(1000, 90000, 1, 10000), 90050);
	assert_int_equal(collect_snapshot_next(1000, 2000, 1000, 10000), 52000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),  cmocka_unit_test(test_growth),
		cmocka_unit_test(test_resident), cmocka_unit_test(test_dead),
		cmocka_unit_test(test_exec),     cmocka_unit_test(test_halving),
		cmocka_unit_test(test_thinning), cmocka_unit_test(test_list_that_goes_round),
		cmocka_unit_test(test_waiting),  cmocka_unit_test(test_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
