#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/model.h"
#include "base/units.h"
#include "base/vector.h"
#include "cli/choice.h"
#include "cli/cli.h"
#include "cli/view.h"
#include "collect/run.h"
#include "report/report.h"

#define LEDGER_LEAST (64u << 10)
#define DEPTH_LEAST  16u /* what agents keep in any case */
#define DEPTH_MOST   32768u

enum {
	OPTION_SUMMARY = 256,
	OPTION_MAX_LEDGER,
	OPTION_MAX_DEPTH,
	OPTION_ALLOC_FN,
	OPTION_BLOCKS,
	OPTION_NO_SYMBOLS,
	OPTION_VERSION
};

static const struct cli_option options_table[] = {
	{'o', "output", "FILE",
	 "where the profile goes: %p pid, %n program, %h host,\n%t time, %% a percent sign "
	 "(mallograph.%n.%p.mgp); the\nledger itself, if it ends in .mgl"},
	{'q', "quiet", NULL, "no summary at the end"},
	{OPTION_SUMMARY, "summary", "FILE", "write the summary to FILE, not standard error"},
	{OPTION_MAX_LEDGER, "max-ledger", "SIZE",
	 "stop recording where the ledger would grow beyond\nSIZE (a quarter of the free memory)"},
	{OPTION_MAX_DEPTH, "max-depth", "N",
	 "keep N frames of a stack, half of them from either end\n(1024)"},
	CLI_CHOICE_OPTIONS,
	{OPTION_ALLOC_FN, "alloc-fn", "PATTERN",
	 "sites are not named after functions that match, as\nafter malloc (a shell pattern; "
	 "again for more)"},
	{OPTION_BLOCKS, "blocks", "all", "list every block still live, however many"},
	{OPTION_NO_SYMBOLS, "no-symbols", NULL, "leave names and lines to mallograph symbolize"},
	CLI_SYMBOL_OPTIONS,
	{CLI_OPTION_COLOR, "color", "WHEN",
	 "colours in the summary: auto (the default), always\nor never"},
	{'h', "help", NULL, "show this"},
	{OPTION_VERSION, "version", NULL, "show the version"},
	CLI_OPTIONS_END,
};

struct request {
	struct collect_run_options run;
	VECTOR(const char *) alloc_fns;
	struct cli_symbols symbols;
	struct cli_choice choice;
	const char *summary;
	const char *colour;
	bool quiet;
	bool help;
	bool version;
};

void cli_help_print(FILE *out)
{
	fprintf(out,
		"Usage: mallograph [run] [OPTION…] [--] PROGRAM [ARGUMENT…]\n"
		"       mallograph COMMAND [OPTION…]\n"
		"\n"
		"Record every allocation of a program: who allocated what, what was alive at the\n"
		"peak, what is left at the end. The program runs as it would without.\n"
		"\n");
	cli_options_help(options_table, out);
	fprintf(out, "\nCommands (each has --help):\n");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		if (command->run)
			fprintf(out, "  %-21s %s\n", command->name, command->summary);
	fprintf(out, "\n"
		     "Examples:\n"
		     "  mallograph uname -a            record, then print a summary\n"
		     "  mallograph -o ls.mgp ls -l     choose where the profile goes\n"
		     "  mallograph -- top              a program with the name of a command\n"
		     "  mallograph report              look at the newest profile here\n");
}

static struct error *parse_depth(const char *text, uint32_t *ret)
{
	char *end;
	unsigned long depth = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || depth < DEPTH_LEAST || depth > DEPTH_MOST)
		return error_create(ERROR_USAGE, "--max-depth is a number from %u to %u, not %s",
				    DEPTH_LEAST, DEPTH_MOST, text);
	*ret = (uint32_t)depth;
	return NULL;
}

static struct error *take_option(const struct cli_option *option, const char *value,
				 struct request *request)
{
	bool taken;

