#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/cli.h"

#define COLUMNS 80
#define PREFIX  "mallograph: "

/* Words stay whole; a line is broken at its spaces. first stands before the first line. */
static void print_wrapped(FILE *out, const char *first, const char *text)
{
	size_t indent = strlen(first), column = indent;

	fputs(first, out);
	while (*text) {
		size_t length = strcspn(text, " ");
		size_t width = strbuf_columns(text, length);

		if (column > indent && column + 1 + width > COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, length, out);
		column += width;
		text += length + strspn(text + length, " ");
	}
	fputc('\n', out);
}

/* Works without memory: this is where the lack of it is told. */
static void print_note(FILE *out, const char *format, va_list arguments)
{
	char text[2 * PATH_MAX];
	CLEANUP_STRBUF struct strbuf printable = STRBUF_EMPTY;

	vsnprintf(text, sizeof(text), format, arguments);
	strbuf_printable(&printable, text, strlen(text));
	if (!printable.failed) {
		print_wrapped(out, PREFIX, printable.text);
		return;
	}
	for (char *at = text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	print_wrapped(out, PREFIX, text);
}

void cli_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_note(stderr, format, arguments);
	va_end(arguments);
}

void cli_note_to(FILE *out, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_note(out, format, arguments);
	va_end(arguments);
}

void cli_error_print(const struct error *error)
{
	CLEANUP_FREE char *text = error_text(error);

	print_wrapped(stderr, PREFIX, text ? text : "out of memory");
	if (error->remedy)
		print_wrapped(stderr, "            ", error->remedy);
}

int cli_error(struct error *error)
{
	int exit_code = error->code == ERROR_USAGE ? CLI_EXIT_USAGE : CLI_EXIT_FAILED;

	cli_error_print(error);
	error_free(error);
	return exit_code;
}

int cli_usage_error(const char *command, struct error *error)
{
	cli_error_print(error);
	if (!error->remedy)
		fprintf(stderr, "            See mallograph %s%s--help.\n", command,
			*command ? " " : "");
	error_free(error);
	return CLI_EXIT_USAGE;
}

int cli_finish(int exit_code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	/* A reader that has seen enough is no failure to speak of. */
	if (errno != EPIPE)
		cli_note("cannot write to standard output: %s", strerror(errno));
	return CLI_EXIT_FAILED;
}
