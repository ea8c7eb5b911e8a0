/*
 * What the commands share. A command is one file and one function: it takes its own words
 * (argv[0] is its name), prints data on stdout and words on stderr, and returns the
 * exit code. This layer alone prints and exits.
 */
#ifndef MALLOGRAPH_CLI_CLI_H
#define MALLOGRAPH_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/options.h"

#define CLI_EXIT_FAILED 125
#define CLI_EXIT_USAGE  2

struct cli_command {
	const char *name;
	int (*run)(char **argv); /* NULL = its name is reserved, and it is not built yet */
	const char *summary;
};

/* Ended by one without a name. */
extern const struct cli_command cli_commands[];
const struct cli_command *cli_command_find(const char *name);
/* The command that a word is likely to have been meant for; NULL = none. */
const char *cli_command_meant(const char *word);
void cli_help_print(FILE *out);

/* The whole tool, from the words it is called with (argv[0] among them) to its exit code. */
int cli_main(char **argv);

int cli_run(char **argv);
int cli_report(char **argv);
int cli_blocks(char **argv);
int cli_hist(char **argv);
int cli_info(char **argv);
int cli_doctor(char **argv);
int cli_query(char **argv);
int cli_symbolize(char **argv);
int cli_env(char **argv);
int cli_recover(char **argv);
int cli_merge(char **argv);

void cli_error_print(const struct error *error);
/* Print an error with its remedy, and free it. Returns the exit code it stands for. */
int cli_error(struct error *error);
/* The same for one that came out of reading a command's words. */
int cli_usage_error(const char *command, struct error *error);
/* One paragraph on stderr, wrapped to 80 columns. */
void cli_note(const char *format, ...) ERROR_PRINTF(1, 2);
void cli_note_to(FILE *out, const char *format, ...) ERROR_PRINTF(2, 3);

/* End a command that wrote to stdout: everything must have arrived there. */
int cli_finish(int exit_code);

/* The profile or ledger a command is about. word NULL: the newest one here; all digits: the
 * recording of a process of that pid, as with is_pid. Result malloc'd. */
struct error *cli_find_profile(const char *word, bool is_pid, char **ret) ERROR_MUST_CHECK;

#endif
