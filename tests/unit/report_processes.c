/* Trees of processes: what the summary and the reports tell of all of them together.
 * Long because each test makes the small tree it is about, a line a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "view_print.h"
#include "view_profile.h"

#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)

struct tree {
	struct view view;
	uint64_t module, main, work, grow;
	uint64_t working, growing; /* stacks */
};

static void begin(struct tree *tree)
{
	view_begin(&tree->view);
	tree->module = view_module(&tree->view, "/usr/bin/worker", STORE_SYMBOLS_FULL);
	tree->main = view_place(&tree->view, tree->module, "main", "w.c", 1);
	tree->work = view_place(&tree->view, tree->module, "work", "w.c", 10);
	tree->grow = view_place(&tree->view, tree->module, "grow", "w.c", 20);
	tree->working = view_stack(&tree->view, (uint64_t[]){tree->main, tree->work, 0});
	tree->growing = view_stack(&tree->view, (uint64_t[]){tree->main, tree->grow, 0});
}

/* A process of one site, below work or grow, which is all it allocates: count blocks of size at
 * its peak. */
static struct store_process process(struct tree *tree, uint64_t parent, enum store_how how,
				    const char *exe, uint64_t count, uint64_t size)
{
	struct store_process row = view_process(&tree->view, exe);
	const char *base = strrchr(exe, '/') + 1;

	row.argv = (struct store_text){base, strlen(base) + 1};
	row.parent = parent;
	row.how = how;
	row.pid = 1000 + row.id;
	row.exe = view_string(&tree->view, exe);
	row.start = row.id * 10 * MS;
	row.stop = row.start + 20 * MS;
	row.peak_time = row.start + 5 * MS;
	row.allocs = row.peak_blocks = count;
	row.alloc_bytes = row.peak_bytes = count * size;
	if (count)
		view_site(&tree->view, row.id, size > MIB ? tree->growing : tree->working,
			  size > MIB ? tree->grow : tree->work, count, size, 0);
	return row;
}

static void put(struct tree *tree, struct store_process row)
{
	assert_null(store_put(tree->view.writer, &row));
}

static void assert_narrow(struct analyze_model *model, enum view_kind kind)
{
	char *text = view_print(model, kind, NULL);

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strbuf_columns(line, strlen(line)) > 80)
			fail_msg("too wide: %s", line);
	free(text);
}

