#include "report/lacks.h"

#include <string.h>

#include "analyze/finding.h"
#include "report/words.h"

#define MODULES 4u
#define INDENT  9u

struct telling {
	const struct analyze_model *model;
	const struct report_summary *options;
	struct strbuf *out;
};

/* What modules are said to lack together. */
struct lack_kind {
	enum analyze_symbols symbols;
	bool has_nameless; /* told apart where some functions have names */
};

static bool is_kind(const struct telling *telling, const struct analyze_lack *lack,
		    const struct lack_kind *kind)
{
	return telling->model->modules[lack->module].symbols == kind->symbols &&
	       (kind->symbols != ANALYZE_SYMBOLS_SYMTAB ||
		lack->has_nameless == kind->has_nameless);
}

static const char *lack_words(const struct lack_kind *kind)
{
	switch (kind->symbols) {
	case ANALYZE_SYMBOLS_SYMTAB:
		return kind->has_nameless ? "only some function names, no line numbers"
					  : "function names only, no line numbers";
	case ANALYZE_SYMBOLS_PENDING:
		return "not looked for yet";
	default:
		return "no function names";
	}
}

static void put_lacking(const struct telling *telling, const struct analyze_lack *lacks,
			size_t count, const struct lack_kind *kind, bool *first)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	size_t named = 0, left = 0;

	for (size_t i = 0; i < count; i++) {
		if (!is_kind(telling, &lacks[i], kind))
			continue;
		if (named == MODULES) {
			left++;
			continue;
		}
		strbuf_append(&text, named++ ? ", " : "");
		report_put_module(&text, telling->model, lacks[i].module);
	}
	if (named == 0)
		return;
	if (left)
		strbuf_printf(&text, " and %zu more", left);
	strbuf_printf(&text, ": %s", lack_words(kind));
	if (text.failed) {
		telling->out->failed = true;
		return;
	}
	if (*first) {
		strbuf_append_char(telling->out, '\n');
		report_put_coloured(telling->out, &telling->options->style, REPORT_HEADING,
				    "SYMBOLS");
		strbuf_append(telling->out, "  ");
	} else {
		strbuf_fill(telling->out, ' ', INDENT);
	}
	*first = false;
	report_put_wrapped(telling->out, text.text, INDENT,
			   report_columns(&telling->options->style));
	strbuf_append_char(telling->out, '\n');
}

/* Files that were there and are of another build, as after an upgrade. */
static void put_refused(const struct telling *telling, const struct analyze_lack *lacks,
			size_t count)
{
	static const struct {
		const char *reason; /* has it */
		const char *words;
	} kinds[] = {
		{"the file there now is another",
		 ": what is there now is another build than what ran, and was not used"},
		{"of another build-id", ": a debug file of another build was not used"},
	};

	for (size_t i = 0; i < count && i < MODULES; i++) {
		const char *reason = telling->model->modules[lacks[i].module].reason.bytes;

		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && reason; k++) {
			CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

			if (!strstr(reason, kinds[k].reason))
				continue;
			report_put_module(&text, telling->model, lacks[i].module);
			strbuf_append(&text, kinds[k].words);
			telling->out->failed |= text.failed;
			strbuf_fill(telling->out, ' ', INDENT);
			report_put_wrapped(telling->out, text.failed ? "" : text.text, INDENT,
					   report_columns(&telling->options->style));
			strbuf_append_char(telling->out, '\n');
			break;
		}
	}
}

static bool is_pending(const struct telling *telling, const struct analyze_lack *lacks,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (telling->model->modules[lacks[i].module].symbols == ANALYZE_SYMBOLS_PENDING)
			return true;
	return false;
}

static void put_next_step(const struct telling *telling, bool pending)
{
	const char *path = telling->options->path;

	strbuf_fill(telling->out, ' ', INDENT);
	strbuf_append(telling->out, pending ? "to look for them:  mallograph symbolize"
					    : "what to install:  mallograph doctor");
	if (!telling->options->is_newest_here) {
		strbuf_append_char(telling->out, ' ');
		report_put_quoted(telling->out, path, strlen(path));
	}
	strbuf_append_char(telling->out, '\n');
}

struct error *report_put_lacks(struct strbuf *out, const struct analyze_model *model,
			       uint32_t process, const struct report_summary *options)
{
	static const struct lack_kind kinds[] = {
		{.symbols = ANALYZE_SYMBOLS_NONE},
		{.symbols = ANALYZE_SYMBOLS_SYMTAB, .has_nameless = true},
		{.symbols = ANALYZE_SYMBOLS_SYMTAB},
		{.symbols = ANALYZE_SYMBOLS_PENDING},
	};
	const struct telling telling = {.model = model, .options = options, .out = out};
	CLEANUP_FREE struct analyze_lack *lacks = NULL;
	size_t count;
	bool first = true;

	TRY(analyze_lacks_make(model, process, &lacks, &count));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		put_lacking(&telling, lacks, count, &kinds[i], &first);
	put_refused(&telling, lacks, count);
	if (!first && options->path)
		put_next_step(&telling, is_pending(&telling, lacks, count));
	return NULL;
}
