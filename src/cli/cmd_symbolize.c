#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/symbols.h"
#include "cli/view.h"
#include "collect/output.h"
#include "collect/symbolize.h"

enum { OPTION_LIST_MISSING = 256 };

static const struct cli_option options_table[] = {
	{'o', "output", "FILE", "write it there, and leave FILE as it is"},
	{OPTION_LIST_MISSING, "list-missing", NULL,
	 "write nothing; print build-id, tab and path of modules\nwithout lines"},
	CLI_SYMBOL_OPTIONS,
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

struct request {
	struct cli_symbols symbols;
	const char *file;
	const char *output;
	bool list_missing;
	bool help;
};

static void print_help(void)
{
	printf("Usage: mallograph symbolize [OPTION…] [FILE]\n"
	       "\n"
	       "Look up names and lines that a profile lacks: one recorded with --no-symbols, on\n"
	       "another machine, or before debug files were installed. It is replaced by one\n"
	       "that has them. A file is used if its build-id is the one recorded.\n"
	       "\n");
	cli_options_help(options_table, stdout);
	printf("\n"
	       "Examples:\n"
	       "  mallograph symbolize --sysroot /mnt/target mallograph.app.812.mgp\n"
	       "  mallograph symbolize --list-missing | cut -f1\n");
}

static struct error *take_option(struct request *request, const struct cli_option *option,
				 const char *value)
{
	bool taken;

	TRY(cli_symbols_take(&request->symbols, option, value, &taken));
	if (taken)
		return NULL;
	switch (option->letter) {
	case 'o':
		request->output = value;
		return collect_output_check(value);
	case OPTION_LIST_MISSING:
		request->list_missing = true;
		return NULL;
	default:
		request->help = true;
		return NULL;
	}
}

static struct error *parse(struct request *request, char **argv)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	const char *operand;

	do {
		while ((option = cli_options_next(&options)))
			TRY(take_option(request, option, options.value));
		operand = cli_options_operand(&options);
		if (operand && request->file)
			return error_create(ERROR_USAGE, "symbolize takes one FILE: what is %s?",
					    operand);
		if (operand)
			request->file = operand;
	} while (operand);
	if (!options.error && request->output && request->list_missing)
		return error_create(ERROR_USAGE, "--list-missing writes no file: not with -o");
	return options.error;
}

/* Where the file really is, which a link may only lead to, as a pattern of that alone. */
static struct error *pattern_of(const char *path, char **ret)
{
	CLEANUP_FREE char *real = realpath(path, NULL);
	CLEANUP_STRBUF struct strbuf pattern = STRBUF_EMPTY;

	if (!real)
		return error_create_system(errno, path, "cannot open");
	for (const char *at = real; *at; at++) {
		if (*at == '%')
			strbuf_append_char(&pattern, '%');
		strbuf_append_char(&pattern, *at);
	}
	TRY(strbuf_result(&pattern));
	*ret = strbuf_take(&pattern);
	return NULL;
}

static struct error *print_missing(const struct collect_symbolizing *symbolizing)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;
	struct collect_symbolized_module module;

	for (size_t i = 0; collect_symbolizing_module(symbolizing, i, &module); i++) {
		if (module.has_lines || !module.is_file)
			continue;
		strbuf_clear(&line);
		strbuf_printf(&line, "%s\t", module.build_id);
		strbuf_printable(&line, module.path, strlen(module.path));
		TRY(strbuf_result(&line));
		puts(line.text);
	}
	return NULL;
}

struct tally {
	size_t all, with_lines, better;
};

static struct tally count(const struct collect_symbolizing *symbolizing)
{
	struct collect_symbolized_module module;
	struct tally tally = {0};

	for (size_t i = 0; collect_symbolizing_module(symbolizing, i, &module); i++) {
		tally.all += module.is_file;
		tally.with_lines += module.is_file && module.has_lines;
		tally.better += module.is_better;
	}
	return tally;
}

/* What there is of it is written, or the interruption waits. */
static struct error *write_whole(struct collect_symbolizing *symbolizing,
				 struct collect_output *output)
{
	sigset_t before = cli_hold_interruptions();
	struct error *error = collect_symbolizing_write(symbolizing, output);

	if (error)
		collect_output_close(output);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return error;
}

static struct error *update(const struct request *request, const char *path,
			    struct collect_symbolizing *symbolizing, struct collect_output *output)
{
	struct tally tally = count(symbolizing);

	if (tally.better == 0 && !request->output) {
		cli_note("nothing new: %zu of %zu modules of %s have line numbers",
			 tally.with_lines, tally.all, path);
	} else {
		TRY(write_whole(symbolizing, output));
		cli_note("symbolized %s: %zu of %zu modules have line numbers",
			 request->output ? output->path : path, tally.with_lines, tally.all);
	}
	if (tally.with_lines < tally.all)
		cli_note("what to install: mallograph doctor %s", path);
	return NULL;
}

static struct error *symbolize(struct request *request)
{
	struct collect_output output = COLLECT_OUTPUT_CLOSED;
	struct collect_symbolizing *symbolizing;
	CLEANUP_FREE char *path = NULL, *pattern = NULL;

	TRY(cli_find_profile(request->file, false, &path));
	if (cli_ledger_is(path))
		return error_remedy(error_create_path(ERROR_REFUSED, path, "a ledger"),
				    "Its names and lines are looked up whenever it is read.");
	if (!request->output)
		TRY(pattern_of(path, &pattern));
	/* Said before it takes its time. */
	struct error *error =
		request->list_missing
			? NULL
			: collect_output_prepare(request->output ? request->output : pattern, path,
						 getpid(), &output);

	if (!error)
		error = collect_symbolizing_open(path, cli_symbols_options(&request->symbols),
						 &symbolizing);
	if (!error) {
		error = request->list_missing ? print_missing(symbolizing)
					      : update(request, path, symbolizing, &output);
		collect_symbolizing_close(symbolizing);
	}
	collect_output_close(&output);
	return error;
}

int cli_symbolize(char **argv)
{
	struct request request = {0};
	struct error *error = parse(&request, argv);
	int exit_code;

	if (error) {
		exit_code = cli_usage_error("symbolize", error);
	} else if (request.help) {
		print_help();
		exit_code = cli_finish(0);
	} else {
		error = symbolize(&request);
		exit_code = error ? cli_error(error) : cli_finish(0);
	}
	cli_symbols_free(&request.symbols);
	return exit_code;
}