/* A shell that forks one worker and some helpers. */
static void put_shell(struct tree *tree)
{
	begin(tree);
	put(tree, process(tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	struct store_process fork = process(tree, 1, STORE_HOW_FORK, "/bin/sh", 1, 24);

	fork.end_kind = STORE_END_EXEC;
	put(tree, fork);
	struct store_process worker =
		process(tree, 2, STORE_HOW_EXEC, "/usr/bin/worker", 4, 2 * MIB);

	worker.pid = fork.pid;
	worker.start = fork.start;
	put(tree, worker);
	for (unsigned int i = 0; i < 3; i++)
		put(tree, process(tree, 1, STORE_HOW_SPAWN, "/usr/bin/sed", 5, 10));
	put(tree, process(tree, 1, STORE_HOW_SPAWN, "/usr/bin/git", 5, 10));
}

static const char shell_summary[] =
	"mallograph: sh\n"
	"            pid 1001, exit 0, 20 ms; 6 processes of 4 programs, complete\n"
	"\n"
	"  TREE PEAK    8.0 MiB  at 35 ms in worker, pid 1002, alone\n"
	"  AT END           0 B  in 0 blocks: left by all at their ends, summed\n"
	"  ALLOCATED  35 times, 8.0 MiB; 0 temporary (0.0 %)\n"
	"\n"
	"PROGRAMS (peak: of the largest process of each)\n"
	"     peak    runs     allocs     bytes  program\n"
	"  8.0 MiB       1          5   8.0 MiB  worker, pid 1002\n"
	"   1000 B       1         10    1000 B  sh, pid 1001\n"
	"     50 B       4         20     200 B  4 short helpers: sed, git\n"
	"\n"
	"  The largest is worker, pid 1002, a child of sh, pid 1001. All of its peak was\n"
	"  allocated by grow (worker).\n"
	"\n"
	"PEAK BY SITE of worker, pid 1002 (its own peak, 8.0 MiB)\n";

/* Whoever asks about a shell is led to what it started. */
static void test_a_shell(void **state)
{
	struct tree tree;

	(void)state;
	put_shell(&tree);
	struct analyze_model *model = view_end(&tree.view);
	char *text = view_print(model, VIEW_SUMMARY, NULL);

	text[strlen(shell_summary)] = '\0';
	assert_string_equal(text, shell_summary);
	free(text);
	assert_narrow(model, VIEW_SUMMARY);
	analyze_model_free(model);
}

/* Two workers at once: the tree's peak is what was seen of both, between its bounds. */
static void put_workers(struct tree *tree, uint64_t seen, uint64_t error)
{
	begin(tree);
	put(tree, process(tree, 0, STORE_HOW_ROOT, "/usr/bin/make", 10, 100));
	for (unsigned int i = 0; i < 2; i++) {
		struct store_process worker =
			process(tree, 1, STORE_HOW_SPAWN, "/usr/bin/worker", 4, (2 + i) * MIB);

		worker.tree_peak_bytes = (6 + i) * MIB;
		put(tree, worker);
	}
	if (!seen)
		return;
	for (unsigned int i = 0; i < 10; i++)
		view_snap(&tree->view, STORE_ALL_PROCESSES, 4 * i, i * MIB, STORE_WHY_TICK);
	view_snap(&tree->view, STORE_ALL_PROCESSES, 33, seen, STORE_WHY_PEAK);
	view_snap(&tree->view, STORE_ALL_PROCESSES, 50, 0, STORE_WHY_END);
	assert_null(store_put_meta_number(tree->view.writer, "tree_peak_error", error));
}

static void test_the_trees_peak(void **state)
{
	struct tree tree;

	(void)state;
	put_workers(&tree, 13 * MIB, MIB);
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(
		model, VIEW_SUMMARY,
		"  TREE PEAK   13.0 MiB  seen at 33 ms (at most 14.0 MiB) in all processes\n"
		"                        together\n");
	view_assert_shows(
		model, VIEW_SUMMARY,
		" 12.0 MiB  100.0       2          8  20.0 MiB  worker, largest: pid 1003\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  "  53 % of the tree's peak was in worker, pid 1003, a child of make, pid "
			  "1001.\n  All of its peak was allocated by grow (worker).\n");
	view_assert_shows(model, VIEW_SUMMARY, "\nLIVE HEAP of all processes together\n");
	assert_narrow(model, VIEW_SUMMARY);
	analyze_model_free(model);
}

/* Nothing was seen of both together: at least the larger, at most both, as they overlapped. */
static void test_only_bounds(void **state)
{
	struct tree tree;

	(void)state;
	put_workers(&tree, 0, 0);
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY,
			  "  TREE PEAK   12.0 MiB  at least, at 35 ms in worker, pid 1003; at "
			  "most 20.0 MiB\n");
	analyze_model_free(model);
}

/* What one process had alone between two instants was the tree's as well. */
static void test_more_than_was_seen(void **state)
{
	struct tree tree;

	(void)state;
	put_workers(&tree, 9 * MIB, 6 * MIB);
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY,
			  "  TREE PEAK   12.0 MiB  at least, at 35 ms in worker, pid 1003; at "
			  "most 15.0 MiB\n");
	analyze_model_free(model);
}

/* What an ended process left is in no process, so it is not live. */
static void test_some_still_run(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/usr/bin/make", 10, 100));
	for (unsigned int i = 0; i < 3; i++) {
		struct store_process worker =
			process(&tree, 1, STORE_HOW_SPAWN, "/usr/bin/worker", 4, 2 * MIB);

		worker.live_bytes = 2 * MIB;
		worker.live_blocks = 1;
		if (i) {
			worker.end_kind = STORE_END_RUNNING;
			worker.end_code = STORE_UNKNOWN;
		}
		put(&tree, worker);
	}
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY,
			  "  LIVE NOW     4.0 MiB  in 2 blocks of 2 processes that still run\n"
			  "  LEFT         2.0 MiB  in 1 block by those that ended, summed\n");
	view_assert_hides(model, VIEW_SUMMARY, "AT END");
	view_assert_shows(model, VIEW_SUMMARY, "; 4 processes of 2 programs, 2 still run\n");
	assert_narrow(model, VIEW_SUMMARY);
	analyze_model_free(model);
}