	TRY(cli_symbols_take(&request->symbols, option, value, &taken));
	if (!taken)
		TRY(cli_choice_take(&request->choice, option, value, &taken));
	if (taken)
		return NULL;
	switch (option->letter) {
	case 'o':
		request->run.output = value;
		return collect_output_check(value);
	case 'q':
		request->quiet = true;
		break;
	case OPTION_SUMMARY:
		request->summary = value;
		break;
	case OPTION_MAX_LEDGER:
		TRY(error_context(units_parse_size(value, &request->run.limits.bytes),
				  "--max-ledger"));
		if (request->run.limits.bytes < LEDGER_LEAST)
			return error_remedy(error_create(ERROR_USAGE,
							 "--max-ledger %s would record nothing",
							 value),
					    "A ledger starts at %uK.", LEDGER_LEAST >> 10);
		break;
	case OPTION_MAX_DEPTH:
		return parse_depth(value, &request->run.limits.depth);
	case OPTION_ALLOC_FN:
		return vector_push(&request->alloc_fns, value);
	case OPTION_BLOCKS:
		if (strcmp(value, "all") != 0)
			return error_create(ERROR_USAGE, "--blocks knows all, not %s", value);
		request->run.finish.all_blocks = true;
		break;
	case OPTION_NO_SYMBOLS:
		request->run.finish.no_symbols = true;
		break;
	case CLI_OPTION_COLOR:
		request->colour = value;
		return cli_style_set(value, stderr, &(struct report_style){0});
	case OPTION_VERSION:
		request->version = true;
		break;
	default:
		request->help = true;
		break;
	}
	return NULL;
}

static struct error *parse(char **argv, bool is_run, struct request *request)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;

	while ((option = cli_options_next(&options)))
		TRY(take_option(option, options.value, request));
	if (options.error)
		return options.error;
	request->run.argv = argv + options.at;
	if (request->help || request->version)
		return NULL;

	const char *program = argv[options.at];

	if (!program)
		return error_create(ERROR_USAGE, "which program?");
	if (!is_run && !options.ended && cli_command_find(program))
		return error_remedy(error_create(ERROR_USAGE,
						 "%s is a command: it comes before its options",
						 program),
				    "For a program of that name put -- before it.");
	return NULL;
}

/* Said before the program runs, not after. */
static struct error *check_summary(const char *path)
{
	char directory[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int errnum = 0;

	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		errnum = EISDIR;
	else if ((access(path, W_OK) != 0 && (errno != ENOENT || *path == '\0')) ||
		 (access(path, F_OK) != 0 && access(directory, W_OK | X_OK) != 0))
		errnum = errno;
	return errnum ? error_create_system(errnum, path, "cannot write the summary") : NULL;
}

/* What is kept if it is a profile, wherever its directory is by now; else one made for the
 * summary alone. */
static struct error *open_profile(const struct collect_run *run, struct store_reader **ret)
{
	CLEANUP_FREE char *path = NULL;

	if (run->saved) {
		if (asprintf(&path, "/proc/self/fd/%d/%s", run->output.directory_fd,
			     run->output.name) < 0) {
			path = NULL;
			return error_no_memory();
		}
		CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && store_reader_recognises(fd))
			return store_reader_open(path, ret);
	}
	return cli_recording_open(run->session.fd, run->session.path, &run->finish, ret);
}

/* Whether commands that are told no file would look at it. */
static bool is_found_here(const struct collect_output *output)
{
	size_t length = strlen(output->name);
	const char *end = length > 4 ? output->name + length - 4 : "";

	return strcmp(output->name, output->path) == 0 && output->name[0] != '.' &&
	       (strcmp(end, ".mgp") == 0 || strcmp(end, ".mgl") == 0);
}

static struct error *print_totals(const struct collect_run *run, const struct request *request,
				  FILE *out)
{
	struct store_reader *reader;
	struct analyze_model *model;
	struct report_summary summary = {0};
	struct stat st;

	if (run->saved && fstatat(run->output.directory_fd, run->output.name, &st, 0) == 0) {
		summary.saved_path = run->output.path;
		summary.path = run->output.path;
		summary.saved_bytes = (uint64_t)st.st_blocks * 512;
		summary.is_newest_here = is_found_here(&run->output);
	}
	TRY(cli_style_set(request->colour, out, &summary.style));
	TRY(open_profile(run, &reader));
	TRY(analyze_model_load(reader, &model));
	struct error *error = report_summary_print(model, &summary, out);

	analyze_model_free(model);
	return error;
}

