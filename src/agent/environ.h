/*
 * The program's environment: without the agent in it, and with it again for children.
 *
 * At the start the agent's own LD_PRELOAD entry and the MALLOGRAPH_ variables that name
 * a session are taken out of environ, in place, and kept here. The exec hooks build an
 * environment that has them, for the new program alone.
 *
 * Ownership: static data, inherited over fork. Threads: scrub and set by one, at the
 * start; the rest only reads. Errors: a value too long to keep is not followed.
 * Async-signal-safe; no allocation.
 */
#ifndef MALLOGRAPH_AGENT_ENVIRON_H
#define MALLOGRAPH_AGENT_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/layout.h"

enum environ_variable {
	ENVIRON_SESSION,
	ENVIRON_OUT,
	ENVIRON_FROM,
	ENVIRON_CHOICE,
	ENVIRON_PRELOAD,
	ENVIRON_COUNT
};

/* Takes out of environ what is ours. agent_path: the agent's module, as loaded. */
void environ_scrub(const char *agent_path);
/* The value found (or set since) of MALLOGRAPH_SESSION, of MALLOGRAPH_OUT, or of our entry
 * in LD_PRELOAD; NULL = none. */
const char *environ_value(enum environ_variable which);
/* What the environment said of where this program came from; as it was where it said nothing. */
void environ_origin(enum mgl_how *how, uint32_t *serial);
/* Gives children another value; NULL = none. false: too long. */
bool environ_set(enum environ_variable which, const char *value);
/* From now on children are followed: the process has joined a session. */
void environ_follow(void);
/* And from now on no more. */
void environ_unfollow(void);

/* Whether an environment with ours in it differs: not while nothing is followed, nor
 * where the program itself names a session, or has the loader list libraries and run nothing. */
bool environ_differs(char *const envp[]);
/* Whether a library's base name is that of a sanitizer's runtime, which ends a program in
 * which it does not come first, or reports another stack (LeakSanitizer). */
bool environ_is_first_or_nothing(const char *library);
/* Whether its LD_PRELOAD leaves the first place to us. */
bool environ_admits(char *const envp[]);
/* Bytes environ_inject() needs. */
size_t environ_bytes(char *const envp[]);
/* Builds envp (NULL = empty) with ours put back in, in memory, for a program that is to this
 * process's origin what how says: EXEC, SPAWN or VFORK. The strings of envp are borrowed; envp is
 * not changed. */
char **environ_inject(char *const envp[], void *memory, enum mgl_how how, uint32_t origin);

#endif
