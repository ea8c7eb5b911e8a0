/*
 * Options from tables, in the GNU manner: -x, -xVALUE, -x VALUE, --word, --word=VALUE,
 * --word VALUE, and -- to end them. The same table makes a command's help.
 *
 *	struct cli_options options = CLI_OPTIONS(table, argc, argv);
 *	while ((option = cli_options_next(&options)))
 *		switch (option->letter) … options.value …
 *	if (options.error) …
 *	operands are options.argv[options.at …]
 *
 * Owner: the caller owns the error. Nothing is allocated otherwise.
 */
#ifndef MALLOGRAPH_CLI_OPTIONS_H
#define MALLOGRAPH_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct cli_option {
	int letter;           /* a character, or a number of its own where there is none */
	const char *name;     /* without --; NULL = the letter alone */
	const char *argument; /* what its value is called; NULL = has none; "[X]" = optional */
	const char *help;
};

#define CLI_OPTIONS_END             \
	{                           \
		0, NULL, NULL, NULL \
	}

struct cli_options {
	const struct cli_option *table; /* ended by CLI_OPTIONS_END */
	char **argv;                    /* NULL-terminated */
	int at;
	const char *letters; /* rest of a -xyz word */
	const char *value;   /* of the option just returned; NULL = none given */
	struct error *error;
	bool ended; /* -- was seen */
};

/* argv[0] is the command's name. */
#define CLI_OPTIONS(options_table, command_argv)                          \
	{                                                                 \
		.table = (options_table), .argv = (command_argv), .at = 1 \
	}

/* NULL at the first word that is no option, or at an error. */
const struct cli_option *cli_options_next(struct cli_options *options);

/* The next operand of a command that takes options anywhere; NULL = none here. */
const char *cli_options_operand(struct cli_options *options);

void cli_options_help(const struct cli_option *table, FILE *out);

#endif
