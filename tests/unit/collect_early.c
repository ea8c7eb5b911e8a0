/* Stacks named while a program runs: the profile is the one that is made of them at its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/early.h"
#include "collect/finish.h"
#include "collect/place.h"
#include "ledger/reader.h"
#include "ledger_writer.h"
#include "store_profile.h"

#define SITES (COLLECT_EARLY_ROWS + 1000u)
#define STEPS 10u

struct run {
	struct writer writer;
	struct writer_process *process;
	struct mgl_slot *slot;
	uint32_t slot_ref;
	uint32_t module;
	uint32_t nodes[SITES];
	struct mgl_row *rows[SITES];
	unsigned int count;
	struct collect_snapshots *snapshots;
	struct collect_early *early;
};

static void begin(struct run *run, uint64_t room)
{
	*run = (struct run){.count = 0};
	writer_begin(&run->writer, 64);
	run->process = writer_process(&run->writer, MGL_HOW_ROOT, getpid(), getppid(), "/bin/x");
	run->process->header->starttime = collect_process_starttime(getpid());
	run->module = writer_module(run->process, "/bin/x", 0x400000, 0);
	run->slot = writer_slot(run->process, "x", &run->slot_ref);
	assert_null(collect_snapshots_create(run->writer.fd, "test", 0, 0, &run->snapshots));
	assert_null(collect_early_create(room, NULL, &run->early));
	collect_snapshots_set_early(run->snapshots, run->early);
}

static void end(struct run *run)
{
	collect_snapshots_free(run->snapshots);
	collect_early_free(run->early);
	writer_end(&run->writer);
}

/* Each below one made some time before, so that stacks are deep and share much. */
static void grow(struct run *run, unsigned int count)
{
	while (count-- && run->count < SITES) {
		unsigned int i = run->count++;
		uint32_t parent = i ? run->nodes[(i - 1) * 7 / 8] : 0;

		run->nodes[i] = writer_node(run->process, parent, 0x400000 + 16 * (i % 3000),
					    run->module | (i % 50 ? 0 : MGL_NODE_FP));
		run->rows[i] = writer_row(run->process, run->slot, run->slot_ref, run->nodes[i],
					  MGL_API_MALLOC, 40, NULL);
		writer_allocs(run->rows[i], 1 + i % 5, 40);
		if (i % 3 == 0)
			writer_frees(run->rows[i], 1, 40);
	}
}

static void tick(struct run *run, unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i++) {
		collect_snapshots_tick(run->snapshots);
		usleep(1000);
	}
}

/* Until so many frames have names; a busy machine takes its time. */
static void tick_until(struct run *run, size_t frames)
{
	for (unsigned int i = 0; i < 2000 && collect_early_frames(run->early) < frames; i++)
		tick(run, 10);
	assert_true(collect_early_frames(run->early) >= frames);
}

/* A node may have come twice: the last frame has its name before the last of those is done. */
static void tick_until_idle(struct run *run)
{
	for (unsigned int i = 0; i < 2000 && collect_early_count(run->early); i++)
		tick(run, 10);
	assert_int_equal(collect_early_count(run->early), 0);
}

static char *text_of(struct store_reader *profile, const char *sql)
{
	struct store_query *query;

	assert_null(store_query_open(profile, sql, &query));
	assert_true(store_query_next(query));
	char *text = strdup(store_query_text(query, 0).bytes);

	assert_null(store_query_close(query));
	return text;
}

/* All that a profile says of stacks, whatever its ids are. */
static char *said(struct run *run, const char *name, struct collect_early *early)
{
	static const char sql[] =
		"SELECT group_concat(x, char(10)) FROM (SELECT s.api||' '||s.allocs||' '||"
		"s.live_bytes||' '||(WITH RECURSIVE w(level,loc,parent) AS (SELECT 0,loc,parent "
		"FROM stack WHERE id=s.stack UNION ALL SELECT level+1,k.loc,k.parent FROM w JOIN "
		"stack k ON k.id=w.parent) SELECT group_concat(t, ' ') FROM (SELECT "
		"COALESCE((SELECT p.s||'+'||l.offset||'.'||l.flags FROM loc l JOIN module m ON "
		"m.id=l.module JOIN string p ON p.id=m.path WHERE l.id=w.loc),'cut') t FROM w "
		"ORDER BY level)) x FROM site s ORDER BY x)";
	struct collect_finish_options options = {
		.snapshots = run->snapshots,
		.early = early,
		.no_symbols = true,
	};
	const char *path = profile_path(name);
	struct ledger_reader *reader = NULL;
	struct store_reader *profile = NULL;

	unlink(path);
	assert_null(ledger_reader_open_fd(run->writer.fd, "test", &reader));
	assert_null(collect_finish(reader, &options, path, NULL));
	ledger_reader_close(reader);
	assert_null(store_reader_open(path, &profile));
	assert_true(store_reader_finished(profile));
	char *text = text_of(profile, sql);

	store_reader_close(profile);
	return text;
}

