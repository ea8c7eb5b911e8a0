#include <string.h>

#include "cli/view.h"

enum {
	OPTION_PEAK = 256,
	OPTION_LIVE,
	OPTION_ALLOCATIONS,
	OPTION_BYTES,
	OPTION_TEMPORARY,
	OPTION_TREE,
	OPTION_JSON,
	OPTION_SITES,
	OPTION_BY,
	OPTION_PROCESSES,
	OPTION_SUMMARY
};

static const struct cli_option options_table[] = {
	{OPTION_PEAK, "peak", NULL, "sites by what they held at the peak (the default)"},
	{OPTION_LIVE, "live", NULL, "by what they hold at the end"},
	{OPTION_ALLOCATIONS, "allocations", NULL, "by how often they allocated"},
	{OPTION_BYTES, "bytes", NULL, "by how much they allocated in all"},
	{OPTION_TEMPORARY, "temporary", NULL, "by blocks freed before the next allocation"},
	{OPTION_SITES, "sites", "N", "how many sites are listed (20), or all"},
	{OPTION_BY, "by", "WHAT",
	 "sites of several processes under their process or\nprogram, not merged over all; of a "
	 "merged profile: how\nfar each rank, file or host differs"},
	CLI_PROCESS_OPTION,
	{OPTION_PROCESSES, "processes", "N", "how many lines their list has (20), or all"},
	{OPTION_TREE, "tree", "[HOW]",
	 "calls as a tree: top-down (the default), from where\nthe program begins, or bottom-up, "
	 "from what allocates"},
	{OPTION_SUMMARY, "summary", NULL, "the summary that ended the run"},
	{OPTION_JSON, "json", NULL, "the whole as JSON"},
	{CLI_OPTION_ALLOC_FN, "alloc-fn", "PATTERN",
	 "sites are not named after functions that match (a\nshell pattern; again for more)"},
	CLI_VIEW_OPTIONS,
};

static const char usage[] =
	"Usage: mallograph report [OPTION…] [FILE]\n"
	"\n"
	"Show what a profile holds: totals of each process, and the sites with their\n"
	"whole stacks. FILE is a profile or a ledger, or the pid of a process being\n"
	"recorded (./4711 is a file); left out, the newest in this directory.\n";

static const char examples[] = "  mallograph report --live\n"
			       "  mallograph report --tree=bottom-up --bytes\n"
			       "  mallograph report --by program --process cc1\n"
			       "  mallograph report --json --sites all mallograph.jq.4711.mgp\n";

struct request {
	struct report_options report;
	enum analyze_direction direction;
	bool tree;
	bool summary;
	bool json;
	bool sites;
	bool processes;
};

static struct error *parse_tree(const char *text, struct request *request)
{
	request->tree = true;
	if (!text || strcmp(text, "top-down") == 0)
		request->direction = ANALYZE_TOP_DOWN;
	else if (strcmp(text, "bottom-up") == 0)
		request->direction = ANALYZE_BOTTOM_UP;
	else
		return error_create(ERROR_USAGE, "--tree is top-down or bottom-up, not %s", text);
	return NULL;
}

static struct error *parse_by(const char *text, enum analyze_split *ret)
{
	static const struct {
		const char *word;
		enum analyze_split split;
	} words[] = {
		{"process", ANALYZE_SPLIT_PROCESS}, {"program", ANALYZE_SPLIT_PROGRAM},
		{"rank", ANALYZE_SPLIT_RANK},       {"file", ANALYZE_SPLIT_FILE},
		{"host", ANALYZE_SPLIT_HOST},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].word, text) == 0) {
			*ret = words[i].split;
			return NULL;
		}
	return error_create(ERROR_USAGE, "--by is process, program, rank, file or host, not %s",
			    text);
}

static bool is_by_source(const struct request *request)
{
	return request->report.split >= ANALYZE_SPLIT_RANK;
}

static struct error *take(void *context, const struct cli_option *option, const char *value)
{
	struct request *request = context;

	switch (option->letter) {
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
		request->sites = true;
		return cli_parse_count("sites", value, &request->report.sites);
	case OPTION_PROCESSES:
		request->processes = true;
		return cli_parse_count("processes", value, &request->report.processes);
	case OPTION_BY:
		return parse_by(value, &request->report.split);
	case OPTION_TREE:
		return parse_tree(value, request);
	case OPTION_SUMMARY:
		request->summary = true;
		break;
	case OPTION_JSON:
		request->json = true;
		break;
	default:
		request->report.order = ANALYZE_BY_PEAK;
		break;
	}
	return NULL;
}

static struct error *check(void *context)
{
	const struct request *request = context;

	if (request->tree && request->json)
		return error_remedy(error_create(ERROR_USAGE, "--tree is text: not with --json"),
				    "The JSON has the stacks the tree is made of.");
	if (request->summary && (request->tree || request->json))
		return error_create(ERROR_USAGE, "--summary is a report of its own: not with %s",
				    request->tree ? "--tree" : "--json");
	if (request->summary && request->sites)
		return error_create(ERROR_USAGE, "a summary has no --sites");
	if (request->report.split && (request->summary || request->json))
		return error_remedy(error_create(ERROR_USAGE, "--by is of text: not with %s",
						 request->summary ? "--summary" : "--json"),
				    "In the JSON each site has its process.");
	if (is_by_source(request) && request->tree)
		return error_create(ERROR_USAGE,
				    "--by rank, file or host is a list: not with --tree");
	if (request->processes &&
	    (request->summary || request->json || request->tree || is_by_source(request)))
		return error_create(ERROR_USAGE,
				    "--processes is of their list: not with --summary, "
				    "--json or --tree");
	if (request->tree && request->sites)
		return error_create(ERROR_USAGE, "a tree has no --sites");
	return NULL;
}

static struct error *print(void *context, struct cli_view *view)
{
	struct request *request = context;
	const struct report_summary summary = {
		.style = view->style,
		.path = view->path,
		.is_newest_here = !view->file && !view->pid,
	};
	struct analyze_model *model;
	struct error *error;

	request->report.style = view->style;
	if (request->report.split && !is_by_source(request) && !request->sites)
		request->report.sites = REPORT_SECTION_SITES;
	TRY(cli_view_model(view, &model));
	if (request->json)
		error = report_json_print(model, &request->report, stdout);
	else if (request->summary)
		error = report_summary_print(model, &summary, stdout);
	else if (is_by_source(request))
		error = report_ranks_print(model, &request->report, stdout);
	else if (request->tree)
		error = report_tree_print(model, &request->report, request->direction, stdout);
	else
		error = report_text_print(model, &request->report, stdout);
	analyze_model_free(model);
	return error;
}

int cli_report(char **argv)
{
	struct request request = {.report = {
					  .sites = REPORT_SITES_DEFAULT,
					  .processes = REPORT_PROCESSES_DEFAULT,
				  }};
	const struct cli_view_command command = {
		.name = "report",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.take = take,
		.check = check,
		.print = print,
		.context = &request,
	};

	return cli_view_main(&command, argv);
}
