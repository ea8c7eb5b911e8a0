#include <limits.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/choice.h"
#include "cli/cli.h"
#include "collect/place.h"
#include "collect/preload.h"

static const struct cli_option options_table[] = {
	{'o', "output", "FILE", "where the ledger goes (%p is the pid)"},
	CLI_CHOICE_OPTIONS,
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

static void print_help(void)
{
	printf("Usage: mallograph env [OPTION…]\n"
	       "\n"
	       "Print the lines that make a shell record every program it starts, without a\n"
	       "collector:\n"
	       "\n"
	       "  (eval \"$(mallograph env)\"; ./server)\n"
	       "\n"
	       "Each program then keeps a ledger of its own, which `mallograph report` opens\n"
	       "while it runs and afterwards. On a disk the program can wait for write-back;\n"
	       "without -o the ledgers are in shared memory, until `mallograph recover`\n"
	       "brings them here.\n"
	       "\n");
	cli_options_help(options_table, stdout);
}

/* A word no shell changes: in single quotes, those inside closed, escaped, reopened. */
static void append_quoted(struct strbuf *buffer, const char *text)
{
	strbuf_append_char(buffer, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_append(buffer, "'\\''");
		else
			strbuf_append_char(buffer, *text);
	}
	strbuf_append_char(buffer, '\'');
}

static struct error *default_out(char **ret)
{
	struct error *error = NULL;

	for (unsigned i = 0; i < COLLECT_PLACES; i++) {
		struct collect_place place = COLLECT_PLACE_CLOSED;
		struct error *failure = collect_place_open(i, &place);

		if (!failure) {
			error_free(error);
			int length = asprintf(ret, "%s/%%p.mgl", place.path);

			collect_place_close(&place);
			return length < 0 ? error_no_memory() : NULL;
		}
		error_free(error);
		error = failure;
		if (error->code == ERROR_NO_MEMORY)
			break;
	}
	return error;
}

/* The program may start somewhere else. */
static struct error *absolute(const char *path, char **ret)
{
	char here[PATH_MAX];

	if (path[0] == '/')
		*ret = strdup(path);
	else if (!getcwd(here, sizeof(here)))
		return error_create_system(errno, NULL, "cannot tell the working directory");
	else if (asprintf(ret, "%s/%s", here, path) < 0)
		*ret = NULL;
	return *ret ? NULL : error_no_memory();
}

static struct error *print_exports(const char *out, const char *choice)
{
	CLEANUP_FREE char *agent = NULL, *file = NULL;
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	TRY(collect_preload_find(&agent));
	TRY(out ? absolute(out, &file) : default_out(&file));
	strbuf_append(&buffer, "export LD_PRELOAD=");
	append_quoted(&buffer, agent);
	strbuf_append(&buffer, "\"${LD_PRELOAD:+:$LD_PRELOAD}\"\nexport MALLOGRAPH_OUT=");
	append_quoted(&buffer, file);
	strbuf_append(&buffer, "\n");
	if (choice) {
		strbuf_append(&buffer, "export MALLOGRAPH_CHOICE=");
		append_quoted(&buffer, choice);
		strbuf_append(&buffer, "\n");
	}
	TRY(strbuf_result(&buffer));
	fwrite(buffer.text, 1, buffer.length, stdout);
	return NULL;
}

struct request {
	const char *out;
	struct cli_choice choice;
	bool help;
};

static struct error *parse(char **argv, struct request *request)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	bool taken;

	while (!request->help && (option = cli_options_next(&options))) {
		TRY(cli_choice_take(&request->choice, option, options.value, &taken));
		request->help |= option->letter == 'h';
		if (option->letter == 'o')
			request->out = options.value;
	}
	if (options.error || request->help)
		return options.error;
	if (argv[options.at])
		return error_create(ERROR_USAGE, "env takes no %s", argv[options.at]);
	if (request->out && *request->out == '\0')
		return error_create(ERROR_USAGE, "--output needs a FILE");
	return NULL;
}

int cli_env(char **argv)
{
	struct request request = {0};
	struct error *error = parse(argv, &request);
	int exit_code = 0;

	if (error) {
		exit_code = cli_usage_error("env", error);
	} else if (request.help) {
		print_help();
		exit_code = cli_finish(0);
	} else {
		error = print_exports(request.out, cli_choice_text(&request.choice));
		exit_code = error ? cli_error(error) : cli_finish(0);
	}
	cli_choice_free(&request.choice);
	return exit_code;
}
