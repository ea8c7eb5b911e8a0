#include "report/words.h"

#include <inttypes.h>
#include <signal.h>

#include "base/units.h"

#define DETAIL_COLUMNS 200u

size_t report_columns(const struct report_style *style)
{
	return style->columns > REPORT_COLUMNS ? style->columns : REPORT_COLUMNS;
}

void report_colour_on(struct strbuf *out, const struct report_style *style,
		      enum report_colour colour)
{
	static const char *const codes[] = {
		[REPORT_HEADING] = "\033[1m",
		[REPORT_FIGURE] = "\033[1;36m",
		[REPORT_WARNING] = "\033[33m",
		[REPORT_DIM] = "\033[2m",
	};

	if (style->has_colours)
		strbuf_append(out, codes[colour]);
}

void report_colour_off(struct strbuf *out, const struct report_style *style)
{
	if (style->has_colours)
		strbuf_append(out, "\033[0m");
}

void report_put_coloured(struct strbuf *out, const struct report_style *style,
			 enum report_colour colour, const char *text)
{
	report_colour_on(out, style, colour);
	strbuf_append(out, text);
	report_colour_off(out, style);
}

struct error *report_flush(struct strbuf *text, FILE *out)
{
	TRY(strbuf_result(text));
	if (text->length && fwrite(text->text, 1, text->length, out) != text->length)
		return error_create_system(errno, NULL, "cannot write the report");
	strbuf_clear(text);
	return NULL;
}

const char *report_how_word(enum analyze_how how)
{
	switch (how) {
	case ANALYZE_ROOT:
		return "root";
	case ANALYZE_FORK:
		return "fork";
	case ANALYZE_VFORK:
		return "vfork";
	case ANALYZE_SPAWN:
		return "spawn";
	case ANALYZE_EXEC:
		return "exec";
	case ANALYZE_ATTACH:
		return "attach";
	}
	return NULL;
}

const char *report_end_word(enum analyze_end end)
{
	switch (end) {
	case ANALYZE_EXITED:
		return "exit";
	case ANALYZE_SIGNALED:
		return "signal";
	case ANALYZE_EXECED:
		return "exec";
	case ANALYZE_RUNNING:
		return "running";
	case ANALYZE_DETACHED:
		return "detached";
	case ANALYZE_LOST:
		return "lost";
	}
	return NULL;
}

const char *report_next_argument(const struct analyze_text *argv, size_t *at, size_t *length)
{
	if (*at >= argv->length)
		return NULL;
	const char *argument = argv->bytes + *at;
	const char *end = memchr(argument, 0, argv->length - *at);

	*length = end ? (size_t)(end - argument) : argv->length - *at;
	*at += *length + 1;
	return argument;
}

struct analyze_text report_base_name(const struct analyze_text *path)
{
	size_t start = path->length;

	if (start == 0)
		return *path;
	while (start && path->bytes[start - 1] != '/')
		start--;
	return (struct analyze_text){.bytes = path->bytes + start, .length = path->length - start};
}

void report_put_plural(struct strbuf *out, uint64_t count, const char *one, const char *many)
{
	char number[UNITS_BYTES];

	strbuf_printf(out, "%s %s", units_format_count(number, count), count == 1 ? one : many);
}

void report_put_blocks(struct strbuf *out, uint64_t blocks)
{
	char number[UNITS_BYTES];

	strbuf_printf(out, "%s %s", units_format_short(number, blocks),
		      blocks == 1 ? "block" : "blocks");
}

void report_put_figure(struct strbuf *out, uint64_t value, enum analyze_order order)
{
	char text[UNITS_BYTES];

	if (order == ANALYZE_BY_ALLOCATIONS || order == ANALYZE_BY_TEMPORARY)
		strbuf_append(out, units_format_short(text, value));
	else
		strbuf_append(out, units_format_size(text, value));
}

const char *report_order_words(enum analyze_order order)
{
	switch (order) {
	case ANALYZE_BY_LIVE:
		return "live";
	case ANALYZE_BY_ALLOCATIONS:
		return "allocations";
	case ANALYZE_BY_BYTES:
		return "allocated";
	case ANALYZE_BY_TEMPORARY:
		return "temporary";
	case ANALYZE_BY_PEAK:
	default:
		return "at the peak";
	}
}

/* part of whole in units of 1/scale. */
static uint64_t share_of(uint64_t part, uint64_t whole, unsigned int scale)
{
	unsigned __int128 share = whole ? ((unsigned __int128)part * scale + whole / 2) / whole : 0;

	return share > UINT64_MAX ? UINT64_MAX : (uint64_t)share;
}

