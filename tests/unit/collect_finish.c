/* From ledgers written by hand to profiles. */
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

#include "collect/finish.h"
#include "collect/place.h"
#include "ledger/reader.h"
#include "ledger_writer.h"
#include "store_profile.h"

static struct store_reader *finish(const struct writer *writer, const char *name,
				   const struct collect_finish_options *options)
{
	const char *path = profile_path(name);
	struct ledger_reader *reader = NULL;
	struct store_reader *profile = NULL;

	unlink(path);
	assert_null(ledger_reader_open_fd(writer->fd, "test", &reader));
	struct error *error = collect_finish(reader, options, path, NULL);

	if (error)
		fail_msg("%s", error->message);
	ledger_reader_close(reader);
	assert_null(store_reader_open(path, &profile));
	assert_true(store_reader_finished(profile));
	return profile;
}

/* One number of a question; -1 for NULL. */
static int64_t ask(struct store_reader *profile, const char *sql)
{
	struct store_query *query;
	struct error *error = store_query_open(profile, sql, &query);
	int64_t value = -1;

	if (error)
		fail_msg("%s: %s", sql, error->message);
	if (!store_query_next(query)) {
		error = store_query_close(query);
		fail_msg("%s: %s", sql, error ? error->message : "no row");
	}
	struct store_text text = store_query_text(query, 0);

	if (text.bytes)
		value = strtoll(text.bytes, NULL, 10);
	assert_null(store_query_close(query));
	return value;
}

static void assert_words(struct store_reader *profile, const char *sql, const char *expected)
{
	struct store_query *query;

	assert_null(store_query_open(profile, sql, &query));
	assert_true(store_query_next(query));
	struct store_text text = store_query_text(query, 0);

	assert_non_null(text.bytes);
	assert_string_equal(text.bytes, expected);
	assert_null(store_query_close(query));
}

static int tear_down(void **state)
{
	(void)state;
	profile_remove();
	return 0;
}

static void test_process(void **state)
{
	struct writer writer;
	struct store_process p;

	(void)state;
	writer_sample(&writer);
	struct store_reader *profile = finish(&writer, "process.mgp", NULL);

	assert_int_equal(ask(profile, "SELECT count(*) FROM process"), 2);
	assert_null(store_get(profile, 1, &p));
	assert_int_equal(p.how, STORE_HOW_ROOT);
	assert_int_equal(p.pid, 4711);
	assert_int_equal(p.allocs, 17);
	assert_int_equal(p.frees, 9);
	assert_int_equal(p.failed, 2);
	assert_int_equal(p.unknown_frees, 3);
	assert_int_equal(p.alloc_bytes, 1000 + 4200 + 100000 + 21 + 16);
	assert_int_equal(p.live_blocks, 8);
	assert_int_equal(p.live_bytes, 600 + 4200 + 50000);
	assert_int_equal(p.peak_bytes, 5000);
	assert_int_equal(p.peak_blocks, 9);
	assert_int_equal(p.temporary, 1);
	assert_int_equal(p.start, 1000000);
	assert_int_equal(p.peak_time, 2000000);
	assert_int_equal(p.stop, 1311000000);
	assert_int_equal(p.end_kind, STORE_END_EXIT);
	assert_int_equal(p.end_code, 3);
	assert_int_equal(p.rss_peak, 12345678);
	assert_int_equal(p.threads, 2);
	assert_int_equal(p.argv.length, sizeof("sample\0-x\0two words"));
	assert_memory_equal(p.argv.bytes, "sample\0-x\0two words", p.argv.length);
	assert_null(store_get(profile, 2, &p));
	assert_int_equal(p.how, STORE_HOW_FORK);
	assert_int_equal(p.parent, 1);
	assert_int_equal(p.end_kind, STORE_END_SIGNAL);
	assert_int_equal(p.end_code, 9);

	assert_int_equal(ask(profile, "SELECT calls FROM api WHERE process=1 AND api=1"), 11);
	assert_int_equal(ask(profile, "SELECT failed FROM api WHERE process=1 AND api=14"), 1);
	assert_int_equal(ask(profile, "SELECT count FROM loss WHERE kind='deepbind' AND "
				      "detail='/lib/deep.so'"),
			 2);
	assert_int_equal(ask(profile, "SELECT count(*) FROM mapping WHERE process=1"), 3);
	assert_int_equal(ask(profile, "SELECT value FROM meta WHERE key='finished'"), 1);
	store_reader_close(profile);
	writer_end(&writer);
}

