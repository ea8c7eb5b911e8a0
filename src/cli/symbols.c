#include "cli/symbols.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/units.h"
#include "cli/cli.h"

void cli_symbols_free(struct cli_symbols *symbols) { vector_free(&symbols->directories); }

/* A word misspelt here would look like symbols that are not there. */
static struct error *check_directory(const char *option, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return error_create_system(errno, path, "--%s", option);
	if (!S_ISDIR(st.st_mode))
		return error_create_system(ENOTDIR, path, "--%s", option);
	return NULL;
}

struct error *cli_symbols_take(struct cli_symbols *symbols, const struct cli_option *option,
			       const char *value, bool *ret_taken)
{
	*ret_taken = true;
	switch (option->letter) {
	case CLI_OPTION_DEBUG_DIR:
		TRY(check_directory(option->name, value));
		return vector_push(&symbols->directories, value);
	case CLI_OPTION_SYSROOT:
	case CLI_OPTION_SYMFS:
		TRY(check_directory(option->name, value));
		symbols->options.sysroot = value;
		return NULL;
	case CLI_OPTION_NO_DEBUGINFOD:
		symbols->no_debuginfod = true;
		return NULL;
	default:
		*ret_taken = false;
		return NULL;
	}
}

/* --- what servers are asked for ------------------------------------------------------ */

#define LONG_MS 1000

static void put_progress(const struct symbols_fetch_event *event)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;
	char done[UNITS_BYTES], whole[UNITS_BYTES];

	strbuf_append(&line, "\rmallograph: fetching debug information of ");
	strbuf_printable(&line, event->name, strlen(event->name));
	if (event->done)
		strbuf_printf(&line, ", %s", units_format_size(done, event->done));
	if (event->done && event->whole)
		strbuf_printf(&line, " of %s", units_format_size(whole, event->whole));
	strbuf_printf(&line, ", %d s\033[K", (int)(event->ms / 1000));
	if (!line.failed)
		fputs(line.text, stderr);
}

static void tell_progress(struct cli_symbols *symbols, const struct symbols_fetch_event *event)
{
	if (isatty(STDERR_FILENO))
		put_progress(event);
	else if (event->ms >= LONG_MS && !symbols->is_waiting)
		cli_note("fetching debug information of %s", event->name);
	else
		return;
	symbols->is_waiting = true;
}

static void tell_end(struct cli_symbols *symbols, const struct symbols_fetch_event *event)
{
	char size[UNITS_BYTES];

	if (symbols->is_waiting && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	symbols->is_waiting = false;
	if (event->step == SYMBOLS_FETCH_DONE)
		cli_note("fetched debug information of %s (%s)", event->name,
			 units_format_size(size, event->done));
	else if (event->step == SYMBOLS_FETCH_FAILED)
		cli_note("debuginfod: %s: %s", event->name, event->why);
}

static void tell(void *context, const struct symbols_fetch_event *event)
{
	struct cli_symbols *symbols = context;

	if (symbols->is_quiet)
		return;
	if (event->step == SYMBOLS_FETCH_PROGRESS)
		tell_progress(symbols, event);
	else
		tell_end(symbols, event);
}

const struct symbols_options *cli_symbols_options(struct cli_symbols *symbols)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	symbols->options.debug_directories = symbols->directories.items;
	symbols->options.debug_directory_count = symbols->directories.count;
	symbols->options.use_cache = true;
	if (urls && urls[strspn(urls, " ")] && !symbols->no_debuginfod)
		symbols->options.servers = urls;
	symbols->options.tell = tell;
	symbols->options.tell_context = symbols;
	return &symbols->options;
}
