/*
 * Where a finished profile (or ledger) goes: the name by its pattern, and a file that appears under
 * it whole or not at all.
 *
 * Preparing comes before the target starts, so that a directory that cannot be written
 * refuses the run instead of losing it; nothing is made there yet, since the target could
 * see it. Owner: the caller, who ends it with collect_output_close(), which removes a file
 * that was begun and not finished.
 */
#ifndef MALLOGRAPH_COLLECT_OUTPUT_H
#define MALLOGRAPH_COLLECT_OUTPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct collect_output {
	char *directory; /* as in path, for messages */
	char *name;      /* in it */
	char *path;      /* final name; changes to what was free in finish() */
	bool replace;    /* an existing file of that name */
	bool discard;    /* -o /dev/null */
	int directory_fd;
	int fd;          /* of the file begun */
	char *temporary; /* its name in the directory */
};

#define COLLECT_OUTPUT_CLOSED                \
	{                                    \
		.directory_fd = -1, .fd = -1 \
	}

/* ERROR_USAGE where a pattern has a % that means nothing. */
struct error *collect_output_check(const char *pattern) ERROR_MUST_CHECK;

/* pattern NULL = the default name, in the working directory. program is what %n
 * stands for (its base name is taken), pid what %p does. */
struct error *collect_output_prepare(const char *pattern, const char *program, pid_t pid,
				     struct collect_output *ret) ERROR_MUST_CHECK;
struct error *collect_output_begin(struct collect_output *output) ERROR_MUST_CHECK;
/* The file stands under output->path after this. */
struct error *collect_output_finish(struct collect_output *output) ERROR_MUST_CHECK;
void collect_output_close(struct collect_output *output);

#endif