static void test_sites(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct store_reader *profile = finish(&writer, "sites.mgp", NULL);

	/* Two threads' rows, of twin nodes and a library that moved, are one site. */
	assert_int_equal(ask(profile, "SELECT count(*) FROM site WHERE process=1"), 5);
	assert_int_equal(ask(profile, "SELECT live_blocks FROM site WHERE process=1 AND api=1 AND "
				      "allocs=10"),
			 6);
	assert_int_equal(ask(profile, "SELECT peak_bytes FROM site WHERE process=1 AND api=1 AND "
				      "allocs=10"),
			 800);
	assert_int_equal(ask(profile, "SELECT lifetime_allocs FROM site WHERE api=3"), 7);
	assert_int_equal(ask(profile, "SELECT temporary FROM site WHERE api=3"), 1);
	/* Class 26: 96 to 111 bytes. */
	assert_int_equal(ask(profile, "SELECT live FROM site_size z JOIN site s ON s.id=z.site "
				      "WHERE class=26 AND s.process=1"),
			 6);
	assert_int_equal(ask(profile, "SELECT sum(allocs) FROM site_size z WHERE site IN "
				      "(SELECT id FROM site WHERE process=1)"),
			 17);
	assert_int_equal(ask(profile, "SELECT sum(allocs) FROM site_thread WHERE thread IN "
				      "(SELECT id FROM thread WHERE process=1)"),
			 17);
	/* The second thread freed what the first allocated. */
	assert_int_equal(ask(profile, "SELECT sum(live) FROM thread_size t JOIN thread h ON "
				      "h.id=t.thread JOIN string n ON n.id=h.name WHERE "
				      "n.s='worker' AND class=26"),
			 -4);
	assert_int_equal(ask(profile, "SELECT allocs FROM thread h JOIN string n ON n.id=h.name "
				      "WHERE n.s='worker'"),
			 6);
	assert_int_equal(ask(profile, "SELECT tid FROM thread h JOIN string n ON n.id=h.name "
				      "WHERE n.s='worker'"),
			 4712);
	assert_int_equal(ask(profile, "SELECT count(*) FROM site WHERE stack IS NULL"), 1);
	store_reader_close(profile);
	writer_end(&writer);
}

static void test_stacks(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct store_reader *profile = finish(&writer, "stacks.mgp", NULL);

	/* Offsets, not addresses; the agent's frame is not there. */
	assert_words(profile,
		     "SELECT v.stack FROM v_site_stack v JOIN site s ON s.id=v.site WHERE "
		     "s.api=3",
		     "/lib/libsample.so.1+0x5678\n/lib/libsample.so.1+0x1234\n"
		     "/bin/sample+0x1000");
	assert_words(profile,
		     "SELECT v.stack FROM v_site_stack v JOIN site s ON s.id=v.site WHERE "
		     "s.api=10",
		     "/bin/sample+0x2000\n[cut]");
	assert_int_equal(ask(profile, "SELECT count(*) FROM module m JOIN string s ON s.id=m.path "
				      "WHERE s.s LIKE '%agent%'"),
			 0);
	assert_words(profile, "SELECT symbols FROM module WHERE id=1", "none");
	assert_words(profile,
		     "SELECT substr(build_id,1,4) FROM module m JOIN string s ON "
		     "s.id=m.path WHERE s.s LIKE '%libsample%'",
		     "2f2f");
	/* Nothing has a name here: the innermost frame. */
	assert_words(profile,
		     "SELECT printf('%s+%x', m.s, l.offset) FROM site s JOIN loc l ON "
		     "l.id=s.title JOIN module d ON d.id=l.module JOIN string m ON "
		     "m.id=d.path WHERE s.api=3",
		     "/lib/libsample.so.1+5678");
	assert_int_equal(ask(profile, "SELECT count(*) FROM stack WHERE parent>=id"), 0);
	/* A library moved: the mapping's start less its file_offset is its load bias. */
	assert_int_equal(ask(profile, "SELECT count(DISTINCT start-file_offset) FROM mapping "
				      "WHERE module=(SELECT module FROM loc WHERE offset=0x1234)"),
			 2);
	store_reader_close(profile);
	writer_end(&writer);
}

static void test_pending_symbols(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct store_reader *profile = finish(&writer, "pending.mgp",
					      &(struct collect_finish_options){.no_symbols = true});

	assert_words(profile, "SELECT symbols FROM module WHERE id=1", "pending");
	store_reader_close(profile);
	writer_end(&writer);
}

