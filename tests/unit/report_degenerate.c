/* Profiles of programs that did next to nothing, or one thing alone, or have names made to
 * do harm: every view of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "ledger/layout.h"
#include "view_print.h"
#include "view_profile.h"

/* Data may turn round, if it is another program that reads it. */
static void assert_harmless(const char *text, bool is_data)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length;) {
		size_t bytes = strbuf_utf8_length(text + i, length - i);

		assert_true(bytes > 0);
		assert_true(text[i] == '\n' || ((unsigned char)text[i] >= 0x20 && text[i] != 0x7f));
		/* U+202A … U+202E, U+2066 … U+2069 turn text round. */
		assert_false(!is_data && bytes == 3 && memcmp(text + i, "\xe2\x80\xae", 3) == 0);
		i += bytes;
	}
}

static void assert_narrow(const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");

		if (strbuf_columns(text, length) > 80)
			fail_msg("too wide: %.*s", (int)length, text);
		text += length;
		text += *text == '\n';
	}
}

/* Whatever is shown of it, in whatever way. */
static void show_all(struct analyze_model *model)
{
	const struct analyze_linear linear = {.low = 10, .high = 1000, .step = 90};

	for (enum view_kind kind = 0; kind < VIEW_KINDS; kind++) {
		char *text = view_print(model, kind, NULL);

		assert_true(*text);
		assert_harmless(text, kind == VIEW_JSON);
		if (kind == VIEW_SUMMARY || kind == VIEW_HIST)
			assert_narrow(text);
		free(text);
	}
	for (unsigned int i = 0; i < 16; i++) {
		struct report_hist hist = {
			.by = i % 5,
			.bytes = i & 8,
			.limit = 2,
			.linear = i > 4 && i < 9 ? &linear : NULL,
		};
		char *text = view_print(model, VIEW_HIST, &hist);

		assert_harmless(text, false);
		free(text);
	}
}

static void put(struct view *view, const void *process)
{
	assert_null(store_writer_put(view->writer, STORE_TABLE_PROCESS, process));
}

static void test_nothing_recorded(void **state)
{
	struct view view;

	(void)state;
	view_begin(&view);
	struct analyze_model *model = view_end(&view);

	for (enum view_kind kind = 0; kind < VIEW_KINDS; kind++)
		free(view_print(model, kind, NULL));
	view_assert_shows(model, VIEW_SUMMARY, "mallograph: nothing was recorded\n");
	analyze_model_free(model);
}

static void test_no_allocation(void **state)
{
	struct view view;

	(void)state;
	view_begin(&view);
	struct store_process p = view_process(&view, "true");

	p.peak_time = STORE_UNKNOWN;
	put(&view, &p);
	view_snap(&view, 1, 1, 0, STORE_WHY_END);
	struct analyze_model *model = view_end(&view);
	char *text = view_print(model, VIEW_SUMMARY, NULL);

	assert_string_equal(text,
			    "mallograph: true\n"
			    "            pid 4711, program, exit 0, 2.00 s, 1 thread, complete\n"
			    "\n"
			    "  PEAK             0 B  in 0 blocks\n"
			    "  AT END           0 B  in 0 blocks\n"
			    "  ALLOCATED  0 times, 0 B\n");
	free(text);
	view_assert_shows(model, VIEW_HIST, "Nothing was allocated.\n");
	view_assert_shows(model, VIEW_TREE, "0 B at the peak: nothing to make a tree of\n");
	view_assert_shows(model, VIEW_BLOCKS,
			  "  0 allocs, 0 frees (0 bytes alloc-ed)\n"
			  "  no block is live\n");
	show_all(model);
	analyze_model_free(model);
}

/* One site of count allocations of size. */
static struct analyze_model *make_one(uint64_t count, uint64_t size, uint64_t live)
{
	struct view view;

	view_begin(&view);
	uint64_t module = view_module(&view, "/bin/one", STORE_SYMBOLS_FULL);
	uint64_t main = view_place(&view, module, "main", "one.c", 1);
	uint64_t work = view_place(&view, module, "work", "one.c", 2);
	struct store_process p = view_process(&view, "one");

