#include <stdint.h>
#include <string.h>

#include "cli/cli.h"

#define LOG_DOMAIN "cli"
#include "base/log.h"

#define WORD_MOST 16 /* letters */

const struct cli_command cli_commands[] = {
	{"run", cli_run, "record PROGRAM and the processes it starts (the default)"},
	{"report", cli_report, "show what a profile holds, as text or JSON"},
	{"blocks", cli_blocks, "list every block that was still live"},
	{"hist", cli_hist, "show how sizes are distributed"},
	{"info", cli_info, "show what a profile is, and how complete"},
	{"symbolize", cli_symbolize, "look up the names and lines a profile lacks"},
	{"doctor", cli_doctor, "show where symbols were looked for, and what to install"},
	{"query", cli_query, "ask a profile a question in SQL"},
	{"merge", cli_merge, "make one profile of many: ranks, hosts, runs"},
	{"recover", cli_recover, "save recordings whose collector was killed"},
	{"env", cli_env, "print the exports that record without a collector"},
	{"attach", NULL, NULL},
	{"detach", NULL, NULL},
	{"save", NULL, NULL},
	{"top", NULL, NULL},
	{"leaks", NULL, NULL},
	{"diff", NULL, NULL},
	{"check", NULL, NULL},
	{"export", NULL, NULL},
	{"flame", NULL, NULL},
	{"html", NULL, NULL},
	{NULL, NULL, NULL},
};

const struct cli_command *cli_command_find(const char *name)
{
	for (const struct cli_command *command = cli_commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

/* Letters to change, add or leave out, or to swap with the next, for one word to be the other. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MOST + 1];
	size_t length = strlen(b);

	for (size_t j = 0; j <= length; j++)
		rows[0][j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t *now = rows[i % 3], *before = rows[(i + 2) % 3],
		       *earlier = rows[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);

			best = before[j] + 1 < best ? before[j] + 1 : best;
			best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    earlier[j - 2] + 1 < best)
				best = earlier[j - 2] + 1;
			now[j] = best;
		}
	}
	return rows[strlen(a) % 3][length];
}

const char *cli_command_meant(const char *word)
{
	const char *found = NULL;
	size_t least = 0;

	if (strlen(word) < 3 || strlen(word) > WORD_MOST)
		return NULL;
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		size_t far = command->run ? distance(word, command->name) : SIZE_MAX;

		/* A letter in a short word, two in a long one. */
		if (far <= (strlen(command->name) > 5 ? 2 : 1) && (!found || far < least)) {
			found = command->name;
			least = far;
		}
	}
	return found;
}

int cli_main(char **argv)
{
	struct error *error = log_configure(getenv("MALLOGRAPH_LOG"));

	if (error)
		return cli_error(error);
	if (!argv[0] || !argv[1]) {
		cli_help_print(stderr);
		return CLI_EXIT_USAGE;
	}
	const struct cli_command *command = cli_command_find(argv[1]);

	if (!command)
		return cli_run(argv);
	if (!command->run) {
		cli_note("%s is not built yet; mallograph -- %s runs a program of that name",
			 argv[1], argv[1]);
		return CLI_EXIT_USAGE;
	}
	return command->run(argv + 1);
}