/* What was typed is told to its end, whatever it went on as; and how the others came to theirs. */
static void test_the_head(void **state)
{
	static const char typed[] = "env\0LANG=C\0a-long-name-of-a-program";
	struct tree tree;

	(void)state;
	begin(&tree);
	struct store_process root = process(&tree, 0, STORE_HOW_ROOT, "/usr/bin/env", 10, 100);

	root.argv = (struct store_text){typed, sizeof(typed)};
	root.end_kind = STORE_END_EXEC;
	put(&tree, root);
	struct store_process last =
		process(&tree, 1, STORE_HOW_EXEC, "/usr/bin/a-long-name-of-a-program", 4, 2 * MIB);

	last.pid = root.pid;
	last.stop = root.start + 3000 * MS;
	last.end_code = 3;
	put(&tree, last);
	for (unsigned int i = 0; i < 2; i++) {
		struct store_process worker =
			process(&tree, 2, STORE_HOW_SPAWN, "/usr/bin/worker", 4, 2 * MIB);

		worker.end_kind = STORE_END_SIGNAL;
		worker.end_code = 11;
		put(&tree, worker);
	}
	assert_null(store_put(
		tree.view.writer,
		&((struct store_loss){
			.process = 2, .kind = {"left_out", 8}, .count = 5, .detail = {"", 0}})));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY,
			  "mallograph: env LANG=C a-long-name-of-a-program\n"
			  "            pid 1001, a-long-name-of-a-program, exit 3, 3.00 s; 3 "
			  "processes of 3\n"
			  "            programs, complete, 2 died of signals, 5 left out as "
			  "asked\n\n");
	assert_narrow(model, VIEW_SUMMARY);
	analyze_model_free(model);
}

/* Helpers that are nothing beside the root leave it as it is. */
static void test_the_root_alone(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/usr/bin/worker", 100, 2 * MIB));
	put(&tree, process(&tree, 1, STORE_HOW_SPAWN, "/bin/true", 5, 10));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY, "\n  PEAK       200.0 MiB  at 5.0 ms in 100 blocks");
	view_assert_shows(model, VIEW_SUMMARY, "  PROCESSES  1 more was recorded: ");
	view_assert_shows(model, VIEW_SUMMARY, "\nPEAK BY SITE (stacks merged");
	view_assert_hides(model, VIEW_SUMMARY, "PROGRAMS");
	view_assert_hides(model, VIEW_SUMMARY, "TREE PEAK");
	analyze_model_free(model);
}

/* --- the list ---------------------------------------------------------------------------- */

static const char shell_list[] =
	"\nPROCESSES\n"
	"     peak     pid  came      end         start   lasted  command\n"
	"   1000 B    1001  root      exit 0      10 ms    20 ms  sh\n"
	"  8.0 MiB    1002  fork+exec exit 0      20 ms    30 ms   worker\n"
	"     50 B    1004  spawn     exit 0      40 ms    20 ms   sed\n"
	"     50 B    1005  spawn     exit 0      50 ms    20 ms   sed\n"
	"     50 B    1006  spawn     exit 0      60 ms    20 ms   sed\n"
	"     50 B    1007  spawn     exit 0      70 ms    20 ms   git\n"
	"\n  1. 8.0 MiB at the peak (100.0 %) by malloc, worker, pid 1002\n";

static void test_the_list(void **state)
{
	struct tree tree;

	(void)state;
	put_shell(&tree);
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT, shell_list);
	view_assert_shows(model, VIEW_INFO,
			  "\nPROCESSES\n    id      peak     pid  came      end         start   "
			  "lasted  command\n     1    1000 B    1001  root ");
	view_assert_shows(model, VIEW_INFO, "     3   8.0 MiB    1002  fork+exec exit 0 ");
	view_assert_shows(model, VIEW_INFO, "\nHOLDS      7 programs in 6 processes, ");
	assert_narrow(model, VIEW_TEXT);
	analyze_model_free(model);
}

/* A shell in a loop: drivers that each start a compiler, one of which died. */
static void test_many_alike(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	for (unsigned int i = 0; i < 1000; i++) {
		struct store_process driver =
			process(&tree, 1, STORE_HOW_SPAWN, "/usr/bin/gcc", 5, 10);
		struct store_process compiler = process(&tree, driver.id, STORE_HOW_VFORK,
							"/usr/lib/cc1", i == 500 ? 9 : 5, 1000);

		if (i == 7) {
			compiler.end_kind = STORE_END_SIGNAL;
			compiler.end_code = 11;
		}
		put(&tree, driver);
		put(&tree, compiler);
	}
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT,
			  "   1000 B    1001  root      exit 0      10 ms    20 ms  sh\n"
			  "     50 B x 1,000  spawn     exit 0      20 ms    20 ms   gcc\n"
			  "  8.8 KiB x 1,000  vfork     1 failed    30 ms    20 ms    cc1\n\n");
	/* Two stacks in all. */
	view_assert_shows(model, VIEW_TEXT,
			  " in 2,001 processes\n     10,014 allocations, 4.8 MiB\n     peak 8.8 "
			  "KiB in 9 blocks of pid 2003; live 0 B ");
	analyze_model_free(model);
}

