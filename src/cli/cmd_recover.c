#include <string.h>

#include "cli/cli.h"
#include "cli/symbols.h"
#include "collect/output.h"
#include "collect/recover.h"
#include "collect/sweep.h"

static const struct cli_option options_table[] = {
	{'o', "output", "FILE",
	 "write the profile to FILE (%p %n %h %t expand), or the\nledger itself, if it ends in .mgl"},
	CLI_SYMBOL_OPTIONS,
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

struct recovery {
	const char *output;
	struct cli_symbols symbols;
	struct collect_finish_options finish;
};

static void print_help(void)
{
	printf("Usage: mallograph recover [OPTION…] [SESSION…]\n"
	       "\n"
	       "Save the recordings whose collector was killed, or that had none, where their\n"
	       "-o said or into this directory, and free the memory they take. Those whose\n"
	       "processes still run are left alone. SESSION is a session file or a pid; left\n"
	       "out, all are meant.\n"
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

static int recover_one(const struct collect_found *found, const struct recovery *how)
{
	enum collect_recovery outcome;
	CLEANUP_FREE char *path = NULL;
	struct error *error = collect_recover(found, how->output, &how->finish, &outcome, &path);

	if (error)
		return cli_error(error);
	print_outcome(found, outcome, path);
	return 0;
}

static int recover_all(const struct collect_sessions *sessions, const struct recovery *how)
{
	int exit_code = 0;

	collect_sweep();
	if (sessions->list.count == 0)
		cli_note("nothing to recover");
	/* Oldest first, so that numbered names tell the order. */
	for (size_t i = sessions->list.count; i-- > 0;) {
		int outcome = recover_one(&sessions->list.items[i], how);

		if (outcome)
			exit_code = outcome;
	}
	return exit_code;
}

static int recover_named(const struct collect_sessions *sessions, const char *word,
			 const struct recovery *how)
{
	CLEANUP_FREE char *path = NULL;
	struct error *error = cli_find_profile(word, false, &path);

	if (error)
		return cli_error(error);
	for (size_t i = 0; i < sessions->list.count; i++)
		if (strcmp(sessions->list.items[i].path, path) == 0)
			return recover_one(&sessions->list.items[i], how);
	return recover_one(&(struct collect_found){.path = path}, how);
}

static int recover(char **words, const struct recovery *how)
{
	struct collect_sessions sessions = {VECTOR_EMPTY};
	struct error *error = collect_sessions_list(&sessions);
	int exit_code = error ? cli_error(error) : 0;

	if (!error && !*words)
		exit_code = recover_all(&sessions, how);
	for (; !error && *words; words++) {
		int outcome = recover_named(&sessions, *words, how);

		if (outcome)
			exit_code = outcome;
	}
	collect_sessions_free(&sessions);
	return exit_code;
}

static struct error *take_option(const struct cli_option *option, const char *value,
				 struct recovery *how)
{
	bool taken;

	TRY(cli_symbols_take(&how->symbols, option, value, &taken));
	if (taken)
		return NULL;
	how->output = value;
	return collect_output_check(value);
}

int cli_recover(char **argv)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	struct recovery how = {0};
	int exit_code;

	bool help = false;

	while (!help && !options.error && (option = cli_options_next(&options))) {
		help = option->letter == 'h';
		if (!help)
			options.error = take_option(option, options.value, &how);
	}
	how.finish.symbols = cli_symbols_options(&how.symbols);
	if (help) {
		print_help();
		exit_code = cli_finish(0);
	} else if (options.error) {
		exit_code = cli_usage_error("recover", options.error);
	} else {
		exit_code = recover(argv + options.at, &how);
	}
	cli_symbols_free(&how.symbols);
	return exit_code;
}
