/* Processes put into the profile while others run: the profile is the one that is made of all of
 * them at the end, also where its maker was killed meanwhile. */
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
#include "ledger/reader.h"
#include "ledger_writer.h"
#include "store_profile.h"

#define PROCESSES 6u

/* All a profile says, whatever the ids of its strings, stacks, sites, threads and snapshots. */
static const char *const questions[] = {
	"SELECT p.id, parent, how, pid, ppid, e.s, c.s, hex(argv), start, stop, end_kind, end_code, "
	"allocs, frees, failed, unknown_frees, alloc_bytes, live_blocks, live_bytes, temporary, "
	"peak_bytes, peak_blocks, peak_time, peak_error, threads FROM process p LEFT JOIN string e ON "
	"e.id=exe LEFT JOIN string c ON c.id=cwd ORDER BY 1",
	"SELECT s.process, x.stack, s.api, s.allocs, s.frees, s.live_bytes, s.peak_bytes, s.temporary, "
	"s.lifetime_allocs, (SELECT group_concat(class||':'||allocs||':'||live||':'||bytes) FROM "
	"site_size WHERE site=s.id) z, (SELECT group_concat(n.s||':'||t.allocs||':'||t.frees) FROM "
	"site_thread t JOIN thread h ON h.id=t.thread JOIN string n ON n.id=h.name WHERE t.site=s.id) "
	"FROM site s JOIN v_site_stack x ON x.site=s.id ORDER BY 1, 2, 3, 4",
	"SELECT s.process, x.stack, f.offset, title_depth FROM site s JOIN v_site_stack x ON "
	"x.site=s.id LEFT JOIN loc f ON f.id=s.title ORDER BY 1, 2, s.api",
	"SELECT b.process, address, size, number, b.born, x.stack, n.s FROM block b JOIN v_site_stack "
	"x ON x.site=b.site LEFT JOIN thread h ON h.id=b.thread LEFT JOIN string n ON n.id=h.name "
	"ORDER BY 1, 2",
	"SELECT x.stack, c.blocks, c.bytes, n.time, b.time FROM cohort c JOIN v_site_stack x ON "
	"x.site=c.site JOIN snap n ON n.id=c.snap JOIN snap b ON b.id=c.born ORDER BY 1, 2, 3, 4",
	"SELECT x.stack, n.process, n.time, s.live_bytes, s.allocs FROM series s JOIN snap n ON "
	"n.id=s.snap JOIN v_site_stack x ON x.site=s.site ORDER BY 1, 2, 3",
	"SELECT process, time, why, live_blocks, live_bytes, allocs FROM snap ORDER BY 1, 2, 3",
	"SELECT process, s, tid, merged, allocs, frees, bytes FROM thread JOIN string n ON n.id=name "
	"ORDER BY 1, 2",
	"SELECT h.process, s, class, t.allocs, live, t.bytes FROM thread_size t JOIN thread h ON "
	"h.id=t.thread JOIN string n ON n.id=h.name ORDER BY 1, 2, 3",
	"SELECT process, api, calls, failed, bytes FROM api ORDER BY 1, 2",
	"SELECT process, kind, count, detail FROM loss ORDER BY 1, 2, 4",
	"SELECT p.process, s, p.start, p.stop, file_offset, loaded, unloaded FROM mapping p JOIN module "
	"m ON m.id=p.module JOIN string ON string.id=m.path ORDER BY 1, 2, 3",
	"SELECT s, kind, build_id, symbols, count(*) FROM module JOIN string ON string.id=path GROUP BY "
	"1, 2, 3, 4 ORDER BY 1, 2",
	"SELECT key, value FROM meta ORDER BY 1",
};

static char *answers(const char *path)
{
	struct store_reader *profile;
	struct store_query *query;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_null(store_reader_open(path, &profile));
	assert_true(store_reader_finished(profile));
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		struct error *error = store_query_open(profile, questions[i], &query);

		if (error)
			fail_msg("%s: %s", questions[i], error->message);
		fprintf(out, "%zu:\n", i);
		while (store_query_next(query)) {
			for (unsigned int c = 0; c < store_query_columns(query); c++) {
				struct store_text cell = store_query_text(query, c);

				fprintf(out, "%s|", cell.bytes ? cell.bytes : "-");
			}
			fprintf(out, "\n");
		}
		assert_null(store_query_close(query));
	}
	store_reader_close(profile);
	fclose(out);
	return text;
}