/* The largest are listed, and where they came from. */
static void test_a_limit(void **state)
{
	struct tree tree;
	char path[32];

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	for (unsigned int i = 0; i < 30; i++) {
		snprintf(path, sizeof(path), "/bin/child%02u", i);
		put(&tree, process(&tree, 1, STORE_HOW_SPAWN, path, 100 + i, 10));
	}
	put(&tree, process(&tree, 2, STORE_HOW_FORK, "/bin/child00", 9000, 10));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT, " ms   child00\n");
	view_assert_shows(model, VIEW_TEXT, " ms    child00\n");
	view_assert_hides(model, VIEW_TEXT, "   child12\n");
	view_assert_shows(model, VIEW_TEXT, "   child13\n");
	view_assert_shows(model, VIEW_TEXT, "  1.1 KiB at most: 12 others: --processes all\n");
	analyze_model_free(model);
}

/* A path is the first that goes; programs of one name are told apart by as much of it as needed. */
static void test_paths(void **state)
{
	static const char pack[] = "/usr/lib/git-core/git\0pack-objects\0--revs";
	static const char *const others[] = {"/usr/bin/git", "/opt/git-core/git",
					     "/usr/bin/a-program-of-a-name-that-is-long"};
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	struct store_process git =
		process(&tree, 1, STORE_HOW_SPAWN, "/usr/lib/git-core/git", 4, 2 * MIB);

	git.argv = (struct store_text){pack, sizeof(pack)};
	put(&tree, git);
	for (unsigned int i = 0; i < 6; i++)
		put(&tree, process(&tree, 1, STORE_HOW_SPAWN, others[i < 2 ? i : 2], 4, 2 * MIB));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT, "   git pack-objects - ...\n");
	view_assert_shows(model, VIEW_INFO, "   git pack-ob ...\n");
	view_assert_shows(model, VIEW_TEXT, " x 4  spawn     exit 0      50 ms    20 ms   a-pro");
	view_assert_shows(model, VIEW_SUMMARY, "  lib/git-core/git, pid 1002\n");
	view_assert_shows(model, VIEW_SUMMARY, "  opt/git-core/git, pid 1004\n");
	view_assert_shows(model, VIEW_SUMMARY, "  bin/git, pid 1003\n");
	assert_narrow(model, VIEW_TEXT);
	assert_narrow(model, VIEW_INFO);
	analyze_model_free(model);
}

/* What went on as another program stands below it, not inside. */
static void test_an_exec(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/env", 10, 100));
	put(&tree, process(&tree, 1, STORE_HOW_FORK, "/bin/env", 10, 100));
	put(&tree, process(&tree, 1, STORE_HOW_EXEC, "/bin/sh", 10, 100));
	put(&tree, process(&tree, 3, STORE_HOW_SPAWN, "/bin/ls", 10, 100));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT,
			  "   1000 B    1001  root      exit 0      10 ms    20 ms  env\n"
			  "   1000 B    1002  fork      exit 0      20 ms    20 ms   env\n"
			  "   1000 B    1003  exec      exit 0      30 ms    20 ms  sh\n"
			  "   1000 B    1004  spawn     exit 0      40 ms    20 ms   ls\n");
	analyze_model_free(model);
}

/* Each the child of the one before: no more than the window is wide. */
static void test_a_chain(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	for (uint64_t i = 0; i < 3000; i++)
		put(&tree,
		    process(&tree, i, i ? STORE_HOW_FORK : STORE_HOW_ROOT, "/bin/deep", 1, 10));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT, "     10 B at most: 2,980 others: --processes all\n");
	assert_narrow(model, VIEW_TEXT);
	analyze_model_free(model);
}

/* Parents that come later, are themselves, or are not there. */
static void test_false_parents(void **state)
{
	static const uint64_t parents[] = {2, 2, 1, 99, 5, 7, 6};
	struct tree tree;

	(void)state;
	begin(&tree);
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++)
		put(&tree, process(&tree, parents[i], i % 2 ? STORE_HOW_EXEC : STORE_HOW_FORK,
				   "/bin/false", 1, 10));
	struct analyze_model *model = view_end(&tree.view);

	for (int kind = 0; kind < VIEW_KINDS; kind++)
		free(view_print(model, (enum view_kind)kind, NULL));
	analyze_model_free(model);
}

