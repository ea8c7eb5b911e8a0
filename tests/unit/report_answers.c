/* What the first screen answers of programs like those there are: servers, stripped libraries,
 * closures, heaps of a program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view_print.h"
#include "view_profile.h"

struct maker {
	struct view view;
	uint64_t program, library, libc, main;
};

static void begin(struct maker *maker)
{
	view_begin(&maker->view);
	maker->program = view_module(&maker->view, "/usr/bin/program", STORE_SYMBOLS_SYMTAB);
	maker->library = view_module(&maker->view, "/usr/lib/libdeep.so.1", STORE_SYMBOLS_SYMTAB);
	maker->libc = view_module(&maker->view, "/lib/libc.so.6", STORE_SYMBOLS_FULL);
	maker->main = view_place(&maker->view, maker->program, "main", NULL, 0);
}

/* bytes at the peak below main and these functions of the program, the outermost first; the
 * last allocates. */
static void add(struct maker *maker, uint64_t bytes, const char *const *functions)
{
	uint64_t places[16] = {maker->main};
	size_t count = 1;

	for (; *functions; functions++)
		places[count++] = view_place(&maker->view, maker->program, *functions, NULL, 0);
	view_site(&maker->view, 1, view_stack(&maker->view, places), places[count - 1], 1, bytes,
		  1);
}

static struct analyze_model *end(struct maker *maker, struct store_process *process, uint64_t peak)
{
	process->allocs = process->peak_blocks = process->live_blocks = maker->view.site;
	process->alloc_bytes = process->peak_bytes = process->live_bytes = peak;
	assert_null(store_put(maker->view.writer, process));
	return view_end(&maker->view);
}

static struct analyze_model *end_as(struct maker *maker, const char *command, uint64_t peak)
{
	struct store_process process = view_process(&maker->view, command);

	return end(maker, &process, peak);
}