void report_put_percent(struct strbuf *out, uint64_t part, uint64_t whole)
{
	uint64_t tenths = share_of(part, whole, 1000);

	strbuf_printf(out, "%" PRIu64 ".%u", tenths / 10, (unsigned int)(tenths % 10));
}

void report_put_small_percent(struct strbuf *out, uint64_t part, uint64_t whole)
{
	uint64_t hundredths = share_of(part, whole, 10000);

	if (hundredths >= 10 || part == 0)
		report_put_percent(out, part, whole);
	else if (hundredths)
		strbuf_printf(out, "0.0%u", (unsigned int)hundredths);
	else
		strbuf_append(out, "< 0.01");
}

void report_put_quoted(struct strbuf *out, const char *argument, size_t length)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_@%+=:,./-";
	bool quote = length == 0;

	for (size_t i = 0; i < length; i++)
		quote |= !strchr(plain, argument[i]);
	if (!quote) {
		strbuf_append_bytes(out, argument, length);
		return;
	}
	strbuf_append_char(out, '\'');
	for (size_t i = 0, part; i < length; i += part + 1) {
		const char *end = memchr(argument + i, '\'', length - i);

		part = end ? (size_t)(end - argument) - i : length - i;
		strbuf_printable(out, argument + i, part);
		if (end)
			strbuf_append(out, "'\\''");
	}
	strbuf_append_char(out, '\'');
}

/* bare: its program without the directory. */
static void put_arguments(struct strbuf *line, const struct analyze_process *process, bool bare)
{
	size_t at = 0, length;
	const char *argument;

	/* Far more than is shown; an argument list can be megabytes. */
	while (line->length < 4096 &&
	       (argument = report_next_argument(&process->argv, &at, &length)) != NULL) {
		struct analyze_text word = {.bytes = argument, .length = length};

		if (argument != process->argv.bytes)
			strbuf_append_char(line, ' ');
		else
			word = bare ? report_base_name(&word) : word;
		report_put_quoted(line, word.bytes, word.length);
	}
	if (line->length == 0) {
		struct analyze_text path = bare ? report_base_name(&process->exe) : process->exe;

		report_put_quoted(line, path.bytes, path.length);
	}
}

void report_put_command(struct strbuf *out, const struct analyze_process *process, size_t columns)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;

	put_arguments(&line, process, false);
	/* What it is and does says more than where it is. */
	if (!line.failed && strbuf_columns(line.text, line.length) > columns) {
		strbuf_clear(&line);
		put_arguments(&line, process, true);
	}
	if (line.failed) {
		out->failed = true;
		return;
	}
	size_t fits = strbuf_prefix(line.text, line.length, columns);

	if (fits == line.length) {
		strbuf_append_bytes(out, line.text, line.length);
		return;
	}
	strbuf_append_bytes(out, line.text, strbuf_prefix(line.text, line.length, columns - 4));
	strbuf_append(out, " ...");
}

void report_put_program_name(struct strbuf *out, const struct analyze_process *process)
{
	struct analyze_text name = report_base_name(&process->exe);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (name.length)
		strbuf_printable(&text, name.bytes, name.length);
	else
		strbuf_append(&text, "[no name]");
	report_put_cut(out, &text, 40);
}

void report_put_program(struct strbuf *out, const struct analyze_process *process)
{
	report_put_program_name(out, process);
	if (process->pid != ANALYZE_UNKNOWN)
		strbuf_printf(out, ", pid %" PRIu64, process->pid);
}

void report_put_end(struct strbuf *out, const struct analyze_process *process)
{
	const char *name;

	switch (process->end) {
	case ANALYZE_EXITED:
		if (process->end_code == ANALYZE_UNKNOWN)
			strbuf_append(out, "exited");
		else
			strbuf_printf(out, "exit %" PRIu64, process->end_code);
		break;
	case ANALYZE_SIGNALED:
		name = process->end_code < NSIG ? sigabbrev_np((int)process->end_code) : NULL;
		if (name)
			strbuf_printf(out, "killed by SIG%s", name);
		else
			strbuf_printf(out, "killed by signal %" PRIu64, process->end_code);
		break;
	case ANALYZE_EXECED:
		strbuf_append(out, "went on as another program");
		break;
	case ANALYZE_RUNNING:
		strbuf_append(out, "still running");
		break;
	case ANALYZE_DETACHED:
		strbuf_append(out, "detached");
		break;
	case ANALYZE_LOST:
		strbuf_append(out, "gone, nobody saw how");
		break;
	}
}

struct loss_words {
	const char *kind;
	const char *one;
	const char *many;
	bool uncounted; /* the count says nothing more */
};

