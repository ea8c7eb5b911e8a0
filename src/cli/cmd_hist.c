#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "cli/view.h"

enum {
	OPTION_OF = 256,
	OPTION_QUANTIZE,
	OPTION_LQUANTIZE,
	OPTION_BY,
	OPTION_BYTES,
	OPTION_SITES,
};

static const struct cli_option options_table[] = {
	{OPTION_OF, "of", "WHAT", "size, which is all there is so far"},
	{OPTION_QUANTIZE, "quantize", NULL, "buckets that are powers of two (the default)"},
	{OPTION_LQUANTIZE, "lquantize", "LOW:HIGH:STEP",
	 "buckets of equal width; their bounds move to those of\nthe classes sizes are kept in"},
	{OPTION_BY, "by", "WHAT",
	 "one histogram each: stack (merged as in the summary),\nthread, module, function (the one "
	 "called), process or\nprogram"},
	CLI_PROCESS_OPTION,
	{OPTION_BYTES, "bytes", NULL, "allocated bytes instead of allocations"},
	{OPTION_SITES, "sites", "N",
	 "how many histograms with --by (20), or all; the others\n"
	 "are summed"},
	CLI_VIEW_OPTIONS,
};

static const char usage[] =
	"Usage: mallograph hist [OPTION…] [FILE]\n"
	"\n"
	"Draw how the sizes of allocations are distributed. FILE is a profile or\n"
	"ledger, or the pid of a process being recorded; left out, the newest here.\n";

static const char examples[] = "  mallograph hist\n"
			       "  mallograph hist --by stack --bytes\n"
			       "  mallograph hist --lquantize 0:512:32 mallograph.jq.4711.mgp\n";

struct request {
	struct report_hist hist;
	struct analyze_linear linear;
};

static struct error *bad_linear(const char *text)
{
	return error_remedy(
		error_create(ERROR_USAGE, "--lquantize needs LOW:HIGH:STEP, not %s", text),
		"As in 0:1K:64; LOW below HIGH, at most %u steps.", ANALYZE_BUCKETS_MAX);
}

static struct error *parse_linear(const char *text, struct analyze_linear *ret)
{
	uint64_t *const parts[] = {&ret->low, &ret->high, &ret->step};
	const char *at = text;

	for (size_t i = 0; i < 3; i++) {
		size_t length = strcspn(at, ":");
		CLEANUP_FREE char *part = strndup(at, length);

		if (!part)
			return error_no_memory();
		CLEANUP_ERROR struct error *error = units_parse_size(part, parts[i]);

		if (error || (at[length] == ':') != (i < 2))
			return bad_linear(text);
		at += length + 1;
	}
	if (ret->low >= ret->high || ret->step == 0 ||
	    (ret->high - ret->low) / ret->step > ANALYZE_BUCKETS_MAX)
		return bad_linear(text);
	return NULL;
}

static struct error *parse_by(const char *text, enum analyze_by *ret)
{
	static const struct {
		const char *word;
		enum analyze_by by;
	} words[] = {
		{"stack", ANALYZE_BY_SITE},        {"site", ANALYZE_BY_SITE},
		{"thread", ANALYZE_BY_THREAD},     {"module", ANALYZE_BY_MODULE},
		{"function", ANALYZE_BY_FUNCTION}, {"process", ANALYZE_BY_PROCESS},
		{"program", ANALYZE_BY_PROGRAM},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].word, text) == 0) {
			*ret = words[i].by;
			return NULL;
		}
	return error_create(ERROR_USAGE,
			    "--by is stack, thread, module, function, process or "
			    "program, not %s",
			    text);
}

static struct error *take(void *context, const struct cli_option *option, const char *value)
{
	struct request *request = context;

	switch (option->letter) {
	case OPTION_OF:
		if (strcmp(value, "size") != 0)
			return error_create(ERROR_USAGE, "--of knows size, not %s", value);
		break;
	case OPTION_LQUANTIZE:
		request->hist.linear = &request->linear;
		return parse_linear(value, &request->linear);
	case OPTION_BY:
		return parse_by(value, &request->hist.by);
	case OPTION_BYTES:
		request->hist.bytes = true;
		break;
	case OPTION_SITES:
		return cli_parse_count("sites", value, &request->hist.limit);
	default:
		request->hist.linear = NULL;
		break;
	}
	return NULL;
}

static struct error *print(void *context, struct cli_view *view)
{
	struct request *request = context;
	struct analyze_model *model;

	request->hist.style = view->style;
	TRY(cli_view_model(view, &model));
	struct error *error = report_hist_print(model, &request->hist, stdout);

	analyze_model_free(model);
	return error;
}

int cli_hist(char **argv)
{
	struct request request = {.hist.limit = REPORT_SITES_DEFAULT};
	const struct cli_view_command command = {
		.name = "hist",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.take = take,
		.print = print,
		.context = &request,
	};

	return cli_view_main(&command, argv);
}
