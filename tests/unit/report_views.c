/* What is shown of profiles made for it: who is named, trees, histograms, blocks, time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/finding.h"
#include "analyze/stacks.h"
#include "view_print.h"
#include "view_profile.h"

/* A stripped library under a program with symbols, as jq is. */
static struct analyze_model *make_sample(void)
{
	struct view view;

	view_begin(&view);
	uint64_t program = view_module(&view, "/usr/bin/program", STORE_SYMBOLS_FULL);
	uint64_t library = view_module(&view, "/usr/lib/libjq.so.1", STORE_SYMBOLS_SYMTAB);
	uint64_t libc = view_module(&view, "/lib/libc.so.6", STORE_SYMBOLS_NONE);
	uint64_t start = view_place(&view, libc, "__libc_start_main", NULL, 0);
	uint64_t main = view_place(&view, program, "main", "main.c", 10);
	uint64_t parse = view_place(&view, library, "jv_parser_next", NULL, 0);
	uint64_t inner = view_place(&view, library, NULL, NULL, 0);
	uint64_t deeper = view_place(&view, library, NULL, NULL, 0);
	uint64_t print_it = view_inlined(&view, program, "put", "dump(int, char const*)");
	uint64_t wrapper = view_place(&view, program, "xmalloc", "util.c", 3);
	struct store_process p = view_process(&view, "jq");
	uint64_t big = view_stack(&view, (uint64_t[]){start, main, parse, inner, deeper, 0});
	uint64_t other = view_stack(&view, (uint64_t[]){start, main, parse, inner, 0});
	uint64_t small = view_stack(&view, (uint64_t[]){start, main, print_it, wrapper, 0});

	view_site(&view, 1, big, deeper, 100, 1000, 0);
	view_site(&view, 1, other, inner, 10, 500, 2);
	view_site(&view, 1, small, print_it, 1000, 10, 1000);
	p.allocs = 1110;
	p.frees = 108;
	p.alloc_bytes = p.peak_bytes = 115000;
	p.peak_blocks = 1110;
	p.live_blocks = 1002;
	p.live_bytes = 11000;
	assert_null(store_put(view.writer, &p));
	for (unsigned int i = 0; i < 2; i++)
		assert_null(store_put(view.writer, &((struct store_block){
							   .process = 1,
							   .address = 0x7000 - 0x1000 * i,
							   .site = 2 + i,
							   .size = i ? 10 : 500,
							   .number = i + 1,
							   .born = 1234567 * (i + 1),
						   })));
	assert_null(store_put(view.writer, &((struct store_mapping){
						   .process = 1,
						   .module = library,
						   .start = 0x7f0000001000,
						   .stop = 0x7f0000002000,
						   .file_offset = 0x0,
						   .loaded = 0,
						   .unloaded = STORE_UNKNOWN,
					   })));
	for (unsigned int i = 0; i < 20; i++)
		view_snap(&view, 1, 100 * i, i < 10 ? 11500 * i : 11000, STORE_WHY_TICK);
	view_snap(&view, 1, 1000, 115000, STORE_WHY_PEAK);
	view_snap(&view, 1, 2000, 11000, STORE_WHY_END);
	return view_end(&view);
}

static void test_the_sentence(void **state)
{
	struct analyze_model *model = make_sample();
	struct analyze_finding finding;

	(void)state;
	assert_null(analyze_finding_make(model, 0, &finding));
	assert_int_equal(finding.most.peak_bytes, 105000);
	assert_false(finding.most.is_title);
	view_assert_shows(
		model, VIEW_SUMMARY,
		"\n  91 % of the peak was allocated below jv_parser_next (libjq.so.1).\n");
	analyze_model_free(model);
}