static const struct loss_words loss_words[] = {
	{"unknown_frees", "freed block whose allocation no hook saw",
	 "freed blocks whose allocation no hook saw", false},
	{"early_calls", "call before recording could start", "calls before recording could start",
	 false},
	{"nested_calls", "call by a signal handler inside the allocator, not recorded",
	 "calls by signal handlers inside the allocator, not recorded", false},
	{"missed_frees", "free that no hook saw", "frees that no hook saw", false},
	{"cut_stacks", "stack that ends before its root", "stacks that end before their root",
	 false},
	{"unshadowed", "block whose free cannot be told", "blocks whose free cannot be told",
	 false},
	{"unrecorded", "call that could not be entered", "calls that could not be entered", false},
	{"mappings_full", "mapping beyond the table", "mappings beyond the table", false},
	{"own_malloc", "allocator inside the program or a library, which is not seen",
	 "allocators inside the program or its libraries, which are not seen", false},
	{"deepbind", "library opened with RTLD_DEEPBIND, which calls malloc unseen",
	 "libraries opened with RTLD_DEEPBIND, which call malloc unseen", false},
	{"dlmopen", "library opened by dlmopen, which calls malloc unseen",
	 "libraries opened by dlmopen, which call malloc unseen", false},
	{"missed_process", "process that ran unrecorded", "processes that ran unrecorded", false},
	{"left_out", "process left out, as was asked", "processes left out, as was asked", false},
	{"abandoned_calls", "call left by longjmp or cancellation",
	 "calls left by longjmp or cancellation", false},
	{"seccomp", "seccomp filter that stops the ledger from growing",
	 "seccomp filters that stop the ledger from growing", false},
	{"series_thinned", "small change left out of the sites' time lines",
	 "small changes left out of the sites' time lines", false},
	{"blocks_not_listed", "live block not listed one by one",
	 "live blocks not listed one by one", false},
	{"sites_folded", "small site summed with others", "small sites summed with others", false},
	{"unfinished_calls", "call that had begun and not ended",
	 "calls that had begun and not ended", false},
	{"damaged", "thing in the ledger that makes no sense",
	 "things in the ledger that make no sense", false},
	{"stopped_ledger_limit", "recording stopped at the limit for the ledger", NULL, true},
	{"stopped_file_full", "recording stopped: no room left for the ledger", NULL, true},
	{"stopped_no_memory", "recording stopped: no memory for the agent", NULL, true},
	{"stopped_seccomp", "recording stopped: a seccomp filter forbids the ledger to grow", NULL,
	 true},
	{"stopped_damaged", "recording stopped: something else wrote into the ledger", NULL, true},
	{"stopped_detached", "recording stopped: detached", NULL, true},
};

bool report_is_loss(const struct analyze_loss *loss)
{
	return strcmp(loss->kind.bytes, "series_thinned") != 0 &&
	       strcmp(loss->kind.bytes, "left_out") != 0 &&
	       strcmp(loss->kind.bytes, "sites_folded") != 0 &&
	       strcmp(loss->kind.bytes, "blocks_not_listed") != 0;
}

static void put_cut(struct strbuf *out, const struct analyze_text *from)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printable(&text, from->bytes, from->length);
	report_put_cut(out, &text, DETAIL_COLUMNS);
}

void report_put_loss(struct strbuf *out, const struct analyze_loss *loss)
{
	const struct loss_words *words = NULL;

	for (size_t i = 0; i < sizeof(loss_words) / sizeof(loss_words[0]); i++)
		if (strcmp(loss_words[i].kind, loss->kind.bytes) == 0)
			words = &loss_words[i];
	if (!words) {
		put_cut(out, &loss->kind);
		strbuf_printf(out, ": %" PRIu64, loss->count);
	} else if (words->uncounted) {
		strbuf_append(out, words->one);
	} else {
		report_put_plural(out, loss->count, words->one, words->many);
	}
	if (loss->detail.length) {
		strbuf_append(out, loss->count > 1 ? " (first: " : " (");
		put_cut(out, &loss->detail);
		strbuf_append_char(out, ')');
	}
}

void report_put_wrapped(struct strbuf *out, const char *text, size_t indent, size_t columns)
{
	size_t column = indent;

	while (*text) {
		size_t word = strcspn(text, " ");

		/* "30 %" stays together. */
		while (text[word] == ' ' && text[word + 1] == '%')
			word += 1 + strcspn(text + word + 1, " ");
		size_t width = strbuf_columns(text, word);

		if (column > indent && column + 1 + width > columns) {
			strbuf_append_char(out, '\n');
			strbuf_fill(out, ' ', indent);
			column = indent;
		} else if (column > indent) {
			strbuf_append_char(out, ' ');
			column++;
		}
		strbuf_append_bytes(out, text, word);
		column += width;
		text += word;
		text += strspn(text, " ");
	}
}