	view_site(&view, 1, view_stack(&view, (uint64_t[]){main, work, 0}), work, count, size,
		  live);
	p.allocs = p.peak_blocks = count;
	p.frees = count - live;
	p.alloc_bytes = p.peak_bytes = count * size;
	p.live_blocks = live;
	p.live_bytes = live * size;
	put(&view, &p);
	for (unsigned int i = 0; i < 6; i++)
		view_snap(&view, 1, 300 * i, count * size, STORE_WHY_TICK);
	view_snap(&view, 1, 2000, live * size, STORE_WHY_END);
	return view_end(&view);
}

static void test_zero_sizes_only(void **state)
{
	struct analyze_model *model = make_one(100, 0, 0);

	(void)state;
	view_assert_shows(model, VIEW_SUMMARY, "  PEAK             0 B  at 1.00 s in 100 blocks\n");
	view_assert_hides(model, VIEW_SUMMARY, "of the peak was");
	view_assert_hides(model, VIEW_SUMMARY, "LIVE HEAP");
	view_assert_shows(model, VIEW_SUMMARY,
			  "\nALLOCATIONS BY SITE\n"
			  "    times      %     allocs     each  temp  site < caller\n"
			  "      100  100.0        100      0 B     0  work < main\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  "             0 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 100\n"
			  "             1 |                                         0\n");
	view_assert_shows(model, VIEW_TEXT, "  1. 0 B at the peak (0.0 %) by malloc\n");
	view_assert_shows(model, VIEW_JSON, "\"sizes\": [[0, 1, 100]]");
	show_all(model);
	analyze_model_free(model);
}

static void test_one_huge_size(void **state)
{
	/* SQLite's integers end at 2^63. */
	struct analyze_model *model = make_one(1, INT64_MAX, 1);

	(void)state;
	view_assert_shows(model, VIEW_SUMMARY, "  PEAK         8.0 EiB  at 1.00 s in 1 block\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  "\n  All of the peak was allocated by work (one).\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  "2305843009213693952 |                                         0\n"
			  "4611686018427387904 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1\n"
			  "9223372036854775808 |                                         0\n");
	view_assert_shows(model, VIEW_SUMMARY, " 8.0 EiB |");
	view_assert_shows(model, VIEW_TREE, "   8.0 EiB 100.0 %  main (one)\n");
	view_assert_shows(model, VIEW_JSON,
			  "\"sizes\": [[8070450532247928832, 9223372036854775808, 1]]");
	analyze_model_free(model);
	/* Sums past that are as large as can be, not small. */
	model = make_one(1, UINT64_C(1) << 62, 0);
	show_all(model);
	analyze_model_free(model);
}

static void test_sizes_of_one_kind(void **state)
{
	struct analyze_model *model = make_one(1000000, 64, 0);

	(void)state;
	view_assert_shows(model, VIEW_SUMMARY,
			  "SIZES    value  ------------- Distribution ------------- count\n"
			  "            32 |                                         0\n"
			  "            64 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1,000,000\n"
			  "           128 |                                         0\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  " 61.0 MiB  100.0  1,000,000     64 B     0  work < main\n");
	view_assert_hides(model, VIEW_SUMMARY, "others");
	view_assert_hides(model, VIEW_SUMMARY, "SYMBOLS");
	show_all(model);
	analyze_model_free(model);
}

static void test_a_thousand_threads(void **state)
{
	struct view view;

	(void)state;
	view_begin(&view);
	uint64_t module = view_module(&view, "/bin/many", STORE_SYMBOLS_FULL);
	uint64_t work = view_place(&view, module, "work", "many.c", 2);
	struct store_process p = view_process(&view, "many");

	view_site(&view, 1, view_stack(&view, (uint64_t[]){work, 0}), work, 500500, 16, 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "worker-%u", (unsigned int)i);
		assert_null(store_put(view.writer, &((struct store_thread){
							   .id = i,
							   .process = 1,
							   .name = view_string(&view, name),
							   .tid = 5000 + i,
							   .merged = 1,
							   .allocs = i,
							   .bytes = 16 * i,
						   })));
		assert_null(store_put(view.writer, &((struct store_thread_size){
							   .process = 1,
							   .thread = i,
							   .class = mgl_size_class(16),
							   .allocs = i,
							   .bytes = 16 * i,
						   })));
	}
	p.threads = 1000;
	p.allocs = p.frees = p.peak_blocks = 500500;
	p.alloc_bytes = p.peak_bytes = 16 * p.allocs;
	p.peak_error = 64 << 10;
	put(&view, &p);
	struct analyze_model *model = view_end(&view);
	struct report_hist hist = {.by = ANALYZE_BY_THREAD, .limit = 2};
	char *text = view_print(model, VIEW_HIST, &hist);

	assert_non_null(strstr(text, "worker-1000\n"));
	assert_non_null(strstr(text, "worker-999\n"));
	assert_null(strstr(text, "worker-998\n"));
	assert_non_null(strstr(text, "\n998 others\n"));
	assert_non_null(
		strstr(text, "            16 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 498,501\n"));
	free(text);
	view_assert_shows(model, VIEW_SUMMARY, ", 1,000 threads, complete\n");
	view_assert_shows(model, VIEW_SUMMARY, "(+/- 64 KiB) at 1.00 s in 500,500 blocks\n");
	show_all(model);
	analyze_model_free(model);
}