/* Processes that share stacks and have some of their own; one has code in no module, one a module
 * that others have elsewhere, one was executed by another. */
static void write_sample(struct writer *writer)
{
	writer_begin(writer, 64);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		bool execed = i == 3;
		struct writer_process *p =
			writer_process(writer,
				       i == 0   ? MGL_HOW_ROOT
				       : execed ? MGL_HOW_EXEC
						: MGL_HOW_FORK,
				       execed ? 1002 : (int32_t)(1000 + i), i == 0 ? 1 : 1000,
				       execed ? "/bin/other" : "/bin/sample");
		uint32_t slot_ref, ref;
		struct mgl_slot *slot = writer_slot(p, i % 2 ? "odd" : "even", &slot_ref);
		uint64_t base = 0x400000 + 0x10000 * (i % 3);
		uint32_t program = writer_module(p, "", base, MGL_MODULE_PROGRAM);
		uint32_t library =
			writer_module(p, "/lib/shared.so", 0x7f0000000000 + 0x1000000 * i, 0);
		uint32_t outer = writer_node(p, 0, base + 0x100, program);

		p->header->parent = i && !execed ? 1 : 0;
		p->header->start_ns = writer->session->start_ns + 1000 * (i + 1);
		for (unsigned int k = 0; k < 3 + i; k++) {
			uint64_t size = 16 + 40 * k;
			uint32_t node =
				writer_node(p, outer, 0x7f0000000000 + 0x1000000 * i + 16 * k,
					    library | (k == 1 ? MGL_NODE_FP : 0));

			if (i == 4 && k == 2)
				node = writer_node(p, outer, 0x555500, 0);
			struct mgl_row *row =
				writer_row(p, slot, slot_ref, node,
					   k % 2 ? MGL_API_MALLOC : MGL_API_CALLOC, size, &ref);

			writer_allocs(row, 5 + i, size);
			writer_frees(row, 3, size);
			row->peak_blocks = 3;
			row->peak_bytes = (int64_t)(3 * size);
			for (unsigned int b = 0; b < 2 + i; b++)
				writer_block(p, 0x20000000 + 0x1000 * (k + 1) + 64 * b, size, ref,
					     b + 1);
		}
		p->header->next_number = 100;
		p->header->max = 1000;
		p->header->losses[MGL_LOSS_DEEPBIND] = i;
		writer_time(p, 1, p->header->start_ns + 10);
		writer_time(p, 90, p->header->start_ns + 900);
		p->header->end_ns = p->header->start_ns + 5000;
		p->header->end_code = i;
		p->header->end_kind = execed || i != 2 ? MGL_END_EXIT : MGL_END_EXEC;
	}
	writer->session->next_process = PROCESSES + 1;
}

static struct collect_finish_options plain(void)
{
	return (struct collect_finish_options){.no_symbols = true};
}

static char *finish(struct writer *writer, const char *name,
		    const struct collect_finish_options *options)
{
	const char *path = profile_path(name);
	struct ledger_reader *reader = NULL;

	unlink(path);
	assert_null(ledger_reader_open_fd(writer->fd, "test", &reader));
	struct error *error = collect_finish(reader, options, path, NULL);

	if (error)
		fail_msg("%s", error->message);
	ledger_reader_close(reader);
	return answers(path);
}

struct retirement {
	struct writer writer;
	struct collect_early *early;
	struct collect_finish_options options;
	char *whole; /* what is right */
};

static void begin(struct retirement *r)
{
	struct collect_finish_options options = plain();

	write_sample(&r->writer);
	r->whole = finish(&r->writer, "whole.mgp", &options);
	assert_null(collect_early_create(1, profile_path("kept.mgp"), &r->early));
	r->options = plain();
	r->options.early = r->early;
}

static void end(struct retirement *r)
{
	collect_early_free(r->early);
	free(r->whole);
	writer_end(&r->writer);
}

static size_t place_of(const struct ledger_reader *reader, uint32_t serial)
{
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++)
		if (ledger_reader_process(reader, i)->serial == serial)
			return i;
	fail_msg("no process %u", serial);
	return 0;
}

