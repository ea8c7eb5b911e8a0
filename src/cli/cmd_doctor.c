#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/view.h"
#include "report/words.h"
#include "symbols/packages.h"
#include "symbols/symbols.h"

#define INDENT       8u
#define PLACE_COLUMN 10

static const struct cli_option options_table[] = {CLI_VIEW_OPTIONS};

static const char usage[] =
	"Usage: mallograph doctor [OPTION…] [FILE|PROGRAM|PID]\n"
	"\n"
	"Show why a module has names and lines or has not: every path where its symbols\n"
	"were looked for, in order, with what came of it, and what to install. Of a\n"
	"profile or ledger FILE, all that stacks go through; of a PROGRAM, what it would\n"
	"be started with; of a process, what it runs. Left out, the newest profile here.\n";

static const char examples[] = "  mallograph doctor\n"
			       "  mallograph doctor python3\n";

struct doctor {
	struct cli_symbols own;
	const char *word;
	bool is_pid;
	bool help;
	struct report_style style;
	struct cli_doctor_list list;
	struct symbols *symbols;
	VECTOR(struct symbols_module *) modules; /* of the list's */
	struct strbuf out;
};

static struct error *take_option(struct doctor *doctor, const struct cli_option *option,
				 const char *value)
{
	bool taken;

	TRY(cli_symbols_take(&doctor->own, option, value, &taken));
	if (taken)
		return NULL;
	switch (option->letter) {
	case 'p':
		doctor->word = value;
		doctor->is_pid = true;
		return NULL;
	case CLI_OPTION_COLOR:
		return cli_style_set(value, stdout, &doctor->style);
	default:
		doctor->help = true;
		return NULL;
	}
}

static struct error *parse(struct doctor *doctor, char **argv)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	const char *operand;

	TRY(cli_style_set(NULL, stdout, &doctor->style));
	do {
		while ((option = cli_options_next(&options)))
			TRY(take_option(doctor, option, options.value));
		operand = cli_options_operand(&options);
		if (operand && doctor->word)
			return error_create(ERROR_USAGE, "doctor takes one FILE: what is %s?",
					    operand);
		if (operand)
			doctor->word = operand;
	} while (operand);
	return options.error;
}

/* --- what there is ------------------------------------------------------------------ */

static struct error *add_module(struct doctor *doctor, const struct cli_doctor_module *is)
{
	uint8_t id[64];
	struct symbols_module *module;

	TRY(symbols_module_add(doctor->symbols, is->path, id,
			       symbols_parse_build_id(is->build_id, id, sizeof(id)), &module));
	if (is->file)
		TRY(symbols_module_add_file(module, is->file));
	if (!doctor->list.is_recorded)
		symbols_module_take_present(module);
	return vector_push(&doctor->modules, module);
}

static struct error *examine(struct doctor *doctor)
{
	struct symbols_options options = *cli_symbols_options(&doctor->own);

	/* What is there now is the question. */
	options.use_cache = false;
	TRY(cli_doctor_list(doctor->word, doctor->is_pid, options.sysroot, &doctor->list));
	if (!options.sysroot)
		options.sysroot = doctor->list.sysroot;
	TRY(symbols_create(&options, &doctor->symbols));
	for (size_t i = 0; i < doctor->list.modules.count; i++)
		TRY(add_module(doctor, &doctor->list.modules.items[i]));
	return symbols_resolve(doctor->symbols);
}

/* --- what is said of it ------------------------------------------------------------- */

static void put_text(struct doctor *doctor, const char *text)
{
	strbuf_printable(&doctor->out, text, strlen(text));
}

static void put_label(struct doctor *doctor, const char *label)
{
	strbuf_printf(&doctor->out, "\n%*s%-*s", (int)INDENT, "", PLACE_COLUMN, label);
}

static void put_try(struct doctor *doctor, const struct symbols_try *tried)
{
	put_label(doctor, symbols_place_name(tried->place));
	put_text(doctor, tried->path);
	strbuf_append(&doctor->out, ": ");
	if (tried->outcome != SYMBOLS_OUTCOME_UNREADABLE || !tried->detail)
		strbuf_append(&doctor->out, symbols_outcome_text(tried->outcome));
	if (!tried->detail)
		return;
	strbuf_append(&doctor->out, tried->outcome == SYMBOLS_OUTCOME_UNREADABLE ? "" : ": ");
	put_text(doctor, tried->detail);
}

static void put_wrapped(struct doctor *doctor, const char *text, size_t indent)
{
	CLEANUP_STRBUF struct strbuf printable = STRBUF_EMPTY;

	strbuf_printable(&printable, text, strlen(text));
	if (printable.failed)
		doctor->out.failed = true;
	else
		report_put_wrapped(&doctor->out, printable.text, indent,
				   report_columns(&doctor->style));
}

static bool has_lines(const struct symbols_verdict *verdict)
{
	return verdict->level >= SYMBOLS_LINES;
}

static void put_verdict(struct doctor *doctor, const struct symbols_verdict *verdict)
{
	if (verdict->debug_file || has_lines(verdict)) {
		put_label(doctor, "so");
		put_text(doctor, verdict->debug_file ? verdict->debug_file : "its own file");
	}
	if (verdict->reason) {
		put_label(doctor, has_lines(verdict) ? "but" : "so");
		put_wrapped(doctor, verdict->reason, INDENT + PLACE_COLUMN);
	}
}

