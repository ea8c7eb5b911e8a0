#include "view_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *view_print(struct analyze_model *model, enum view_kind kind, const struct report_hist *hist)
{
	const struct report_options options = {
		.sites = REPORT_SITES_DEFAULT,
		.processes = REPORT_PROCESSES_DEFAULT,
	};
	const struct report_summary summary = {0};
	const struct report_hist plain = {.limit = 20};
	struct error *error = NULL;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	switch (kind) {
	case VIEW_SUMMARY:
		error = report_summary_print(model, &summary, out);
		break;
	case VIEW_TEXT:
		error = report_text_print(model, &options, out);
		break;
	case VIEW_JSON:
		error = report_json_print(model, &options, out);
		break;
	case VIEW_TREE:
		error = report_tree_print(model, &options, ANALYZE_TOP_DOWN, out);
		break;
	case VIEW_TREE_UP:
		error = report_tree_print(model, &options, ANALYZE_BOTTOM_UP, out);
		break;
	case VIEW_BLOCKS:
		error = report_blocks_print(model, out);
		break;
	case VIEW_HIST:
		error = report_hist_print(model, hist ? hist : &plain, out);
		break;
	default:
		error = report_info_print(model, "x.mgp", &options, out);
		break;
	}
	if (error)
		fail_msg("%s", error->message);
	assert_int_equal(fclose(out), 0);
	return text;
}

void view_assert_shows(struct analyze_model *model, enum view_kind kind, const char *part)
{
	char *text = view_print(model, kind, NULL);

	if (!strstr(text, part)) {
		fputs(text, stderr);
		fail_msg("does not show '%s'", part);
	}
	free(text);
}

void view_assert_hides(struct analyze_model *model, enum view_kind kind, const char *part)
{
	char *text = view_print(model, kind, NULL);

	if (strstr(text, part)) {
		fputs(text, stderr);
		fail_msg("shows '%s'", part);
	}
	free(text);
}