static void test_an_event_loop(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 300, (const char *[]){"loop", "read", "call", "hset", "insert", NULL});
	add(&maker, 200, (const char *[]){"loop", "read", "call", "push", "grow", NULL});
	add(&maker, 50, (const char *[]){"loop", "read", "call", "get", "reply", NULL});
	/* By itself: the table has it. */
	add(&maker, 100, (const char *[]){"loop", "read", "call", "trace", NULL});
	add(&maker, 200, (const char *[]){"loop", "accept", NULL});
	add(&maker, 150, (const char *[]){"load", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(
		model, VIEW_SUMMARY,
		"\n  85 % of the peak was allocated below loop (program), 65 % below call: "
		"hset\n  30 %, push 20 %.\n\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  "\nSYMBOLS  program: function names only, no line numbers\n");
	analyze_model_free(model);
}

/* Where less than half is left of what branches, a little more above it does not. */
static void test_branches_further_down(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 250, (const char *[]){"loop", "read", "input", "call", "hset", "grow", NULL});
	add(&maker, 230, (const char *[]){"loop", "read", "input", "call", "push", "grow", NULL});
	add(&maker, 40, (const char *[]){"loop", "read", "input", "parse", NULL});
	add(&maker, 330, (const char *[]){"loop", "accept", NULL});
	add(&maker, 150, (const char *[]){"load", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(
		model, VIEW_SUMMARY,
		"\n  85 % of the peak was allocated below loop (program), 48 % below call: "
		"hset\n  25 %, push 23 %.\n\n");
	analyze_model_free(model);
}

/* A little narrower is better than a little more. */
static void test_the_narrower_function(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 780, (const char *[]){"loop", "handle", "create", NULL});
	add(&maker, 60, (const char *[]){"loop", "read", NULL});
	add(&maker, 160, (const char *[]){"load", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "\n  78 % of the peak was allocated by create (program).\n\n");
	analyze_model_free(model);
}

/* Of main it says something only where that allocates itself. */
static void test_main(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 900, (const char *[]){NULL});
	add(&maker, 100, (const char *[]){"work", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "\n  90 % of the peak was allocated by main (program).\n\n");
	analyze_model_free(model);
	begin(&maker);
	add(&maker, 300, (const char *[]){NULL});
	add(&maker, 300, (const char *[]){"work", NULL});
	add(&maker, 400, (const char *[]){"rest", NULL});
	model = end_as(&maker, "program", 1000);
	view_assert_hides(model, VIEW_SUMMARY, "of the peak was");
	analyze_model_free(model);
}

/* What one function called and has nearly all of is no branch. */
static void test_recursion_has_no_branches(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 400, (const char *[]){"list", "one", "list", "one", "a", NULL});
	add(&maker, 300, (const char *[]){"list", "one", "list", "one", "b", NULL});
	add(&maker, 300, (const char *[]){"list", "one", "list", "one", "c", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "\n  All of the peak was allocated below one (program).\n\n");
	analyze_model_free(model);
}

static void add_nameless(struct maker *maker, uint64_t module, uint64_t bytes)
{
	uint64_t place = view_place(&maker->view, module, NULL, NULL, 0);

	view_site(&maker->view, 1, view_stack(&maker->view, (uint64_t[]){maker->main, place, 0}),
		  place, 1, bytes, 1);
}

static void test_a_library_without_names(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add_nameless(&maker, maker.library, 450);
	add_nameless(&maker, maker.library, 450);
	add_nameless(&maker, maker.program, 100);
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "\n  90 % of the peak was allocated by libdeep.so.1.\n\n");
	analyze_model_free(model);

	/* Of the program itself it would say nothing. */
	begin(&maker);
	add_nameless(&maker, maker.program, 900);
	add_nameless(&maker, maker.library, 100);
	model = end_as(&maker, "program", 1000);
	view_assert_hides(model, VIEW_SUMMARY, "of the peak was");
	analyze_model_free(model);
}

static void test_what_reads_the_same_is_one(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 300, (const char *[]){"app::run", "app::words", NULL});
	add(&maker, 300, (const char *[]){"app::run", "app::words::{{closure}}", NULL});
	add(&maker, 300,
	    (const char *[]){"app::run::{{closure}}", "app::words", "app::words", NULL});
	add(&maker, 100, (const char *[]){"app::run", "app::run::{{closure}}", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "site < caller\n"
			  "    900 B   90.0          3    300 B     0  app::words < app::run\n"
			  "    100 B   10.0          1    100 B     0  app::run < main\n\n");
	analyze_model_free(model);
}

/* Nobody calls main; a place nobody knows the name of is better than what begins a program. */
static void test_callers(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	uint64_t outermost = view_place(&maker.view, maker.program, "_start", NULL, 0);
	uint64_t start = view_place(&maker.view, maker.libc, "__libc_start_main", NULL, 0);
	uint64_t nameless = view_place(&maker.view, maker.program, NULL, NULL, 0);
	uint64_t inner = view_place(&maker.view, maker.program, NULL, NULL, 0);
	uint64_t in_main[] = {outermost, start, maker.main, 0};
	uint64_t stripped[] = {outermost, start, nameless, inner, 0};

	view_site(&maker.view, 1, view_stack(&maker.view, in_main), maker.main, 1, 600, 1);
	view_site(&maker.view, 1, view_stack(&maker.view, stripped), inner, 1, 400, 1);
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY, "600 B     0  main\n");
	view_assert_shows(model, VIEW_SUMMARY, "400 B     0  program+0x500 < +0x400\n");
	analyze_model_free(model);
}

/* Of a place the module's name gives way: it is the caller that tells. */
static void test_a_place_makes_room_for_its_caller(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	uint64_t caller = view_place(&maker.view, maker.library, "deep_btree_insert", NULL, 0);
	uint64_t longer =
		view_place(&maker.view, maker.library, "deep_btree_insert_all_of_them", NULL, 0);
	uint64_t place = view_place(&maker.view, maker.library, NULL, NULL, 0);
	uint64_t stack = view_stack(&maker.view, (uint64_t[]){maker.main, caller, place, 0});
	uint64_t other = view_stack(&maker.view, (uint64_t[]){maker.main, longer, place, 0});

	view_site(&maker.view, 1, stack, place, 1, 600, 1);
	view_site(&maker.view, 1, other, place, 1, 400, 1);
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY, "  libdeep...+0x400 < deep_btree_insert\n");
	view_assert_shows(model, VIEW_SUMMARY, "  libdeep...+0x400 < deep_btree_ins...\n");
	analyze_model_free(model);
}

static void test_a_program_called_by_another_name(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	add(&maker, 1000, (const char *[]){"work", NULL});
	struct analyze_model *model = end_as(&maker, "/usr/bin/server", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "mallograph: /usr/bin/server\n"
			  "            pid 4711, program, exit 0, 2.00 s, 1 thread, complete\n");
	analyze_model_free(model);
	begin(&maker);
	add(&maker, 1000, (const char *[]){"work", NULL});
	model = end_as(&maker, "./program", 1000);
	view_assert_shows(model, VIEW_SUMMARY, "            pid 4711, exit 0, ");
	analyze_model_free(model);
}

