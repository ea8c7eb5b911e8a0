#include <string.h>

#include "cli/cli.h"
#include "collect/output.h"
#include "collect/recover.h"

static const struct cli_option options_table[] = {
	{'o', "output", "FILE", "write the ledger to FILE (%p %n %h %t expand)"},
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

static void print_help(void)
{
	printf("Usage: mallograph recover [-o FILE]\n"
	       "\n"
	       "Save the recordings whose collector was killed, or that had none, into this\n"
	       "directory, and free the memory they take. Those whose processes still run are\n"
	       "left alone.\n"
	       "\n");
	cli_options_help(options_table, stdout);
}

static void print_outcome(const struct collect_found *found, enum collect_recovery outcome,
			  const char *path)
{
	switch (outcome) {
	case COLLECT_RECOVERY_SAVED:
		cli_note("recovered %s", path);
		break;
	case COLLECT_RECOVERY_EMPTY:
		cli_note("removed %s: nothing was recorded in it", found->path);
		break;
	case COLLECT_RECOVERY_WATCHED:
		cli_note("left %s: it is being recorded", found->path);
		break;
	case COLLECT_RECOVERY_RECORDING:
		cli_note("left %s: its processes still run", found->path);
		break;
	}
}

static int recover_all(const char *output)
{
	struct collect_sessions sessions = {VECTOR_EMPTY};
	struct error *error = collect_sessions_list(&sessions);
	int exit_code = error ? cli_error(error) : 0;

	if (!error && sessions.list.count == 0)
		cli_note("nothing to recover");
	/* Oldest first, so that numbered names tell the order. */
	for (size_t i = sessions.list.count; i-- > 0;) {
		struct collect_found *found = &sessions.list.items[i];
		enum collect_recovery outcome;
		CLEANUP_FREE char *path = NULL;

		error = collect_recover(found, output, &outcome, &path);
		if (error)
			exit_code = cli_error(error);
		else
			print_outcome(found, outcome, path);
	}
	collect_sessions_free(&sessions);
	return exit_code;
}

int cli_recover(char **argv)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	const char *output = NULL;

	while ((option = cli_options_next(&options))) {
		if (option->letter == 'h') {
			print_help();
			return cli_finish(0);
		}
		output = options.value;
		if (!options.error)
			options.error = collect_output_check(output);
		if (options.error)
			break;
	}
	if (options.error)
		return cli_usage_error("recover", options.error);
	if (argv[options.at])
		return cli_usage_error("recover", error_create(ERROR_USAGE, "recover takes no %s",
							       argv[options.at]));
	return recover_all(output);
}
