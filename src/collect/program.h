/*
 * The program a run is to start: found as execvp(3) finds it, followed through #!
 * lines to the file that will be the process's image, and refused where the agent could
 * not be loaded into it. Nothing is started here; what is checked may change before
 * it is executed, so this makes messages better, never anything safe.
 *
 * Owner: the caller, who ends it with collect_program_free(); all zeros is empty.
 */
#ifndef MALLOGRAPH_COLLECT_PROGRAM_H
#define MALLOGRAPH_COLLECT_PROGRAM_H

#include <stdbool.h>

#include "base/error.h"

/* Exit codes of a run that does not start, as env(1), nice(1) and the shells have them. */
#define COLLECT_EXIT_FAILED         125
#define COLLECT_EXIT_NOT_EXECUTABLE 126
#define COLLECT_EXIT_NOT_FOUND      127

struct collect_program {
	char *path;      /* what to execute */
	char *image;     /* the ELF file that runs it: path's own or its interpreter */
	const char *why; /* it was refused, in a few words; static; NULL = it was not */
};

/* exit_code is set with an error: one of the above. */
struct error *collect_program_find(const char *name, struct collect_program *ret,
				   int *exit_code) ERROR_MUST_CHECK;
#define COLLECT_PROGRAM_SANITIZED "built with a sanitizer"

/* Why a program that a recorded one started runs unrecorded, as far as its file tells. Static;
 * NULL = not known. */
const char *collect_program_why_missed(const char *name);
void collect_program_free(struct collect_program *program);

#endif