static struct analyze_model *make_mapped(uint64_t mapped, uint64_t rss)
{
	struct maker maker;

	begin(&maker);
	add(&maker, 4 << 20, (const char *[]){"work", NULL});
	struct store_process process = view_process(&maker.view, "program");
	struct store_snap snap = {
		.id = 1,
		.process = 1,
		.time = 1000000,
		.why = STORE_WHY_TICK,
		.mapped = mapped,
	};

	assert_null(store_put(maker.view.writer, &snap));
	process.rss_peak = rss;
	return end(&maker, &process, 4 << 20);
}

static void test_a_heap_of_its_own(void **state)
{
	struct analyze_model *model = make_mapped(100 << 20, 80 << 20);

	(void)state;
	view_assert_shows(
		model, VIEW_SUMMARY,
		"  MAPPED     100.0 MiB  at most, by its own mmap calls: they are no allocations\n");
	analyze_model_free(model);
	/* What is in use is the heap, whatever else is mapped. */
	model = make_mapped(100 << 20, 6 << 20);
	view_assert_hides(model, VIEW_SUMMARY, "MAPPED");
	analyze_model_free(model);
	model = make_mapped(1 << 20, 80 << 20);
	view_assert_hides(model, VIEW_SUMMARY, "MAPPED");
	analyze_model_free(model);
}

static void test_modules_nothing_was_asked_of(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	view_module(&maker.view, "/lib/libidle.so", STORE_SYMBOLS_PENDING);
	uint64_t asked = view_module(&maker.view, "/lib/libasked.so", STORE_SYMBOLS_PENDING);

	add_nameless(&maker, asked, 1000);
	struct store_module full = {
		.id = ++maker.view.module,
		.kind = STORE_MODULE_FILE,
		.path = view_string(&maker.view, "/lib/libreason.so"),
		.symbols = STORE_SYMBOLS_NONE,
		.reason = view_string(&maker.view,
				      "no debug information in it, and no debug file for it "
				      "anywhere that was looked at"),
	};
	assert_null(store_put(maker.view.writer, &full));
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_INFO, "           unused  /lib/libidle.so\n");
	view_assert_shows(model, VIEW_INFO, "           pending /lib/libasked.so\n");
	view_assert_shows(
		model, VIEW_INFO,
		"           none    /lib/libreason.so\n"
		"                   no debug information in it, and no debug file for it anywhere\n"
		"                   that was looked at\n");
	analyze_model_free(model);
}

/* After an upgrade: what was there is said, and that it is another. */
static void test_files_of_another_build(void **state)
{
	struct maker maker;

	(void)state;
	begin(&maker);
	struct store_module module = {
		.id = ++maker.view.module,
		.kind = STORE_MODULE_FILE,
		.path = view_string(&maker.view, "/usr/lib/libold.so.2"),
		.symbols = STORE_SYMBOLS_SYMTAB,
		.reason = view_string(&maker.view,
				      "no debug information in it; not used: "
				      "/usr/lib/debug/libold.so.2.debug (of another build-id)"),
	};

	assert_null(store_put(maker.view.writer, &module));
	add_nameless(&maker, module.id, 500);
	add(&maker, 500, (const char *[]){"work", NULL});
	struct analyze_model *model = end_as(&maker, "program", 1000);

	view_assert_shows(model, VIEW_SUMMARY,
			  "         libold.so.2: a debug file of another build was not used\n");
	view_assert_hides(model, VIEW_SUMMARY, "program: a debug file");
	analyze_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_of_another_build),
		cmocka_unit_test(test_an_event_loop),
		cmocka_unit_test(test_branches_further_down),
		cmocka_unit_test(test_the_narrower_function),
		cmocka_unit_test(test_main),
		cmocka_unit_test(test_recursion_has_no_branches),
		cmocka_unit_test(test_a_library_without_names),
		cmocka_unit_test(test_what_reads_the_same_is_one),
		cmocka_unit_test(test_callers),
		cmocka_unit_test(test_a_place_makes_room_for_its_caller),
		cmocka_unit_test(test_a_program_called_by_another_name),
		cmocka_unit_test(test_a_heap_of_its_own),
		cmocka_unit_test(test_modules_nothing_was_asked_of),
	};

	return cmocka_run_group_tests_name("report-answers", tests, NULL, NULL);
}