/* --- sites -------------------------------------------------------------------------------- */

static char *print_with(struct analyze_model *model, const struct report_options *options,
			bool tree)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_null(tree ? report_tree_print(model, options, ANALYZE_TOP_DOWN, out)
			 : report_text_print(model, options, out));
	assert_int_equal(fclose(out), 0);
	assert_non_null(text);
	return text;
}

static void assert_part(const char *text, const char *part)
{
	if (strstr(text, part))
		return;
	fputs(text, stderr);
	fail_msg("does not show '%s'", part);
}

static void assert_no_part(const char *text, const char *part)
{
	if (!strstr(text, part))
		return;
	fputs(text, stderr);
	fail_msg("shows '%s'", part);
}

/* A large one is no short helper, and one program can do many things: those stand alone. */
static void test_what_is_not_alike(void **state)
{
	static const char *const words[] = {"\0gc\0a1", "\0gc\0b2", "\0gc\0c", "\0gc\0d", "\0log"};
	struct report_options options = {.sites = 1, .processes = SIZE_MAX};
	struct tree tree;
	char argv[8][16];

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	for (unsigned int i = 0; i < 5; i++) {
		struct store_process git = process(&tree, 1, STORE_HOW_SPAWN, "/bin/git", 1, 99);

		memcpy(argv[i], "git", 3);
		memcpy(argv[i] + 3, words[i], i < 4 ? 6 : 5);
		git.argv = (struct store_text){argv[i], i < 4 ? 9 : 8};
		put(&tree, git);
	}
	for (unsigned int i = 0; i < 6; i++)
		put(&tree, process(&tree, 1, STORE_HOW_SPAWN, "/bin/sed", i ? 1 : 9, 70000));
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_TEXT,
			  "     99 B     x 4  spawn     exit 0      20 ms    20 ms   git\n"
			  "     99 B    1006  spawn     exit 0      60 ms    20 ms   git log\n"
			  "  615 KiB    1007  spawn     exit 0      70 ms    20 ms   sed\n"
			  "   68 KiB     x 5  spawn     exit 0      80 ms    20 ms   sed\n");
	char *text = print_with(model, &options, false);

	assert_part(text, "     99 B    1003  spawn     exit 0      30 ms    20 ms   git gc b2\n");
	assert_no_part(text, " x ");
	free(text);
	analyze_model_free(model);
}

static void test_merged(void **state)
{
	struct report_options options = {.sites = 20, .split = ANALYZE_SPLIT_PROGRAM};
	struct tree tree;

	(void)state;
	put_workers(&tree, 0, 0);
	struct analyze_model *model = view_end(&tree.view);
	char *text = print_with(model, &options, false);

	assert_part(text, "\nworker, 2 processes: peak 12.0 MiB (pid 1003), 8 allocations, 20.0 "
			  "MiB\n\n  1. 12.0 MiB at the peak");
	assert_part(text, "\nmake, pid 1001: peak 1000 B, 10 allocations, 1000 B\n\n  1. 1000 B");
	free(text);
	/* Never 20 MiB: that is a sum of peaks. */
	view_assert_shows(model, VIEW_TEXT,
			  "\n  1. 12.0 MiB at the peak (100.0 %) by malloc, in 2 processes\n"
			  "     8 allocations, 20.0 MiB\n"
			  "     peak 12.0 MiB in 4 blocks of pid 1003; live 0 B in 0 blocks\n");
	analyze_model_free(model);
}

static void test_by_process(void **state)
{
	struct report_options options = {.sites = 20, .split = ANALYZE_SPLIT_PROCESS};
	struct tree tree;

	(void)state;
	put_workers(&tree, 0, 0);
	struct analyze_model *model = view_end(&tree.view);
	char *text = print_with(model, &options, false);

	assert_part(text, "\nworker, pid 1003: peak 12.0 MiB, 4 allocations, 12.0 MiB\n\n  1. 12.0 "
			  "MiB at the peak (100.0 %) by malloc\n");
	assert_part(text, "\nworker, pid 1002: peak 8.0 MiB, 4 allocations, 8.0 MiB\n\n  1. 8.0 "
			  "MiB at the peak (100.0 %) by malloc\n");
	free(text);
	analyze_model_free(model);
}

