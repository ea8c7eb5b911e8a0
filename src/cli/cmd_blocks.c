#include "cli/view.h"

static const struct cli_option options_table[] = {CLI_PROCESS_OPTION, CLI_VIEW_OPTIONS};

static const char usage[] =
	"Usage: mallograph blocks [OPTION…] [FILE]\n"
	"\n"
	"List every block that was still live at the end, or is now, oldest first:\n"
	"size, address, number and time of its allocation, and the stack that asked for\n"
	"it. FILE is a profile or ledger, or the pid of a process being recorded; left\n"
	"out, the newest here.\n";

static const char examples[] = "  mallograph blocks\n"
			       "  mallograph blocks --process cc1\n"
			       "  mallograph blocks mallograph.uname.4711.mgp\n";

static struct error *print(void *context, struct cli_view *view)
{
	struct analyze_model *model;

	(void)context;
	TRY(cli_view_model(view, &model));
	struct error *error = report_blocks_print(model, stdout);

	analyze_model_free(model);
	return error;
}

int cli_blocks(char **argv)
{
	const struct cli_view_command command = {
		.name = "blocks",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.print = print,
	};

	return cli_view_main(&command, argv);
}