/* all: places in all six. */
static void retire(struct retirement *r, const size_t *all, size_t count)
{
	static uint64_t opened;
	struct ledger_reader *reader = NULL;
	size_t places[PROCESSES];

	assert_null(ledger_reader_open_fd(r->writer.fd, "test", &reader));
	for (size_t i = 0; i < count; i++)
		places[i] = place_of(reader, (uint32_t)all[i] + 1);
	struct error *error =
		collect_early_retire(r->early, reader, ++opened, &r->options, places, count);

	if (error)
		fail_msg("%s", error->message);
	for (size_t i = 0; i < count; i++)
		assert_true(collect_early_has_retired(r->early, (uint32_t)all[i] + 1));
	ledger_reader_close(reader);
}

/* What a process's extents held is gone from the file. */
static void punch(struct retirement *r, size_t place)
{
	uint64_t units = r->writer.units;

	for (uint64_t unit = 1; unit < units; unit++) {
		struct mgl_extent *extent =
			(struct mgl_extent *)(void *)(r->writer.map + unit * MGL_UNIT_BYTES);

		if (extent->magic == MGL_EXTENT_MAGIC && extent->process == place + 1)
			memset(extent, 0, MGL_UNIT_BYTES);
	}
	struct mgl_control *control =
		(struct mgl_control *)(void *)(r->writer.map + MGL_CONTROL_OFFSET);

	control->retired++;
}

static void test_one_after_the_other(void **state)
{
	static struct retirement r;

	(void)state;
	begin(&r);
	for (size_t place = 0; place < PROCESSES - 1; place++) {
		retire(&r, &place, 1);
		punch(&r, place);
	}
	assert_int_equal(collect_early_retired(r.early), PROCESSES - 1);
	char *said = finish(&r.writer, "rest.mgp", &r.options);

	assert_string_equal(said, r.whole);
	free(said);
	end(&r);
}

/* Not in the order they began, and still in the file. */
static void test_out_of_order(void **state)
{
	static const size_t later[] = {4, 5}, earlier[] = {3, 1};
	static struct retirement r;

	(void)state;
	begin(&r);
	retire(&r, later, 2);
	retire(&r, earlier, 2);
	punch(&r, 4);
	char *said = finish(&r.writer, "order.mgp", &r.options);

	assert_string_equal(said, r.whole);
	free(said);
	end(&r);
}

static void test_all(void **state)
{
	static const size_t all[] = {0, 1, 2, 3, 4, 5};
	static struct retirement r;

	(void)state;
	begin(&r);
	retire(&r, all, 6);
	for (size_t i = 0; i < 6; i++)
		punch(&r, i);
	char *said = finish(&r.writer, "all.mgp", &r.options);

	assert_string_equal(said, r.whole);
	free(said);
	end(&r);
}

static void copy(const char *from, const char *to)
{
	char command[1024];

	snprintf(command, sizeof(command), "cp '%s' '%s' && cp '%s-wal' '%s-wal'", from, to, from,
		 to);
	assert_int_equal(system(command), 0);
}

/* Killed at once after it was kept, and with more of it written that was not. */
static void test_its_maker_is_killed(void **state)
{
	static const size_t first[] = {1, 2}, second[] = {3, 4};
	static struct retirement r;
	struct collect_finish_options options = plain();

	(void)state;
	begin(&r);
	retire(&r, first, 2);
	retire(&r, second, 2);
	for (size_t i = 1; i <= 4; i++)
		punch(&r, i);
	copy(profile_path("kept.mgp"), profile_path("left.mgp"));
	options.retired = profile_path("left.mgp");
	char *said = finish(&r.writer, "resumed.mgp", &options);

	/* Whose code in no module it was is not kept: its addresses are not named. */
	assert_string_equal(said, r.whole);
	free(said);
	end(&r);
}

/* One that is not there is said. */
static void test_what_is_kept_is_lost(void **state)
{
	static const size_t first[] = {1};
	static struct retirement r;
	struct collect_finish_options options = plain();

	(void)state;
	begin(&r);
	retire(&r, first, 1);
	punch(&r, 1);
	char *said = finish(&r.writer, "lost.mgp", &options);

	assert_non_null(strstr(said, "1|missed_process|1|ended, and not in this file|"));
	free(said);
	end(&r);
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
		cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_its_maker_is_killed),
		cmocka_unit_test(test_what_is_kept_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
