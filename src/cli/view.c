#include "cli/view.h"

#include <string.h>
#include <sys/ioctl.h>

#include "analyze/stacks.h"
#include "collect/finish.h"

/* A line of text as wide as some terminals are is read by nobody. */
#define MAX_COLUMNS 160u

struct error *cli_style_set(const char *when, FILE *out, struct report_style *ret)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	bool is_terminal = isatty(fileno(out));
	struct winsize size;

	*ret = (struct report_style){0};
	if (!when || strcmp(when, "auto") == 0)
		ret->has_colours = is_terminal && !(no_colour && *no_colour) &&
				   !(terminal && strcmp(terminal, "dumb") == 0);
	else if (strcmp(when, "always") == 0)
		ret->has_colours = true;
	else if (strcmp(when, "never") != 0)
		return error_create(ERROR_USAGE, "--color is auto, always or never, not %s", when);
	if (is_terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
		ret->columns = size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
	return NULL;
}

struct error *cli_parse_count(const char *option, const char *text, size_t *ret)
{
	char *end;

	if (strcmp(text, "all") == 0) {
		*ret = REPORT_SITES_ALL;
		return NULL;
	}
	unsigned long count = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end)
		return error_create(ERROR_USAGE, "--%s needs a number or all, not %s", option,
				    text);
	*ret = count;
	return NULL;
}

static void print_help(const struct cli_view_command *command)
{
	printf("%s\n", command->usage);
	cli_options_help(command->options, stdout);
	printf("\nExamples:\n%s", command->examples);
}

static struct error *take_option(struct cli_view *view, const struct cli_option *option,
				 const char *value)
{
	bool taken;

	TRY(cli_symbols_take(&view->symbols, option, value, &taken));
	if (taken)
		return NULL;
	switch (option->letter) {
	case 'p':
		view->pid = value;
		return NULL;
	case 'h':
		view->help = true;
		return NULL;
	case CLI_OPTION_COLOR:
		return cli_style_set(value, stdout, &view->style);
	case CLI_OPTION_ALLOC_FN:
		return vector_push(&view->alloc_fns, value);
	case CLI_OPTION_PROCESS:
		return vector_push(&view->processes, value);
	default:
		return view->command->take(view->command->context, option, value);
	}
}

static struct error *take_operand(struct cli_view *view, const char *operand)
{
	const struct cli_view_command *command = view->command;

	if (command->first && !*command->first)
		*command->first = operand;
	else if (view->file)
		return error_create(ERROR_USAGE, "%s takes one FILE: what is %s?", command->name,
				    operand);
	else
		view->file = operand;
	return NULL;
}

static struct error *parse(struct cli_view *view, char **argv)
{
	const struct cli_view_command *command = view->command;
	struct cli_options options = CLI_OPTIONS(command->options, argv);
	const struct cli_option *option;
	const char *operand;

	do {
		while ((option = cli_options_next(&options)))
			TRY(take_option(view, option, options.value));
		operand = cli_options_operand(&options);
		if (operand)
			TRY(take_operand(view, operand));
	} while (operand);
	if (options.error || view->help)
		return options.error;
	if (command->first && !*command->first)
		return error_create(ERROR_USAGE, "%s needs %s", command->name, command->first_name);
	if (view->file && view->pid)
		return error_create(ERROR_USAGE, "%s takes a FILE or -p PID, not both",
				    command->name);
	return command->check ? command->check(command->context) : NULL;
}

static struct error *with_next_step(struct error *error)
{
	if (!error || error->remedy)
		return error;
	if (error->code == ERROR_FORMAT)
		return error_remedy(error, "Name a file that mallograph PROGRAM made.");
	if (error->code == ERROR_DAMAGED)
		return error_remedy(error, "Copy it again, whole, from where it was recorded.");
	return error;
}

struct error *cli_view_model(struct cli_view *view, struct analyze_model **ret)
{
	TRY(with_next_step(analyze_model_load(STEAL(view->reader), ret)));
	struct error *error = NULL;

	if (view->processes.count)
		error = cli_select(*ret, view->processes.items, view->processes.count);
	if (!error && view->alloc_fns.count)
		error = analyze_titles_set(*ret, view->alloc_fns.items, view->alloc_fns.count);
	if (error)
		analyze_model_free(*ret);
	return error;
}

static struct error *show(struct cli_view *view)
{
	const struct collect_finish_options finish = {
		.symbols = cli_symbols_options(&view->symbols),
	};

	TRY(cli_find_profile(view->pid ? view->pid : view->file, view->pid != NULL, &view->path));
	TRY(with_next_step(cli_profile_open(view->path, &finish, &view->reader)));
	cli_pager_begin();
	return view->command->print(view->command->context, view);
}

static int end(struct error *error)
{
	bool stopped = error && error->errnum == EPIPE;

	/* Whoever reads it has seen enough: that is no failure to speak of. */
	if (error && !stopped) {
		fflush(stdout);
		cli_pager_end();
		return cli_error(error);
	}
	error_free(error);

	int exit_code = stopped ? CLI_EXIT_FAILED : cli_finish(0);

	return cli_pager_end() ? 0 : exit_code;
}

int cli_view_main(const struct cli_view_command *command, char **argv)
{
	struct cli_view view = {.command = command};
	struct error *error = cli_style_set(NULL, stdout, &view.style);
	int exit_code;

	if (!error)
		error = parse(&view, argv);
	if (error)
		exit_code = cli_usage_error(command->name, error);
	else if (view.help) {
		print_help(command);
		exit_code = cli_finish(0);
	} else {
		exit_code = end(show(&view));
	}
	store_reader_close(view.reader);
	vector_free(&view.alloc_fns);
	vector_free(&view.processes);
	cli_symbols_free(&view.symbols);
	free(view.path);
	return exit_code;
}
