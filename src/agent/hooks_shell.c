/*
 * system and popen: the C library starts the shell itself, with the environ it finds, so
 * that the shell is recorded only if environ has our variables in it for that long.
 *
 * In a program with one thread nobody looks meanwhile. In one with more, another thread
 * may see them, and may change environ: what it changed is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/environ.h"
#include "agent/real.h"
#include "agent/scratch.h"

/* Calls under way; the first lends, the last takes back. */
static _Atomic int borrowers;

static struct {
	char **original;
	char **injected;
	struct scratch scratch; /* memory NULL: nothing is lent */
} loan;

static void lend(void)
{
	int saved = errno;

	if (atomic_fetch_add(&borrowers, 1) == 0 && environ_differs(environ)) {
		loan.scratch = scratch_take(environ_bytes(environ));
		if (loan.scratch.memory) {
			loan.original = environ;
			loan.injected = environ_inject(environ, loan.scratch.memory);
			environ = loan.injected;
		}
	}
	errno = saved;
}

static bool is_ours(const char *s)
{
	const char *memory = loan.scratch.memory;

	return s >= memory && s < memory + loan.scratch.bytes;
}

/* The program's own LD_PRELOAD, which ours stood for. NULL: it had none. */
static char *own_preload(void)
{
	char *found = NULL;

	for (char **e = loan.original; *e; e++) {
		if (strncmp(*e, "LD_PRELOAD=", 11) == 0)
			found = *e;
	}
	return found;
}

static void take_back(void)
{
	char **from, **to = environ;
	size_t n;

	if (atomic_fetch_sub(&borrowers, 1) != 1 || !loan.scratch.memory)
		return;
	for (from = environ; from && *from; from++) {
		if (!is_ours(*from))
			*to++ = *from;
		else if (strncmp(*from, "LD_PRELOAD=", 11) == 0 && own_preload())
			*to++ = own_preload();
	}
	if (environ)
		*to = NULL;
	/* In the array we made nothing can have been added, only replaced or taken out. */
	if (environ == loan.injected) {
		n = (size_t)(to - environ) + 1;
		memcpy(loan.original, environ, n * sizeof(*environ));
		environ = loan.original;
	}
	scratch_give(&loan.scratch);
}

AGENT_EXPORT int system(const char *command)
{
	int ret;

	if (!real.system)
		real_resolve();
	lend();
	ret = real.system(command);
	take_back();
	return ret;
}

AGENT_EXPORT FILE *popen(const char *command, const char *type)
{
	FILE *ret;

	if (!real.popen)
		real_resolve();
	lend();
	ret = real.popen(command, type);
	take_back();
	return ret;
}