static void test_blocks(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct store_reader *profile = finish(&writer, "blocks.mgp", NULL);

	assert_int_equal(ask(profile, "SELECT count(*) FROM block"), 8);
	assert_int_equal(ask(profile, "SELECT sum(size) FROM block"), 600 + 4200 + 50000);
	assert_int_equal(ask(profile, "SELECT size FROM block WHERE address=0x10003ff0"), 50000);
	assert_int_equal(ask(profile, "SELECT born FROM block WHERE number=11"), 2000000);
	assert_int_equal(ask(profile, "SELECT sum(blocks) FROM cohort"), 8);
	assert_int_equal(ask(profile, "SELECT sum(bytes) FROM cohort"), 600 + 4200 + 50000);
	/* The peak, at allocation 15, is where one interval ends and the next begins. */
	assert_int_equal(ask(profile, "SELECT count(*) FROM snap WHERE process=1"), 2);
	assert_int_equal(ask(profile, "SELECT sum(blocks) FROM cohort c JOIN snap s ON s.id=c.born "
				      "WHERE s.why=2"),
			 7);
	assert_int_equal(ask(profile, "SELECT sum(blocks) FROM cohort c JOIN snap s ON s.id=c.born "
				      "WHERE s.why=3"),
			 1);
	assert_int_equal(ask(profile, "SELECT count(*) FROM loss WHERE kind='blocks_not_listed'"),
			 0);
	store_reader_close(profile);
	writer_end(&writer);
}

/* count blocks at sites of their own, one after the other; block i has i % 7 + 1 times
 * 16 bytes. */
static void many_blocks(struct writer *writer, uint32_t count, uint32_t sites)
{
	writer_begin(writer, 256);
	struct writer_process *p = writer_process(writer, MGL_HOW_ROOT, 4711, 100, "/bin/many");
	uint32_t slot_ref;
	struct mgl_slot *slot = writer_slot(p, "many", &slot_ref);
	uint32_t root = writer_node(p, 0, 0x1000, 0);
	struct mgl_row **rows = calloc((size_t)sites * 7, sizeof(*rows));
	uint32_t *refs = calloc((size_t)sites * 7, sizeof(*refs));

	assert_non_null(rows);
	assert_non_null(refs);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t site = i % sites, at = site * 7 + i % 7;
		uint64_t size = (i % 7 + 1) * UINT64_C(16);

		if (!rows[at])
			rows[at] = writer_row(p, slot, slot_ref,
					      writer_node(p, root, 0x2000 + site, 0),
					      MGL_API_MALLOC, size, &refs[at]);
		writer_allocs(rows[at], 1, size);
		writer_block(p, 0x10000000 + i * UINT64_C(128), size, refs[at], i + 1);
	}
	p->header->next_number = count + 1;
	free(rows);
	free(refs);
}

static void test_too_many_blocks(void **state)
{
	enum { COUNT = COLLECT_BLOCKS + 1000, SITES = 100 };
	struct writer writer;

	(void)state;
	many_blocks(&writer, COUNT, SITES);
	struct store_reader *profile = finish(&writer, "many.mgp", NULL);

	/* Of each site the oldest and the largest. */
	assert_int_equal(ask(profile, "SELECT count(DISTINCT site) FROM block"), SITES);
	assert_in_range(ask(profile, "SELECT count(*) FROM block"), SITES, 2 * SITES);
	assert_int_equal(ask(profile, "SELECT count(*) FROM (SELECT site, min(number) n FROM block "
				      "GROUP BY site) WHERE n=site OR n<=100"),
			 SITES);
	assert_int_equal(ask(profile, "SELECT min(m) FROM (SELECT max(size) m FROM block GROUP BY "
				      "site)"),
			 112);
	assert_int_equal(ask(profile, "SELECT sum(blocks) FROM cohort"), COUNT);
	assert_int_equal(ask(profile, "SELECT count FROM loss WHERE kind='blocks_not_listed'") +
				 ask(profile, "SELECT count(*) FROM block"),
			 COUNT);
	store_reader_close(profile);

	profile = finish(&writer, "all.mgp", &(struct collect_finish_options){.all_blocks = true});
	assert_int_equal(ask(profile, "SELECT count(*) FROM block"), COUNT);
	store_reader_close(profile);
	writer_end(&writer);
}

static uint64_t size_of(const char *name)
{
	struct stat status;

	assert_int_equal(stat(profile_path(name), &status), 0);
	return (uint64_t)status.st_size;
}