static void test_callers_have_names(void **state)
{
	struct analyze_model *model = make_sample();

	(void)state;
	/* Not main, which has a name too: the nearest does. */
	view_assert_shows(model, VIEW_SUMMARY, "  libjq.so.1+0x500 < jv_parser_next\n");
	view_assert_shows(model, VIEW_SUMMARY, "  libjq.so.1+0x400 < jv_parser_next\n");
	/* Inlined is a frame of its own; recursion and wrappers are looked through. */
	view_assert_shows(model, VIEW_SUMMARY, "  put < dump\n");
	view_assert_shows(model, VIEW_TEXT,
			  "       xmalloc (util.c:3:7) in program\n"
			  "     > put (inner.h:5:7) in program [inlined]\n"
			  "       dump(int, char const*) (outer.c:50:7) in program\n"
			  "       main (main.c:10:7) in program\n"
			  "       __libc_start_main (libc.so.6+0x100)\n");
	view_assert_shows(
		model, VIEW_JSON,
		"{\"function\": \"put\", \"file\": \"inner.h\", \"line\": 5, \"column\": 7, "
		"\"module\": \"/usr/bin/program\", \"offset\": 1536, \"inlined\": true}, "
		"{\"function\": \"dump(int, char const*)\", \"file\": \"outer.c\", "
		"\"line\": 50, \"column\": 7, \"module\": \"/usr/bin/program\", "
		"\"offset\": 1536, \"inlined\": false}");
	view_assert_shows(model, VIEW_SUMMARY,
			  "\nSYMBOLS  libjq.so.1: only some function names, no line numbers\n");
	analyze_model_free(model);
}

static void test_titles_anew(void **state)
{
	static const char *const patterns[] = {"put", "dump"};
	struct analyze_model *model = make_sample();

	(void)state;
	assert_null(analyze_titles_set(model, patterns, 1));
	view_assert_shows(model, VIEW_SUMMARY, "  dump < main\n");
	assert_null(analyze_titles_set(model, patterns, 2));
	view_assert_shows(model, VIEW_SUMMARY, "     0  main\n");
	assert_null(analyze_titles_set(model, NULL, 0));
	view_assert_shows(model, VIEW_SUMMARY, "  put < dump\n");
	analyze_model_free(model);
}

static void test_trees(void **state)
{
	struct analyze_model *model = make_sample();

	(void)state;
	view_assert_shows(model, VIEW_TREE,
			  "   112 KiB 100.0 %  __libc_start_main (libc.so.6)\n"
			  "   112 KiB 100.0 %  main (program)\n"
			  "   103 KiB  91.3 %    jv_parser_next (libjq.so.1)\n"
			  "   103 KiB  91.3 %      libjq.so.1+0x400\n"
			  "   4.9 KiB   4.3 %        [itself]\n"
			  "    98 KiB  87.0 %        libjq.so.1+0x500\n"
			  "   9.8 KiB   8.7 %    dump\n"
			  "   9.8 KiB   8.7 %      put\n"
			  "   9.8 KiB   8.7 %      xmalloc\n");
	view_assert_shows(model, VIEW_TREE_UP,
			  "    98 KiB  87.0 %  libjq.so.1+0x500\n"
			  "    98 KiB  87.0 %    libjq.so.1+0x400\n"
			  "    98 KiB  87.0 %    jv_parser_next\n"
			  "    98 KiB  87.0 %    main (program)\n"
			  "    98 KiB  87.0 %    __libc_start_main (libc.so.6)\n"
			  "   9.8 KiB   8.7 %  put (program)\n"
			  "   9.8 KiB   8.7 %    dump\n");
	analyze_model_free(model);
}

static void test_small_branches_are_summed(void **state)
{
	struct view view;

	(void)state;
	view_begin(&view);
	uint64_t module = view_module(&view, "/bin/x", STORE_SYMBOLS_FULL);
	uint64_t main = view_place(&view, module, "main", "x.c", 1);
	struct store_process p = view_process(&view, "x");

	for (unsigned int i = 0; i < 300; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		uint64_t place = view_place(&view, module, name, "x.c", i + 2);

		view_site(&view, 1, view_stack(&view, (uint64_t[]){main, place, 0}), place, 1, 100,
			  0);
	}
	p.allocs = p.frees = p.peak_blocks = 300;
	p.alloc_bytes = p.peak_bytes = 30000;
	assert_null(store_put(view.writer, &p));
	struct analyze_model *model = view_end(&view);

	view_assert_shows(model, VIEW_TREE,
			  "    29 KiB 100.0 %  main (x)\n"
			  "    29 KiB 100.0 %    [300 smaller branches]\n");
	view_assert_shows(model, VIEW_TREE_UP, "    29 KiB 100.0 %  [300 smaller branches]\n");
	analyze_model_free(model);
}

