#include "cli/view.h"

static const struct cli_option options_table[] = {CLI_VIEW_OPTIONS};

static const char usage[] =
	"Usage: mallograph info [OPTION…] [FILE]\n"
	"\n"
	"Show what a profile is: when, where and by what it was recorded, its processes\n"
	"and what was not seen of them, its modules and where their symbols came from.\n"
	"FILE is a profile or ledger, or the pid of a process being recorded; left out,\n"
	"the newest here.\n";

static const char examples[] = "  mallograph info\n";

static struct error *print(void *context, struct cli_view *view)
{
	struct analyze_model *model;

	(void)context;
	TRY(cli_view_model(view, &model));
	struct error *error = report_info_print(model, view->path, &view->style, stdout);

	analyze_model_free(model);
	return error;
}

int cli_info(char **argv)
{
	const struct cli_view_command command = {
		.name = "info",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.print = print,
	};

	return cli_view_main(&command, argv);
}
