/*
 * The options of every command that reads symbols: where their files are looked for.
 *
 * A command puts CLI_SYMBOL_OPTIONS into its table and hands what it does not know itself to
 * cli_symbols_take(). Owner: whoever declares the struct; cli_symbols_free(). The values are
 * the command line's own.
 */
#ifndef MALLOGRAPH_CLI_SYMBOLS_H
#define MALLOGRAPH_CLI_SYMBOLS_H

#include "base/vector.h"
#include "cli/options.h"
#include "symbols/symbols.h"

enum {
	CLI_OPTION_DEBUG_DIR = 2048,
	CLI_OPTION_SYSROOT,
	CLI_OPTION_SYMFS,
	CLI_OPTION_NO_DEBUGINFOD
};

#define CLI_SYMBOL_OPTIONS                                                                        \
	{CLI_OPTION_DEBUG_DIR, "debug-dir", "DIR",                                                \
	 "look for debug files in DIR before /usr/lib/debug\n(again for more)"},                  \
		{CLI_OPTION_SYSROOT, "sysroot", "DIR",                                            \
		 "look for modules and their debug files below DIR, where\nthe file system they " \
		 "come from is"},                                                                 \
		{CLI_OPTION_SYMFS, "symfs", "DIR", "the same"},                                   \
	{                                                                                         \
		CLI_OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL,                                  \
			"do not ask the servers of DEBUGINFOD_URLS"                               \
	}

struct cli_symbols {
	VECTOR(const char *) directories;
	struct symbols_options options;
	bool no_debuginfod;
	bool is_quiet;   /* tells nothing of what is fetched */
	bool is_waiting; /* a line of progress stands on the terminal, or was told */
};

void cli_symbols_free(struct cli_symbols *symbols);
/* *ret_taken false = the option is none of these. */
struct error *cli_symbols_take(struct cli_symbols *symbols, const struct cli_option *option,
			       const char *value, bool *ret_taken) ERROR_MUST_CHECK;
/* Once no option comes any more; lasts as long as the struct. */
const struct symbols_options *cli_symbols_options(struct cli_symbols *symbols);

#endif