/* Counts do not make a profile larger, only sites, sizes and live blocks do. */
static void test_bounded_by_sites(void **state)
{
	struct writer writer;
	struct writer_process *p;

	(void)state;
	for (unsigned int turn = 0; turn < 2; turn++) {
		many_blocks(&writer, 2000, 1000);
		p = &writer.processes[0];
		struct mgl_slot *slot = NULL;
		uint32_t ref;

		slot = writer_slot(p, "churn", &ref);
		for (unsigned int i = 0; i < 1000; i++) {
			struct mgl_row *row =
				writer_row(p, slot, ref, writer_node(p, 0, 0x9000 + i, 0),
					   MGL_API_MALLOC, 40, NULL);

			writer_allocs(row, turn ? 10000 : 100, 40);
			writer_frees(row, turn ? 10000 : 100, 40);
		}
		store_reader_close(finish(&writer, turn ? "e7.mgp" : "e5.mgp", NULL));
		writer_end(&writer);
	}
	printf("10^5: %llu bytes, 10^7: %llu bytes\n", (unsigned long long)size_of("e5.mgp"),
	       (unsigned long long)size_of("e7.mgp"));
	assert_true(size_of("e7.mgp") <= size_of("e5.mgp") * 105 / 100);
}

/* Snapshots of a live process, then its end: every site's series adds up to the total. */
static void test_series(void **state)
{
	struct collect_snapshots *snapshots;
	struct writer writer;
	uint32_t slot_refs[2];
	struct mgl_row *rows[6];

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *p =
		writer_process(&writer, MGL_HOW_ROOT, getpid(), getppid(), "/bin/x");

	p->header->starttime = collect_process_starttime(getpid());
	for (unsigned int i = 0; i < 2; i++) {
		struct mgl_slot *slot = writer_slot(p, i ? "second" : "first", &slot_refs[i]);

		/* Three sites, each with a row in both threads. */
		for (unsigned int j = 0; j < 3; j++)
			rows[i * 3 + j] =
				writer_row(p, slot, slot_refs[i], writer_node(p, 0, 0x1000 + j, 0),
					   MGL_API_MALLOC, 50, NULL);
	}
	assert_null(collect_snapshots_create(writer.fd, "test", 0, 0, &snapshots));
	for (unsigned int i = 0; i < 10; i++) {
		writer_allocs(rows[i % 3], 5, 50);
		if (i > 3)
			writer_frees(rows[3 + i % 3], 3, 50);
		assert_null(collect_snapshots_take(snapshots));
	}
	writer_allocs(rows[2], 1, 50);
	struct store_reader *profile = finish(
		&writer, "series.mgp", &(struct collect_finish_options){.snapshots = snapshots});

	assert_int_equal(ask(profile, "SELECT count(*) FROM snap WHERE why=0"), 10);
	assert_int_equal(ask(profile, "SELECT count(*) FROM snap WHERE why=3"), 1);
	assert_int_equal(ask(profile, "SELECT count(*) FROM snap WHERE why=0 AND anon>0"), 10);
	/* At each snapshot: the newest entry of each site that is not after it. */
	assert_int_equal(ask(profile,
			     "SELECT count(*) FROM snap p WHERE p.live_bytes<>(SELECT "
			     "sum(e.live_bytes) FROM series e WHERE e.snap=(SELECT max(snap) FROM "
			     "series x WHERE x.site=e.site AND x.snap<=p.id))"),
			 0);
	assert_int_equal(ask(profile, "SELECT count(*) FROM (SELECT site FROM series GROUP BY "
				      "site)"),
			 3);
	/* Only what changed: one site a snapshot, and one at the end. */
	assert_int_equal(ask(profile, "SELECT count(*) FROM series"), 11);
	assert_int_equal(ask(profile,
			     "SELECT sum(e.live_bytes) FROM series e JOIN site s ON "
			     "s.id=e.site AND e.snap=(SELECT max(snap) FROM series x WHERE "
			     "x.site=s.id) AND s.live_bytes=e.live_bytes"),
			 ask(profile, "SELECT live_bytes FROM process"));
	store_reader_close(profile);
	collect_snapshots_free(snapshots);
	writer_end(&writer);
}