static void print_notes(const struct collect_run *run, FILE *out)
{
	if (run->left_out && run->recorded)
		cli_note_to(out, "%zu process%s left out, as was asked", run->left_out,
			    run->left_out == 1 ? " was" : "es were");
	if (run->unseen)
		cli_note_to(out,
			    "%zu process%s that allocated nothing so far, and %s not recorded: "
			    "have a server stay in the foreground, or see mallograph env",
			    run->unseen, run->unseen == 1 ? " runs on" : "es run on",
			    run->unseen == 1 ? "is" : "are");
	if (run->running == 1)
		cli_note_to(out, "1 process still runs; it is recorded up to now");
	else if (run->running > 1)
		cli_note_to(out, "%zu processes still run; they are recorded up to now",
			    run->running);
}

static void print_summary(const struct collect_run *run, const struct request *request)
{
	FILE *out = stderr;

	if (request->summary) {
		out = fopen(request->summary, "we");
		if (!out) {
			cli_note("cannot write the summary to %s: %s", request->summary,
				 strerror(errno));
			return;
		}
	}
	struct error *error = run->recorded > 0 ? print_totals(run, request, out) : NULL;

	if (error) {
		cli_error_print(error);
		error_free(error);
	}
	print_notes(run, out);
	if (fflush(out) != 0 && out != stderr)
		cli_note("cannot write the summary to %s: %s", request->summary, strerror(errno));
	if (out != stderr)
		fclose(out);
}

static void print_outcome(const struct collect_run *run, const struct request *request)
{
	if (!request->quiet)
		print_summary(run, request);
	if (run->recorded == 0 && run->left_out)
		cli_note("nothing was recorded: --only and --not leave out all that ran");
	else if (run->recorded == 0)
		cli_note(
			"nothing was recorded: %s ended before the agent could start, or its loader "
			"ignored LD_PRELOAD",
			run->program.image);
	if (run->unsaved) {
		cli_error_print(run->unsaved);
		cli_note("the recording is kept in memory: mallograph recover saves it from %s",
			 run->session.path);
	}
	if (run->leftover)
		cli_error_print(run->leftover);
}

static int record(struct request *request)
{
	struct collect_run run;
	int exit_code;
	struct error *error = request->summary ? check_summary(request->summary) : NULL;

	if (error)
		return cli_error(error);
	request->run.finish.alloc_fns = request->alloc_fns.items;
	request->run.finish.alloc_fn_count = request->alloc_fns.count;
	request->run.limits.choice = cli_choice_text(&request->choice);
	request->symbols.is_quiet = request->quiet;
	request->run.finish.symbols = cli_symbols_options(&request->symbols);
	error = collect_run(&request->run, &run, &exit_code);
	if (error) {
		bool is_absent = error->code == ERROR_NOT_FOUND;

		cli_error(error);
		if (is_absent && cli_command_meant(request->run.argv[0]))
			cli_note("did you mean mallograph %s?",
				 cli_command_meant(request->run.argv[0]));
		if (run.leftover)
			cli_error_print(run.leftover);
		collect_run_close(&run);
		return exit_code;
	}
	struct collect_end end = run.end;

	print_outcome(&run, request);
	collect_run_close(&run);
	if (!end.by_signal)
		return end.code;
	collect_signals_die(end.code);
	return 128 + end.code;
}

int cli_run(char **argv)
{
	bool is_run = strcmp(argv[0], "run") == 0;
	struct request request = {0};
	struct error *error = parse(argv, is_run, &request);
	int exit_code;

	if (error) {
		exit_code = cli_usage_error("", error);
	} else if (request.help) {
		cli_help_print(stdout);
		exit_code = cli_finish(0);
	} else if (request.version) {
		printf("mallograph %s\n", MALLOGRAPH_VERSION);
		exit_code = cli_finish(0);
	} else {
		exit_code = record(&request);
	}
	vector_free(&request.alloc_fns);
	cli_symbols_free(&request.symbols);
	cli_choice_free(&request.choice);
	return exit_code;
}
