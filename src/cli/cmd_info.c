#include "cli/view.h"

enum { OPTION_PROCESSES = 256 };

static const struct cli_option options_table[] = {
	{OPTION_PROCESSES, "processes", "N", "how many lines their list has (20), or all"},
	CLI_VIEW_OPTIONS,
};

static const char usage[] =
	"Usage: mallograph info [OPTION…] [FILE]\n"
	"\n"
	"Show what a profile is: when, where and by what it was recorded, its processes\n"
	"and what was not seen of them, its modules and where their symbols came from.\n"
	"FILE is a profile or ledger, or the pid of a process being recorded; left out,\n"
	"the newest here.\n";

static const char examples[] = "  mallograph info\n";

static struct error *take(void *context, const struct cli_option *option, const char *value)
{
	struct report_options *options = context;

	(void)option;
	return cli_parse_count("processes", value, &options->processes);
}

static struct error *print(void *context, struct cli_view *view)
{
	struct report_options *options = context;
	struct analyze_model *model;

	options->style = view->style;
	TRY(cli_view_model(view, &model));
	struct error *error = report_info_print(model, view->path, options, stdout);

	analyze_model_free(model);
	return error;
}

int cli_info(char **argv)
{
	struct report_options options = {.processes = REPORT_PROCESSES_DEFAULT};
	const struct cli_view_command command = {
		.name = "info",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.take = take,
		.print = print,
		.context = &options,
	};

	return cli_view_main(&command, argv);
}
