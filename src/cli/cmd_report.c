#include <string.h>

#include "analyze/model.h"
#include "cli/cli.h"
#include "report/report.h"

enum {
	OPTION_PEAK = 256,
	OPTION_LIVE,
	OPTION_ALLOCATIONS,
	OPTION_BYTES,
	OPTION_TEMPORARY,
	OPTION_JSON,
	OPTION_SITES
};

static const struct cli_option options_table[] = {
	{OPTION_PEAK, "peak", NULL, "sites by what they held at the peak (the default)"},
	{OPTION_LIVE, "live", NULL, "by what they hold at the end"},
	{OPTION_ALLOCATIONS, "allocations", NULL, "by how often they allocated"},
	{OPTION_BYTES, "bytes", NULL, "by how much they allocated in all"},
	{OPTION_TEMPORARY, "temporary", NULL, "by blocks freed before the next allocation"},
	{OPTION_SITES, "sites", "N", "how many sites are listed (20), or all"},
	{OPTION_JSON, "json", NULL, "the whole as JSON"},
	{'p', "pid", "PID", "of a process that is being recorded"},
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

struct request {
	const char *file;
	const char *pid;
	struct report_options report;
	bool json;
	bool help;
};

static void print_help(void)
{
	printf("Usage: mallograph report [OPTION…] [FILE]\n"
	       "\n"
	       "Show what a ledger holds: totals of each process, and the sites. FILE is a\n"
	       "ledger or the pid of a process being recorded (./4711 is a file); left out, the\n"
	       "newest ledger in this directory.\n"
	       "\n");
	cli_options_help(options_table, stdout);
	printf("\n"
	       "Examples:\n"
	       "  mallograph report --live\n"
	       "  mallograph report --json --sites all mallograph.jq.4711.mgl\n");
}

static struct error *parse_sites(const char *text, size_t *ret)
{
	char *end;

	if (strcmp(text, "all") == 0) {
		*ret = REPORT_SITES_ALL;
		return NULL;
	}
	unsigned long count = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end)
		return error_create(ERROR_USAGE, "--sites needs a number or all, not %s", text);
	*ret = count;
	return NULL;
}

static struct error *take_option(const struct cli_option *option, const char *value,
				 struct request *request)
{
	switch (option->letter) {
	case OPTION_PEAK:
		request->report.order = ANALYZE_BY_PEAK;
		break;
	case OPTION_LIVE:
		request->report.order = ANALYZE_BY_LIVE;
		break;
	case OPTION_ALLOCATIONS:
		request->report.order = ANALYZE_BY_ALLOCATIONS;
		break;
	case OPTION_BYTES:
		request->report.order = ANALYZE_BY_BYTES;
		break;
	case OPTION_TEMPORARY:
		request->report.order = ANALYZE_BY_TEMPORARY;
		break;
	case OPTION_SITES:
		return parse_sites(value, &request->report.sites);
	case OPTION_JSON:
		request->json = true;
		break;
	case 'p':
		request->pid = value;
		break;
	default:
		request->help = true;
		break;
	}
	return NULL;
}

static struct error *parse(char **argv, struct request *request)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	const char *operand;

	do {
		while ((option = cli_options_next(&options)))
			TRY(take_option(option, options.value, request));
		operand = cli_options_operand(&options);
		if (operand && request->file)
			return error_create(ERROR_USAGE, "report takes one FILE: what is %s?",
					    operand);
		if (operand)
			request->file = operand;
	} while (operand);
	if (request->file && request->pid && !options.error)
		return error_create(ERROR_USAGE, "report takes a FILE or -p PID, not both");
	return options.error;
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

static struct error *print_report(const struct request *request)
{
	CLEANUP_FREE char *path = NULL;
	struct analyze_model *model;

	TRY(cli_find_ledger(request->pid ? request->pid : request->file, request->pid != NULL,
			    &path));
	TRY(with_next_step(analyze_model_open(path, &model)));
	struct error *error = request->json ? report_json_print(model, &request->report, stdout)
					    : report_text_print(model, &request->report, stdout);

	analyze_model_free(model);
	return error;
}

int cli_report(char **argv)
{
	struct request request = {.report.sites = REPORT_SITES_DEFAULT};
	struct error *error = parse(argv, &request);

	if (error)
		return cli_usage_error("report", error);
	if (request.help) {
		print_help();
		return cli_finish(0);
	}
	error = print_report(&request);
	if (error && error->errnum == EPIPE) {
		error_free(error);
		return CLI_EXIT_FAILED;
	}
	return error ? cli_error(error) : cli_finish(0);
}
