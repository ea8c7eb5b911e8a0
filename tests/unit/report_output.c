#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "finished.h"
#include "report/report.h"

enum kind { JSON, TEXT, SUMMARY };

/* What is printed; malloc'd. */
static char *print(const struct writer *writer, enum kind kind,
		   const struct report_options *options, const struct report_summary *summary)
{
	struct analyze_model *model = finished_model(writer);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	if (kind == JSON)
		assert_null(report_json_print(model, options, out));
	else if (kind == TEXT)
		assert_null(report_text_print(model, options, out));
	else
		assert_null(report_summary_print(model, summary, out));
	assert_int_equal(fclose(out), 0);
	analyze_model_free(model);
	return text;
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part)) {
		fputs(text, stderr);
		fail_msg("has no '%s'", part);
	}
}

static void assert_contains_not(const char *text, const char *part)
{
	if (strstr(text, part)) {
		fputs(text, stderr);
		fail_msg("has '%s'", part);
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

static const char sample_summary[] =
	"mallograph: sample -x 'two words'\n"
	"            pid 4711, exit 3, 1.31 s, 2 threads, not complete\n"
	"\n"
	"  PEAK         4.9 KiB  at 1.0 ms in 9 blocks           RSS peak 11.8 MiB\n"
	"  AT END        54 KiB  in 8 blocks\n"
	"  ALLOCATED  17 times, 103 KiB; 1 temporary (5.9 %); 2 failed\n"
	"  NOT SEEN   2 libraries opened with RTLD_DEEPBIND, which call malloc unseen\n"
	"             (first: /lib/deep.so)\n"
	"             3 freed blocks whose allocation no hook saw\n"
	"  PROCESSES  1 more was recorded, 1 died of a signal: mallograph report\n"
	"\n"
	"  All of the peak was allocated by libsample.so.1.\n"
	"\n"
	"PEAK BY SITE (stacks merged at the first frame outside allocator wrappers)\n"
	"     peak      %     allocs     each  temp  site < caller\n"
	"  4.9 KiB  100.0         11    472 B     0  libsample.so.1+0x1234 < sa...+0x1000\n"
	"      0 B    0.0          6        -     1  3 others\n"
	"\n"
	"LIVE BY SITE\n"
	"     live      %     allocs     each  temp  site < caller\n"
	"   49 KiB   91.2          2   49 KiB     1  libsample.so.1+0x5678 < +0x1234\n"
	"  4.7 KiB    8.8         11    472 B     0  libsample.so.1+0x1234 < sa...+0x1000\n"
	"\n"
	"SIZES    value  ------------- Distribution ------------- count\n"
	"             2 |                                         0\n"
	"             4 |@@@@@@@                                  3\n"
	"             8 |                                         0\n"
	"            16 |@@                                       1\n"
	"            32 |                                         0\n"
	"            64 |@@@@@@@@@@@@@@@@@@@@@@@@                 10\n"
	"           ...\n"
	"          4096 |@@                                       1\n"
	"           ...\n"
	"         32768 |@@@@@                                    2\n"
	"         65536 |                                         0\n"
	"\n"
	"SYMBOLS  sample, libsample.so.1: not looked for yet\n"
	"\n"
	"SAVED    sample.mgp (28 KiB)\n"
	"         full stacks:  mallograph report      a tree:  mallograph report --tree\n"
	"         what is left:  mallograph report --live\n";

static void test_summary(void **state)
{
	struct report_summary summary = {
		.saved_path = "sample.mgp", .saved_bytes = 28672, .is_newest_here = true};
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_string_equal(text, sample_summary);
	assert_narrow(text);
	free(text);
	writer_end(&writer);
}

static void test_summary_of_nothing(void **state)
{
	struct report_summary summary = {0};
	struct report_options options = {0};
	struct writer writer;

	(void)state;
	writer_begin(&writer, 4);
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_string_equal(text, "mallograph: nothing was recorded\n");
	free(text);
	text = print(&writer, JSON, &options, NULL);
	assert_contains(text, "\"processes\": [\n],\n\"sites\": [\n],");
	free(text);
	text = print(&writer, TEXT, &options, NULL);
	assert_contains(text, "Nothing was recorded");
	free(text);
	writer_end(&writer);
}

static void test_everything_freed(void **state)
{
	struct report_summary summary = {0};
	struct writer writer;
	uint32_t ref;

	(void)state;
	writer_begin(&writer, 4);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/true");
	struct mgl_slot *slot = writer_slot(p, "true", &ref);
	struct mgl_row *row = writer_row(p, slot, ref, 0, MGL_API_MALLOC, 100, NULL);

	writer_allocs(row, 1, 100);
	writer_frees(row, 1, 100);
	row->peak_bytes = 100;
	row->peak_blocks = 1;
	row->epoch = p->header->max = 100;
	p->header->peak_error = 12288;
	p->header->end_kind = MGL_END_EXIT;
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_contains(text,
			"mallograph: /bin/true\n            pid 1, exit 0, 1 thread, complete\n");
	assert_contains(text, "PEAK           100 B  (+/- 12 KiB) in 1 block\n");
	assert_contains(text, "AT END           0 B  in 0 blocks: everything was freed\n");
	assert_contains(text, "ALLOCATED  1 time, 100 B; 0 temporary (0.0 %)\n");
	assert_contains_not(text, "NOT SEEN");
	assert_contains_not(text, "SAVED");
	assert_contains_not(text, "PROCESSES");
	free(text);
	writer_end(&writer);
}

static void test_summary_counts_the_others(void **state)
{
	struct report_summary summary = {0};
	struct writer writer;

	(void)state;
	writer_begin(&writer, 8);
	writer_process(&writer, MGL_HOW_ROOT, 7, 1, "/bin/sh");
	writer_process(&writer, MGL_HOW_FORK, 8, 7, "/bin/sh")->header->inert =
		MGL_INERT_LEDGER_LIMIT;
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_contains(text,
			"PROCESSES  1 more was recorded, not completely: mallograph report\n");
	free(text);
	writer_process(&writer, MGL_HOW_FORK, 9, 7, "/bin/sh");
	text = print(&writer, SUMMARY, NULL, &summary);
	assert_contains(text,
			"2 more were recorded, 1 of them not completely: mallograph report\n");
	free(text);
	writer_end(&writer);
}

/* A shell that execs what one asked about. */
static void test_summary_is_of_what_the_root_became(void **state)
{
	struct report_summary summary = {0};
	struct writer writer;

	(void)state;
	writer_begin(&writer, 8);
	writer_process(&writer, MGL_HOW_ROOT, 7, 1, "/usr/bin/env");
	writer_process(&writer, MGL_HOW_FORK, 8, 7, "/usr/bin/env")->header->parent = 1;
	writer_process(&writer, MGL_HOW_EXEC, 7, 1, "/usr/bin/jq");
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_contains(text, "mallograph: /usr/bin/env\n            pid 7, jq, ");
	assert_contains(text, "PROCESSES  2 more were recorded: mallograph report\n");
	free(text);
	writer_end(&writer);
}

static void test_hostile_names(void **state)
{
	static const char *const argv[] = {"a\033[2Jb", "it's", "", "\xff\xfe", "x\ny\"\\"};
	struct report_options options = {.sites = REPORT_SITES_DEFAULT};
	struct report_summary summary = {.saved_path = "out\n\033]0;x\007.mgl"};
	struct writer writer;
	uint32_t ref;

	(void)state;
	writer_begin(&writer, 4);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/\x80x\033");
	struct mgl_slot *slot = writer_slot(p, "x", &ref);
	uint32_t module = writer_module(p, "/lib/\r\xe2\x80\xaelib.so\t\xc3", 0x1000, 0);

	writer_command(p, 5, argv);
	writer_allocs(writer_row(p, slot, ref, writer_node(p, 0, 0x1010, module), MGL_API_MALLOC, 8,
				 NULL),
		      1, 8);
	char *json = print(&writer, JSON, &options, NULL);

	assert_contains(json, "\"command\": [\"a\\u001b[2Jb\", \"it's\", \"\", \"\\\\xff\\\\xfe\", "
			      "\"x\\u000ay\\\"\\\\\"]");
	assert_contains(json, "\"exe\": \"/bin/\\\\x80x\\u001b\"");
	assert_contains(json, "\"module\": \"/lib/\\u000d\xe2\x80\xaelib.so\\u0009\\\\xc3\"");
	free(json);
	for (enum kind kind = TEXT; kind <= SUMMARY; kind++) {
		char *text = print(&writer, kind, &options, &summary);

		for (const char *c = text; *c; c++)
			assert_true(*c == '\n' || ((unsigned char)*c >= 0x20 && *c != 0x7f));
		assert_contains(text, "'a\\x1b[2Jb' 'it'\\''s' '' '\\xff\\xfe' 'x\\ny\"\\'");
		assert_contains(text, "\\x0d\\xe2\\x80\\xaelib.so\\t\\xc3+0x10");
		free(text);
	}
	writer_end(&writer);
}

static void test_long_command_is_cut(void **state)
{
	static char argument[3000];
	const char *argv[] = {"program", argument, argument};
	struct report_summary summary = {0};
	struct writer writer;

	(void)state;
	memset(argument, 'x', 1500);
	writer_begin(&writer, 4);
	writer_command(writer_process(&writer, MGL_HOW_ROOT, 1, 0, "/bin/x"), 3, argv);
	char *text = print(&writer, SUMMARY, NULL, &summary);

	assert_narrow(text);
	assert_contains(text, "xxx ...\n");
	free(text);
	writer_end(&writer);
}

static void test_text(void **state)
{
	struct report_options options = {.order = ANALYZE_BY_TEMPORARY, .sites = 1};
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	char *text = print(&writer, TEXT, &options, NULL);

	assert_narrow(text);
	assert_contains(text, "\n  1. 1 temporary (100.0 %) by realloc, sample, pid 4711\n"
			      "     2 allocations (1 temporary), 98 KiB\n"
			      "     peak 0 B in 0 blocks; live 49 KiB in 1 block\n"
			      "       libsample.so.1+0x5678\n"
			      "       libsample.so.1+0x1234\n"
			      "       sample+0x1000\n");
	assert_contains(text, "     5 other sites: --sites all\n     20 allocations, 5.2 KiB\n");
	free(text);
	options = (struct report_options){.sites = REPORT_SITES_ALL};
	text = print(&writer, TEXT, &options, NULL);
	assert_contains(text, "       sample+0x2000\n       [cut: outer frames not known]\n");
	assert_contains_not(text, "other sites");
	free(text);
	writer_end(&writer);
}

static const char sample_json_site[] =
	"{\"process\": 1, \"function_called\": \"realloc\", \"allocations\": 2, \"frees\": 1, "
	"\"allocated_bytes\": 100000, \"peak_bytes\": 0, \"peak_blocks\": 0, "
	"\"live_bytes\": 50000, \"live_blocks\": 1, \"temporary\": 1, "
	"\"sizes\": [[49152, 57344, 2]], \"stack\": ["
	"{\"function\": null, \"file\": null, \"line\": null, \"column\": null, "
	"\"module\": \"/lib/libsample.so.1\", \"offset\": 22136, \"inlined\": false}, "
	"{\"function\": null, \"file\": null, \"line\": null, \"column\": null, "
	"\"module\": \"/lib/libsample.so.1\", \"offset\": 4660, \"inlined\": false}, "
	"{\"function\": null, \"file\": null, \"line\": null, \"column\": null, "
	"\"module\": \"/bin/sample\", \"offset\": 4096, \"inlined\": false}]}\n"
	"],\n"
	"\"others\": {\"allocations\": 20, \"frees\": 13, \"allocated_bytes\": 5287, "
	"\"peak_bytes\": 5050, \"peak_blocks\": 14, \"live_bytes\": 4800, "
	"\"live_blocks\": 7, \"temporary\": 0},\n"
	"\"tree\": {\"processes\": 2, \"allocations\": 22, \"frees\": 14, \"failed\": 2, "
	"\"allocated_bytes\": 105287, \"peak_bytes\": 5000, \"peak_most_bytes\": 5050, "
	"\"peak_time_s\": 0.002000000, \"live_bytes\": 54800, \"live_blocks\": 8, \"temporary\": "
	"1},\n\"sources\": []}\n";

static const char sample_json_process[] =
	"{\"id\": 1, \"parent\": null, \"how\": \"root\", \"pid\": 4711, \"ppid\": 100, "
	"\"exe\": \"/bin/sample\", \"command\": [\"sample\", \"-x\", \"two words\"], "
	"\"end\": {\"kind\": \"exit\", \"code\": 3}, \"start_s\": 0.001000000, "
	"\"duration_s\": 1.310000000, \"allocations\": 17, \"frees\": 9, \"failed\": 2, "
	"\"unknown_frees\": 3, \"inherited_frees\": 0, \"allocated_bytes\": 105237, "
	"\"peak_bytes\": 5000, "
	"\"peak_blocks\": 9, \"peak_time_s\": 0.001000000, \"peak_error_bytes\": 0, "
	"\"live_blocks\": 8, \"live_bytes\": 54800, \"temporary\": 1, \"threads\": 2, "
	"\"mapped_bytes\": 0, \"rss_peak_bytes\": 12345678, \"ledger_bytes\": ";

static void test_json(void **state)
{
	struct report_options options = {.order = ANALYZE_BY_TEMPORARY, .sites = 1};
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	char *text = print(&writer, JSON, &options, NULL);

	assert_contains(text,
			"{\"format\": \"mallograph-report\", \"version\": 1,\n\"processes\": [\n");
	assert_contains(text, sample_json_process);
	assert_contains(text, "\"losses\": [{\"kind\": \"deepbind\", \"count\": 2, "
			      "\"detail\": \"/lib/deep.so\"}]}");
	assert_contains(text, sample_json_site);
	assert_contains_not(text, "live_bytes_low");
	free(text);
	writer_end(&writer);
}

static void test_writing_fails(void **state)
{
	struct report_options options = {.sites = REPORT_SITES_ALL};
	struct analyze_model *model;
	struct writer writer;
	FILE *out = fopen("/dev/full", "w");

	(void)state;
	if (!out)
		skip();
	setvbuf(out, NULL, _IONBF, 0);
	writer_sample(&writer);
	model = finished_model(&writer);
	CLEANUP_ERROR struct error *error = report_json_print(model, &options, out);

	assert_non_null(error);
	assert_int_equal(error->errnum, ENOSPC);
	fclose(out);
	analyze_model_free(model);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_summary_of_nothing),
		cmocka_unit_test(test_everything_freed),
		cmocka_unit_test(test_summary_counts_the_others),
		cmocka_unit_test(test_summary_is_of_what_the_root_became),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_long_command_is_cut),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_writing_fails),
	};

	return cmocka_run_group_tests_name("report-output", tests, NULL, NULL);
}
