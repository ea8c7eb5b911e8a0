/*
 * The options that choose which processes of a tree are recorded.
 *
 * A command puts CLI_CHOICE_OPTIONS into its table and hands what it does not know itself to
 * cli_choice_take(). Owner: whoever declares the struct, all zeros; cli_choice_free().
 */
#ifndef MALLOGRAPH_CLI_CHOICE_H
#define MALLOGRAPH_CLI_CHOICE_H

#include "base/strbuf.h"
#include "cli/options.h"

enum { CLI_OPTION_NO_FOLLOW = 4096, CLI_OPTION_ONLY, CLI_OPTION_NOT };

#define CLI_CHOICE_OPTIONS                                                                          \
	{CLI_OPTION_NO_FOLLOW, "no-follow", NULL,                                                   \
	 "record the program alone, no process it starts"},                                         \
		{CLI_OPTION_ONLY, "only", "PATTERN",                                                \
		 "record programs of such names alone (a shell pattern,\nof whole paths if it has " \
		 "a slash; again for more)"},                                                       \
	{                                                                                           \
		CLI_OPTION_NOT, "not", "PATTERN",                                                   \
			"do not record programs of such names (again for more)"                     \
	}

struct cli_choice {
	struct strbuf text; /* as a session has it; empty = all are recorded */
};

struct error *cli_choice_take(struct cli_choice *choice, const struct cli_option *option,
			      const char *value, bool *ret_taken) ERROR_MUST_CHECK;
/* NULL = all; valid until the next call. */
const char *cli_choice_text(const struct cli_choice *choice);
void cli_choice_free(struct cli_choice *choice);

#endif