static void test_time(void **state)
{
	struct analyze_model *model = make_sample();

	(void)state;
	view_assert_shows(
		model, VIEW_SUMMARY,
		"\nLIVE HEAP                           peak v\n"
		" 112 KiB |                        ...:::::::\n"
		"         |                  ...:::::::::::::\n"
		"  56 KiB |         ...::::::::::::::::::::::\n"
		"         |   ...::::::::::::::::::::::::::::............................\n"
		"       0 +--------------------------------------------------------------\n"
		"         0 s                           1.00                         2.00\n");
	analyze_model_free(model);
}

static void test_blocks(void **state)
{
	struct analyze_model *model = make_sample();
	char *text = view_print(model, VIEW_BLOCKS, NULL);

	(void)state;
	assert_string_equal(text, "> /usr/bin/program\n"
				  "\n"
				  "SUMMARY:\n"
				  "  1110 allocs, 108 frees (115000 bytes alloc-ed)\n"
				  "\n"
				  "  ~ alloc #1 (! 1.234 ms) -> [500 bytes @ 0x7000]:\n"
				  "    @ 0x7f0000001400: ?? (libjq.so.1+0x400)\n"
				  "      (in /usr/lib/libjq.so.1)\n"
				  "    @ 0x7f0000001300: jv_parser_next (libjq.so.1+0x300)\n"
				  "      (in /usr/lib/libjq.so.1)\n"
				  "    @ ?: main (main.c:10:7)\n"
				  "      (in /usr/bin/program)\n"
				  "    @ ?: __libc_start_main (libc.so.6+0x100)\n"
				  "      (in /lib/libc.so.6)\n"
				  "\n"
				  "  ~ alloc #2 (! 2.469 ms) -> [10 bytes @ 0x6000]:\n"
				  "    @ ?: xmalloc (util.c:3:7)\n"
				  "      (in /usr/bin/program)\n"
				  "    @ ?: put (inner.h:5:7) [inlined]\n"
				  "      (in /usr/bin/program)\n"
				  "    @ ?: dump(int, char const*) (outer.c:50:7)\n"
				  "      (in /usr/bin/program)\n"
				  "    @ ?: main (main.c:10:7)\n"
				  "      (in /usr/bin/program)\n"
				  "    @ ?: __libc_start_main (libc.so.6+0x100)\n"
				  "      (in /lib/libc.so.6)\n");
	free(text);
	analyze_model_free(model);
}

static void assert_hist(struct analyze_model *model, struct report_hist hist, const char *expected)
{
	hist.limit = hist.limit ? hist.limit : 20;
	char *text = view_print(model, VIEW_HIST, &hist);

	if (strcmp(text, expected) != 0)
		fputs(text, stderr);
	assert_string_equal(text, expected);
	free(text);
}

#define HEADING "         value  ------------- Distribution ------------- count\n"

static void test_histograms(void **state)
{
	struct analyze_model *model = make_sample();
	const struct analyze_linear linear = {.low = 0, .high = 1000, .step = 250};
	const struct analyze_linear exact = {.low = 8, .high = 12, .step = 1};

	(void)state;
	assert_hist(model, (struct report_hist){0},
		    HEADING "             4 |                                         0\n"
			    "             8 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@     1,000\n"
			    "            16 |                                         0\n"
			    "            32 |                                         0\n"
			    "            64 |                                         0\n"
			    "           128 |                                         0\n"
			    "           256 |                                         10\n"
			    "           512 |@@@@                                     100\n"
			    "          1024 |                                         0\n");
	assert_hist(model, (struct report_hist){.linear = &exact},
		    HEADING "           < 8 |                                         0\n"
			    "             8 |                                         0\n"
			    "             9 |                                         0\n"
			    "            10 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@     1,000\n"
			    "            11 |                                         0\n"
			    "         >= 12 |@@@@                                     110\n");
	assert_hist(model, (struct report_hist){.linear = &linear},
		    HEADING "             0 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@     1,000\n"
			    "           256 |                                         10\n"
			    "           512 |                                         0\n"
			    "           768 |@@@@                                     100\n"
			    "       >= 1024 |                                         0\n"
			    "\n"
			    "Sizes are kept in classes, four to a power of two: bounds moved to "
			    "theirs.\n");
	analyze_model_free(model);
}