/* What is written cannot be: an error, and nothing that looks whole. */
static void test_unwritable(void **state)
{
	struct ledger_reader *reader;
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	assert_null(ledger_reader_open_fd(writer.fd, "test", &reader));
	struct error *error = collect_finish(reader, NULL, "/nowhere/x.mgp", NULL);

	assert_non_null(error);
	assert_int_equal(error->errnum, ENOENT);
	error_free(error);
	error = collect_finish(reader, NULL, "/dev/full", NULL);
	assert_non_null(error);
	error_free(error);
	ledger_reader_close(reader);
	writer_end(&writer);
}

static void test_nothing_recorded(void **state)
{
	struct writer writer;

	(void)state;
	writer_begin(&writer, 8);
	writer_process(&writer, MGL_HOW_ROOT, 4711, 100, "/bin/x");
	struct store_reader *profile = finish(&writer, "nothing.mgp", NULL);

	assert_int_equal(ask(profile, "SELECT count(*) FROM site"), 0);
	assert_int_equal(ask(profile, "SELECT live_bytes FROM process"), 0);
	assert_int_equal(ask(profile, "SELECT count(*) FROM snap WHERE why=3"), 1);
	store_reader_close(profile);
	writer_end(&writer);
}

/* Of a process of a large tree the small sites are one a function called; nothing of it is lost
 * but their stacks. */
static void test_folds(void **state)
{
	struct collect_finish_options options = {.sites = 1};
	unsigned int sites = COLLECT_SITES_KEPT + 300;
	struct writer writer;
	uint64_t bytes = 0;
	uint32_t slot_ref, ref;

	(void)state;
	writer_begin(&writer, 16);
	writer_process(&writer, MGL_HOW_ROOT, 4711, 100, "/bin/x");
	struct writer_process *p = writer_process(&writer, MGL_HOW_FORK, 4712, 4711, "/bin/x");
	struct mgl_slot *slot = writer_slot(p, "x", &slot_ref);
	uint32_t program = writer_module(p, "", 0x400000, MGL_MODULE_PROGRAM);

	p->header->parent = 1;
	for (unsigned int i = 0; i < sites; i++) {
		/* The first 300 are small by every measure, the last by all but one. */
		uint64_t size = i < 300 ? 8 : i + 1 == sites ? 9 : 1000 + i % 7;
		uint64_t count = i + 1 == sites ? 1000 : 3;
		struct mgl_row *row =
			writer_row(p, slot, slot_ref, writer_node(p, 0, 0x401000 + 16 * i, program),
				   i % 2 ? MGL_API_CALLOC : MGL_API_MALLOC, size, &ref);

		writer_allocs(row, count, size);
		writer_frees(row, count - 1, size);
		writer_block(p, 0x10000000 + 4096 * (uint64_t)i, size, ref, i + 1);
		row->peak_blocks = 1;
		row->peak_bytes = (int64_t)size;
		bytes += count * size;
	}
	struct store_reader *profile = finish(&writer, "folds.mgp", &options);

	assert_int_equal(ask(profile, "SELECT count(*) FROM site"), COLLECT_SITES_KEPT + 2);
	assert_int_equal(ask(profile, "SELECT count(*) FROM site WHERE stack IS NULL"), 2);
	assert_int_equal(ask(profile, "SELECT sum(allocs) FROM site WHERE stack IS NULL"), 900);
	assert_int_equal(ask(profile, "SELECT allocs FROM site WHERE stack IS NULL AND api=2"),
			 450);
	assert_int_equal(ask(profile, "SELECT sum(peak_bytes) FROM site WHERE stack IS NULL"),
			 2400);
	assert_int_equal(ask(profile, "SELECT sum(alloc_bytes) FROM site"), bytes);
	assert_int_equal(ask(profile, "SELECT count(*) FROM site WHERE allocs=1000"), 1);
	assert_int_equal(ask(profile,
			     "SELECT count(*) FROM site s WHERE allocs<>(SELECT sum(allocs) "
			     "FROM site_size WHERE site=s.id) OR allocs<>(SELECT "
			     "sum(allocs) FROM site_thread WHERE site=s.id)"),
			 0);
	assert_int_equal(ask(profile,
			     "SELECT count(*) FROM block b JOIN site s ON s.id=b.site WHERE "
			     "stack IS NULL AND size=8"),
			 300);
	assert_int_equal(ask(profile, "SELECT count FROM loss WHERE kind='sites_folded'"), 300);
	store_reader_close(profile);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_sites),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_pending_symbols),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_too_many_blocks),
		cmocka_unit_test(test_bounded_by_sites),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_unwritable),
		cmocka_unit_test(test_nothing_recorded),
		cmocka_unit_test(test_folds),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