static void assert_same_either_way(struct run *run)
{
	char *early = said(run, "early.mgp", run->early);
	char *whole = said(run, "whole.mgp", NULL);

	assert_string_equal(early, whole);
	free(early);
	free(whole);
}

static void test_grows(void **state)
{
	static struct run run;

	(void)state;
	begin(&run, 1);
	for (unsigned int i = 0; i < STEPS; i++) {
		grow(&run, SITES / STEPS + 1);
		tick(&run, 15);
	}
	tick_until(&run, SITES);
	tick_until_idle(&run);
	assert_same_either_way(&run);
	end(&run);
}

/* The end comes when part of it is named. */
static void test_ends_midway(void **state)
{
	static struct run run;

	(void)state;
	begin(&run, 1);
	grow(&run, COLLECT_EARLY_ROWS + 100);
	tick_until(&run, 1);
	grow(&run, SITES);
	assert_same_either_way(&run);
	end(&run);
}

static void test_few_sites(void **state)
{
	static struct run run;

	(void)state;
	begin(&run, 1);
	grow(&run, COLLECT_EARLY_ROWS - 1);
	tick(&run, 60);
	assert_int_equal(collect_early_frames(run.early), 0);
	assert_same_either_way(&run);
	end(&run);
}

static void test_no_room(void **state)
{
	static struct run run;

	(void)state;
	begin(&run, UINT64_MAX);
	grow(&run, SITES);
	tick(&run, 60);
	assert_int_equal(collect_early_frames(run.early), 0);
	assert_same_either_way(&run);
	end(&run);
}

/* What cannot be read yet (a module that is not there, a parent beyond the end, stacks that
 * go round) is left, and is at the end what it is without. */
static void test_what_is_not_there_yet(void **state)
{
	static struct run run;

	(void)state;
	begin(&run, 1);
	grow(&run, SITES - 10);
	for (unsigned int i = 0; i < 6; i++) {
		uint32_t where = i % 2 ? run.module : run.module + 1;
		uint32_t node = writer_node(run.process, i < 2 ? run.nodes[0] : 0x7fffff00,
					    0x500000 + i, where);
		struct mgl_row *row = writer_row(run.process, run.slot, run.slot_ref, node,
						 MGL_API_CALLOC, 100, NULL);
		struct mgl_node *record =
			(void *)(run.process->base +
				 (uint64_t)(node - run.process->ref) * MGL_REF_BYTES);

		if (i >= 4)
			record->parent = node;
		writer_allocs(row, 1, 100);
	}
	tick_until(&run, SITES - 10);
	assert_int_equal(writer_module(run.process, "/bin/late.so", 0x500000, 0), run.module + 1);
	assert_same_either_way(&run);
	end(&run);
}

/* The profile has nowhere to go; what was early is gone with the error. */
static void test_cannot_be_written(void **state)
{
	static struct run run;
	struct ledger_reader *reader = NULL;

	(void)state;
	begin(&run, 1);
	grow(&run, SITES);
	tick_until(&run, 1);
	struct collect_finish_options options = {.early = run.early, .no_symbols = true};

	assert_null(ledger_reader_open_fd(run.writer.fd, "test", &reader));
	struct error *error = collect_finish(reader, &options, "/nowhere/x.mgp", NULL);

	assert_non_null(error);
	error_free(error);
	ledger_reader_close(reader);
	assert_same_either_way(&run);
	end(&run);
}

static int tear_down(void **state)
{
	(void)state;
	profile_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_grows, tear_down),
		cmocka_unit_test_teardown(test_ends_midway, tear_down),
		cmocka_unit_test_teardown(test_few_sites, tear_down),
		cmocka_unit_test_teardown(test_no_room, tear_down),
		cmocka_unit_test_teardown(test_what_is_not_there_yet, tear_down),
		cmocka_unit_test_teardown(test_cannot_be_written, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
