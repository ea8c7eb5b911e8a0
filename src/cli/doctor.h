/*
 * Which modules mallograph doctor is asked about: those of a profile that stacks go through,
 * those a program would be started with, or those a process has mapped.
 *
 * Owner: whoever declares the list; cli_doctor_list_free(). Errors: no such file or process,
 * one that may not be looked at, no memory.
 */
#ifndef MALLOGRAPH_CLI_DOCTOR_H
#define MALLOGRAPH_CLI_DOCTOR_H

#include "base/error.h"
#include "base/vector.h"

struct cli_doctor_module {
	char *path;
	char *build_id; /* as recorded, in hexadecimal; NULL = not recorded */
	char *file;     /* where else it can be read now; NULL = nowhere */
};

struct cli_doctor_list {
	VECTOR(struct cli_doctor_module) modules;
	VECTOR(char *) absent; /* "libx.so.1: not found; /usr/bin/x needs it" */
	bool is_recorded;      /* else whatever is at a module's path is meant */
	char *subject;         /* what they are of */
	char *sysroot;         /* a process's, where it has one of its own; else NULL */
};

/* word NULL = the newest profile here. */
struct error *cli_doctor_list(const char *word, bool is_pid, const char *sysroot,
			      struct cli_doctor_list *ret) ERROR_MUST_CHECK;
void cli_doctor_list_free(struct cli_doctor_list *list);

#endif
