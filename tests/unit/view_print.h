/* Every way to show a model, for tests. Everything asserts. */
#ifndef MALLOGRAPH_TESTS_VIEW_PRINT_H
#define MALLOGRAPH_TESTS_VIEW_PRINT_H

#include "report/report.h"

enum view_kind {
	VIEW_SUMMARY,
	VIEW_TEXT,
	VIEW_JSON,
	VIEW_TREE,
	VIEW_TREE_UP,
	VIEW_BLOCKS,
	VIEW_HIST,
	VIEW_INFO,
	VIEW_KINDS
};

/* What is printed; malloc'd. hist NULL = the default. */
char *view_print(struct analyze_model *model, enum view_kind kind, const struct report_hist *hist);
void view_assert_shows(struct analyze_model *model, enum view_kind kind, const char *part);
void view_assert_hides(struct analyze_model *model, enum view_kind kind, const char *part);

#endif
