/*
 * What the commands that show a profile share: whose it is, how it looks, where it goes.
 *
 * A command takes its own options and prints; cli_view_main() does the rest: FILE, PID, -p,
 * --color, --help, finding the newest, opening a ledger as the profile it would become,
 * the terminal's width, colours and pager, the exit code.
 */
#ifndef MALLOGRAPH_CLI_VIEW_H
#define MALLOGRAPH_CLI_VIEW_H

#include <signal.h>

#include "analyze/model.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/symbols.h"
#include "report/report.h"
#include "store/store.h"

enum { CLI_OPTION_COLOR = 1024, CLI_OPTION_ALLOC_FN, CLI_OPTION_PROCESS };

/* Of those that show processes apart. */
#define CLI_PROCESS_OPTION                                                                    \
	{                                                                                     \
		CLI_OPTION_PROCESS, "process", "WHICH",                                       \
			"only processes of this pid, id or program (a shell\npattern; again " \
			"for more)"                                                           \
	}

#define CLI_VIEW_OPTIONS                                                                    \
	CLI_SYMBOL_OPTIONS, {'p', "pid", "PID", "of a process that is being recorded"},     \
		{CLI_OPTION_COLOR, "color", "WHEN", "auto (the default), always or never"}, \
		{'h', "help", NULL, "show this"}, CLI_OPTIONS_END

struct collect_finish_options;
struct cli_view_command;

struct cli_view {
	const struct cli_view_command *command;
	const char *file; /* NULL = the newest here */
	const char *pid;
	VECTOR(const char *) alloc_fns;
	VECTOR(const char *) processes;
	struct cli_symbols symbols;
	bool help;
	struct report_style style;
	char *path;                  /* as messages call it */
	struct store_reader *reader; /* until cli_view_model() takes it */
};

struct cli_view_command {
	const char *name;
	const char *usage; /* what stands before the options in --help */
	const char *examples;
	const struct cli_option *options; /* ended by CLI_VIEW_OPTIONS */
	/* An option of its own. */
	struct error *(*take)(void *context, const struct cli_option *option, const char *value);
	/* What it needs before FILE; NULL = nothing. Told what it is by first_name. */
	const char **first;
	const char *first_name;
	/* After all options: whether they go together; NULL = they do. */
	struct error *(*check)(void *context);
	/* Onto stdout. */
	struct error *(*print)(void *context, struct cli_view *view);
	void *context;
};

int cli_view_main(const struct cli_view_command *command, char **argv);

/* The view's model, of its --process, titled with its --alloc-fn; the caller frees it, before the view ends. */
struct error *cli_view_model(struct cli_view *view, struct analyze_model **ret) ERROR_MUST_CHECK;

/* --sites N or all; option is its name. */
struct error *cli_parse_count(const char *option, const char *text, size_t *ret) ERROR_MUST_CHECK;

/* Leaves the processes that a selector means, each of which must mean one. */
struct error *cli_select(struct analyze_model *model, const char *const *selectors,
			 size_t count) ERROR_MUST_CHECK;

/* auto, always, never; NULL is auto. */
struct error *cli_style_set(const char *when, FILE *out, struct report_style *ret) ERROR_MUST_CHECK;

/* Until what is under way is whole or gone: then give sigprocmask() back what this returns. */
sigset_t cli_hold_interruptions(void);

/* Whether a path's file is a profile or a ledger. */
bool cli_profile_is(const char *path);
/* Whether it is a ledger. */
bool cli_ledger_is(const char *path);
/* A profile: path is one, or a ledger that becomes one for the time being, with these options. */
struct error *cli_profile_open(const char *path, const struct collect_finish_options *options,
			       struct store_reader **ret) ERROR_MUST_CHECK;
/* The same of a session file; name is for messages. */
struct error *cli_recording_open(int fd, const char *name,
				 const struct collect_finish_options *options,
				 struct store_reader **ret) ERROR_MUST_CHECK;

/* From here on what goes to stdout goes through the pager, if it is a terminal. */
void cli_pager_begin(void);
/* Waits for it. Whether there was one. */
bool cli_pager_end(void);

#endif