#define LONG 65536

static void test_hostile_names(void **state)
{
	static char endless[LONG + 1];
	static const char *const names[] = {
		"\033[2J\033]0;owned\007",
		"<b onload=alert(1)>&amp;",
		"two\nlines\r\tmore",
		"\xff\xfe\x80 not utf-8",
		"\xe2\x80\xae"
		"desrever",
		"%s%n%d",
		"'; DROP TABLE site; --",
		"\"quoted\\",
		endless,
	};
	struct view view;

	(void)state;
	memset(endless, 'x', LONG);
	view_begin(&view);
	struct store_process p = view_process(&view, names[0]);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t module = view_module(&view, names[i], STORE_SYMBOLS_NONE);
		uint64_t outer = view_place(&view, module, names[i], names[i], 1);
		uint64_t inner = view_place(&view, module, names[(i + 1) % 9], names[i], 2);

		view_site(&view, 1, view_stack(&view, (uint64_t[]){outer, inner, 0}), inner, 10, 10,
			  1);
		assert_null(store_put(view.writer, &((struct store_thread){
							   .id = i + 1,
							   .process = 1,
							   .name = view_string(&view, names[i]),
						   })));
		assert_null(store_put(view.writer, &((struct store_thread_size){
							   .process = 1,
							   .thread = i + 1,
							   .class = 10,
							   .allocs = 10,
							   .bytes = 100,
						   })));
		assert_null(store_put(view.writer, &((struct store_loss){
							   .process = 1,
							   .kind = {names[i], strlen(names[i])},
							   .count = 2,
							   .detail = {names[i], strlen(names[i])},
						   })));
		assert_null(store_put(view.writer, &((struct store_block){
							   .process = 1,
							   .address = 0x1000 + i * 16,
							   .site = i + 1,
							   .size = 10,
							   .number = i,
							   .born = 1,
						   })));
	}
	p.exe = view_string(&view, names[2]);
	p.argv = (struct store_text){endless, LONG};
	p.allocs = p.peak_blocks = 90;
	p.frees = 81;
	p.alloc_bytes = p.peak_bytes = 900;
	p.live_blocks = 9;
	p.live_bytes = 90;
	put(&view, &p);
	struct analyze_model *model = view_end(&view);

	for (enum view_kind kind = 0; kind < VIEW_KINDS; kind++) {
		char *text = view_print(model, kind, NULL);

		assert_harmless(text, kind == VIEW_JSON);
		free(text);
	}
	for (enum analyze_by by = 0; by <= ANALYZE_BY_FUNCTION; by++) {
		struct report_hist hist = {.by = by, .limit = 20};
		char *text = view_print(model, VIEW_HIST, &hist);

		assert_harmless(text, false);
		free(text);
	}
	/* The JSON has them whole. */
	view_assert_shows(model, VIEW_JSON, "\"function\": \"\\u001b[2J\\u001b]0;owned\\u0007\"");
	view_assert_shows(model, VIEW_JSON, "\"file\": \"\\\\xff\\\\xfe\\\\x80 not utf-8\"");
	view_assert_shows(model, VIEW_JSON, endless);
	view_assert_shows(model, VIEW_TEXT, "\\x1b[2J\\x1b]0;owned\\x07");
	analyze_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_recorded),  cmocka_unit_test(test_no_allocation),
		cmocka_unit_test(test_zero_sizes_only),   cmocka_unit_test(test_one_huge_size),
		cmocka_unit_test(test_sizes_of_one_kind), cmocka_unit_test(test_a_thousand_threads),
		cmocka_unit_test(test_hostile_names),
	};

	return cmocka_run_group_tests_name("report-degenerate", tests, NULL, NULL);
}