static void put_module(struct doctor *doctor, size_t at)
{
	const struct cli_doctor_module *is = &doctor->list.modules.items[at];
	const struct symbols_module *module = doctor->modules.items[at];
	struct symbols_verdict verdict = symbols_module_verdict(module);
	const char *id = is->build_id ? is->build_id : verdict.build_id;
	const struct symbols_try *tries;
	size_t count;
	bool is_whole;

	report_put_coloured(&doctor->out, &doctor->style,
			    has_lines(&verdict) ? REPORT_HEADING : REPORT_WARNING,
			    symbols_level_name(verdict.level));
	strbuf_fill(&doctor->out, ' ', INDENT - strlen(symbols_level_name(verdict.level)));
	put_text(doctor, is->path);
	put_label(doctor, "is");
	strbuf_append(&doctor->out, id ? "build-id " : "without a build-id");
	if (id)
		put_text(doctor, id);
	tries = symbols_module_tries(module, &count, &is_whole);
	for (size_t i = 0; i < count; i++)
		put_try(doctor, &tries[i]);
	if (!is_whole) {
		put_label(doctor, "…");
		strbuf_append(&doctor->out, "and more, not kept");
	}
	put_verdict(doctor, &verdict);
	strbuf_append_char(&doctor->out, '\n');
}

static void put_advice(struct doctor *doctor, const struct symbols_advice *advice)
{
	struct strbuf *out = &doctor->out;

	for (size_t i = 0; i < advice->commands.count; i++) {
		if (i == 0) {
			report_put_coloured(out, &doctor->style, REPORT_HEADING, "INSTALL");
			strbuf_append_char(out, '\n');
		}
		/* One line, to be copied. */
		strbuf_printf(out, "  %s\n", advice->commands.items[i]);
	}
	for (size_t i = 0; i < advice->notes.count; i++) {
		strbuf_append(out, "  ");
		put_wrapped(doctor, advice->notes.items[i], 2);
		strbuf_append_char(out, '\n');
	}
}

/* Of those that packages can help. */
static struct error *advise(struct doctor *doctor)
{
	VECTOR(struct symbols_missing) missing = VECTOR_EMPTY;
	const char *sysroot =
		doctor->own.options.sysroot ? doctor->own.options.sysroot : doctor->list.sysroot;
	struct symbols_advice advice;
	struct error *error = NULL;

	for (size_t i = 0; i < doctor->modules.count && !error; i++) {
		const struct cli_doctor_module *is = &doctor->list.modules.items[i];
		struct symbols_verdict verdict = symbols_module_verdict(doctor->modules.items[i]);
		const char *id = is->build_id ? is->build_id : verdict.build_id;

		if (!has_lines(&verdict))
			error = vector_push(&missing, ((struct symbols_missing){is->path, id}));
	}
	if (!error) {
		error = symbols_advise(sysroot, missing.items, missing.count, &advice);
		if (!error)
			put_advice(doctor, &advice);
		symbols_advice_free(&advice);
	}
	vector_free(&missing);
	return error;
}

/* What to do comes first; what it is drawn from may be pages. */
static struct error *diagnose(struct doctor *doctor)
{
	size_t with_lines = 0;

	TRY(examine(doctor));
	for (size_t i = 0; i < doctor->modules.count; i++) {
		struct symbols_verdict verdict = symbols_module_verdict(doctor->modules.items[i]);

		with_lines += has_lines(&verdict);
	}
	put_text(doctor, doctor->list.subject);
	strbuf_printf(&doctor->out, ": %zu of ", with_lines);
	report_put_plural(&doctor->out, doctor->modules.count, "module has", "modules have");
	strbuf_append(&doctor->out, " line numbers\n");
	TRY(advise(doctor));
	for (size_t i = 0; i < doctor->modules.count; i++) {
		strbuf_append_char(&doctor->out, '\n');
		put_module(doctor, i);
	}
	for (size_t i = 0; i < doctor->list.absent.count; i++) {
		strbuf_append(&doctor->out, "\nabsent  ");
		put_text(doctor, doctor->list.absent.items[i]);
		strbuf_append_char(&doctor->out, '\n');
	}
	cli_pager_begin();
	return report_flush(&doctor->out, stdout);
}

static int end(struct error *error)
{
	if (error && error->errnum != EPIPE)
		return cli_error(error);
	error_free(error);
	return cli_pager_end() ? 0 : cli_finish(0);
}

int cli_doctor(char **argv)
{
	struct doctor doctor = {.word = NULL};
	struct error *error = parse(&doctor, argv);
	int exit_code;

	if (error) {
		exit_code = cli_usage_error("doctor", error);
	} else if (doctor.help) {
		printf("%s\n", usage);
		cli_options_help(options_table, stdout);
		printf("\nExamples:\n%s", examples);
		exit_code = cli_finish(0);
	} else {
		exit_code = end(diagnose(&doctor));
	}
	vector_free(&doctor.modules);
	symbols_free(doctor.symbols);
	cli_doctor_list_free(&doctor.list);
	cli_symbols_free(&doctor.own);
	strbuf_free(&doctor.out);
	return exit_code;
}