#define DEEP 40

/* A plugin here, then there: each block's stack has the addresses of its time. Three blocks
 * a site, so that what is kept of its stack is used, and stacks share their outer frames. */
static void test_blocks_of_a_module_that_moved(void **state)
{
	struct view view;
	uint64_t places[DEEP + 1] = {0};

	(void)state;
	view_begin(&view);
	uint64_t program = view_module(&view, "/usr/bin/program", STORE_SYMBOLS_FULL);
	uint64_t plugin = view_module(&view, "/usr/lib/plugin.so", STORE_SYMBOLS_FULL);
	struct store_process p = view_process(&view, "program");

	for (unsigned int i = 0; i < DEEP; i++)
		places[i] = view_place(&view, i == DEEP / 2 ? plugin : program, "step", "s.c", i);
	for (unsigned int i = 0; i < 2; i++) {
		places[DEEP - 1] = view_place(&view, i ? plugin : program, "last", "l.c", i);
		uint64_t stack = view_stack(&view, places);

		view_site(&view, 1, stack, places[DEEP - 1], 3, 8, 3);
	}
	p.allocs = p.live_blocks = p.peak_blocks = 6;
	p.alloc_bytes = p.live_bytes = p.peak_bytes = 48;
	assert_null(store_put(view.writer, &p));
	for (unsigned int i = 0; i < 6; i++)
		assert_null(store_put(view.writer, &((struct store_block){
							   .process = 1,
							   .address = 0x1000 + 0x20 * i,
							   .site = 1 + i % 2,
							   .size = 8,
							   .number = i + 1,
							   .born = 1000000 * (i + 1),
						   })));
	for (unsigned int i = 0; i < 2; i++)
		assert_null(
			store_put(view.writer, &((struct store_mapping){
						       .process = 1,
						       .module = plugin,
						       .start = i ? 0x7e0000000000 : 0x7f0000000000,
						       .stop = i ? 0x7e0000010000 : 0x7f0000010000,
						       .loaded = i ? 3500000 : 0,
						       .unloaded = i ? STORE_UNKNOWN : 3200000,
					       })));
	assert_null(store_put(view.writer, &((struct store_mapping){
						   .process = 1,
						   .module = program,
						   .start = 0x400000,
						   .stop = 0x500000,
						   .loaded = 0,
						   .unloaded = STORE_UNKNOWN,
					   })));
	struct analyze_model *model = view_end(&view);
	char *text = view_print(model, VIEW_BLOCKS, NULL);

	const char *at = text;

	for (unsigned int i = 0; i < 6; i++) {
		char head[64];
		const char *base = i < 3 ? "    @ 0x7f000000" : "    @ 0x7e000000";
		const char *other = i < 3 ? "    @ 0x7e000000" : "    @ 0x7f000000";
		unsigned int lines = 0;

		snprintf(head, sizeof(head), "\n  ~ alloc #%u (! %u.000 ms) -> [8 bytes @ 0x%x]:\n",
			 i + 1, i + 1, 0x1000 + 0x20 * i);
		const char *start = strstr(at, head);

		assert_non_null(start);
		const char *end = strstr(start + 1, "\n  ~ alloc #");
		size_t length = end ? (size_t)(end - start) : strlen(start);

		assert_non_null(memmem(start, length, base, strlen(base)));
		assert_null(memmem(start, length, other, strlen(other)));
		for (const char *line = start;
		     (line = strstr(line, "    @ ")) && line < start + length; line++)
			lines++;
		assert_int_equal(lines, DEEP);
		at = start + 1;
	}
	free(text);
	analyze_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_sentence),
		cmocka_unit_test(test_callers_have_names),
		cmocka_unit_test(test_titles_anew),
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_small_branches_are_summed),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_blocks_of_a_module_that_moved),
		cmocka_unit_test(test_histograms),
	};

	return cmocka_run_group_tests_name("report-views", tests, NULL, NULL);
}
