/* Trees of processes: what the summary and the reports tell of all of them together. */
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
};

static void begin(struct tree *tree)
{
	view_begin(&tree->view);
	tree->module = view_module(&tree->view, "/usr/bin/worker", STORE_SYMBOLS_FULL);
	tree->main = view_place(&tree->view, tree->module, "main", "w.c", 1);
	tree->work = view_place(&tree->view, tree->module, "work", "w.c", 10);
	tree->grow = view_place(&tree->view, tree->module, "grow", "w.c", 20);
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
		view_site(&tree->view, row.id,
			  view_stack(&tree->view,
				     (uint64_t[]){tree->main, size > MIB ? tree->grow : tree->work,
						  0}),
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
	"  AT END           0 B  in 0 blocks: what each process left at its end, in all\n"
	"  ALLOCATED  35 times, 8.0 MiB; 0 temporary (0.0 %)\n"
	"\n"
	"PROGRAMS (peak: of the largest process of each)\n"
	"     peak   procs     allocs     bytes  program\n"
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
		"  TREE PEAK   13.0 MiB  at 33 ms (at most 14.0 MiB) of all processes together\n");
	view_assert_shows(model, VIEW_SUMMARY,
			  " 12.0 MiB  100.0       2          8  20.0 MiB  worker, the largest: pid "
			  "1003\n");
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

	view_assert_shows(
		model, VIEW_SUMMARY,
		"  TREE PEAK   12.0 MiB  at 35 ms (at most 20.0 MiB) in worker, pid 1003, "
		"alone\n");
	analyze_model_free(model);
}

/* What one process had alone between two instants was the tree's as well. */
static void test_more_than_was_seen(void **state)
{
	struct tree tree;

	(void)state;
	put_workers(&tree, 9 * MIB, 6 * MIB);
	struct analyze_model *model = view_end(&tree.view);

	view_assert_shows(
		model, VIEW_SUMMARY,
		"  TREE PEAK   12.0 MiB  at 35 ms (at most 15.0 MiB) in worker, pid 1003, "
		"alone\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_shell),        cmocka_unit_test(test_the_trees_peak),
		cmocka_unit_test(test_only_bounds),    cmocka_unit_test(test_more_than_was_seen),
		cmocka_unit_test(test_the_root_alone),
	};

	return cmocka_run_group_tests_name("report-processes", tests, NULL, NULL);
}