/* What is left of the small sites of many processes is one, too, and says what it is. */
static void test_folded_sites(void **state)
{
	struct tree tree;

	(void)state;
	begin(&tree);
	put(&tree, process(&tree, 0, STORE_HOW_ROOT, "/bin/sh", 10, 100));
	for (unsigned int i = 0; i < 5; i++) {
		struct store_process compiler =
			process(&tree, 1, STORE_HOW_SPAWN, "/usr/lib/cc1", 7, 1000);

		view_site(&tree.view, compiler.id, 0, 0, 1000 + i, 16, 0);
		assert_null(store_put(tree.view.writer, &((struct store_loss){
								.process = compiler.id,
								.kind = {"sites_folded", 12},
								.count = 99,
								.detail = {"", 0},
							})));
		compiler.allocs += 1000 + i;
		compiler.peak_bytes += (1000 + i) * 16;
		put(&tree, compiler);
	}
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(model, VIEW_SUMMARY, "  [small sites]\n");
	view_assert_shows(model, VIEW_SUMMARY, ", complete\n");
	view_assert_shows(model, VIEW_TEXT,
			  "\n  1. 16 KiB at the peak (69.6 %) by malloc, in 5 processes\n"
			  "     5,010 allocations, 78 KiB\n"
			  "     peak 16 KiB in 1,004 blocks of pid 1006; live 0 B in 0 blocks\n"
			  "       [stacks not kept: small sites, summed]\n");
	analyze_model_free(model);
}

/* What adds up is one tree, what does not is one each. */
static void test_trees(void **state)
{
	struct report_options options = {.sites = 20, .order = ANALYZE_BY_BYTES};
	struct tree tree;

	(void)state;
	put_workers(&tree, 0, 0);
	struct analyze_model *model = view_end(&tree.view);
	char *text = print_with(model, &options, true);

	assert_part(text, "3 processes together\n20.0 MiB allocated, ");
	assert_no_part(text, "pid ");
	free(text);
	options.split = ANALYZE_SPLIT_PROGRAM;
	text = print_with(model, &options, true);
	assert_part(text, "worker, 2 processes together\n20.0 MiB allocated, ");
	free(text);
	options.order = ANALYZE_BY_PEAK;
	text = print_with(model, &options, true);
	assert_part(text, "worker, pid 1003\n12.0 MiB at the peak, ");
	assert_no_part(text, "pid 1002");
	free(text);
	options.split = ANALYZE_SPLIT_NOTHING;
	text = print_with(model, &options, true);
	assert_part(text, "worker, pid 1003\n12.0 MiB at the peak, ");
	assert_part(text, "worker, pid 1002\n8.0 MiB at the peak, ");
	free(text);
	analyze_model_free(model);
}

static void test_a_choice(void **state)
{
	struct tree tree;

	(void)state;
	put_shell(&tree);
	struct analyze_model *model = view_end(&tree.view);
	bool chosen[7] = {[2] = true, [3] = true};

	analyze_model_select(model, chosen);
	assert_int_equal(model->process_count, 2);
	assert_int_equal(model->site_count, 2);
	for (size_t i = 0; i < model->site_count; i++)
		assert_true(model->processes[model->sites[i].process].id == 3 ||
			    model->processes[model->sites[i].process].id == 4);
	view_assert_shows(model, VIEW_TEXT, "            5 other processes are left out\n");
	analyze_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_shell),        cmocka_unit_test(test_the_trees_peak),
		cmocka_unit_test(test_only_bounds),    cmocka_unit_test(test_more_than_was_seen),
		cmocka_unit_test(test_the_root_alone), cmocka_unit_test(test_the_list),
		cmocka_unit_test(test_many_alike),     cmocka_unit_test(test_a_limit),
		cmocka_unit_test(test_an_exec),        cmocka_unit_test(test_a_chain),
		cmocka_unit_test(test_false_parents),  cmocka_unit_test(test_merged),
		cmocka_unit_test(test_by_process),     cmocka_unit_test(test_folded_sites),
		cmocka_unit_test(test_trees),          cmocka_unit_test(test_a_choice),
		cmocka_unit_test(test_some_still_run), cmocka_unit_test(test_the_head),
		cmocka_unit_test(test_paths),          cmocka_unit_test(test_what_is_not_alike),
	};

	return cmocka_run_group_tests_name("report-processes", tests, NULL, NULL);
}
