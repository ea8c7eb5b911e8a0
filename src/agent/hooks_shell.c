/*
 * system and popen: the C library starts the shell itself, with the environ it finds, so
 * that the shell is recorded only if environ has our variables in it for that long.
 *
 * In a program with one thread nobody looks meanwhile. In one with more, another thread
 * may see them: an array that was lent is never written to or unmapped again, for such a
 * thread may still be reading it, and what it changed meanwhile is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/choice.h"
#include "agent/core.h"
#include "agent/environ.h"
#include "agent/hook.h"
#include "agent/hooks_wait.h"
#include "agent/real.h"
#include "agent/syscall.h"
#include "agent/target.h"

/* Calls under way: the first lends, the last takes back. */
static _Atomic int borrowers;

/* What is lent, or was last and may serve again. Written by the first and the last alone. */
static struct {
	char **original;
	char **source; /* its pointers then */
	char **injected;
	char **pristine; /* injected's pointers then */
	size_t count;    /* of source */
	const char *text;
	const char *text_stop;
	uint32_t origin; /* process_origin() then */
	bool lent;
} loan;

static size_t count(char *const envp[])
{
	size_t n = 0;

	while (envp && envp[n])
		n++;
	return n;
}

static bool is_same(char *const *a, char *const *b, size_t n)
{
	return memcmp(a, b, n * sizeof(*a)) == 0;
}

/* An array for the environ there is now. The one made last is left where it is. */
static bool make(size_t n)
{
	size_t arrays = (2 * n + 2 + ENVIRON_COUNT) * sizeof(char *);
	size_t bytes = environ_bytes(environ), injected;
	char *memory;

	if (agent_frozen)
		return false;
	memory = sys_mmap(NULL, arrays + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (sys_failed(memory))
		return false;
	loan.count = n;
	loan.source = (char **)memory;
	loan.pristine = loan.source + n + 1;
	loan.origin = process_origin();
	loan.injected = environ_inject(environ, memory + arrays, MGL_HOW_SPAWN, loan.origin);
	loan.text = memory + arrays;
	loan.text_stop = loan.text + bytes;
	injected = count(loan.injected);
	if (n > 0)
		memcpy(loan.source, environ, n * sizeof(*environ));
	memcpy(loan.pristine, loan.injected, (injected + 1) * sizeof(*environ));
	return true;
}

static void lend(void)
{
	size_t n;

	if (atomic_fetch_add(&borrowers, 1) != 0 || !environ_differs(environ))
		return;
	if (!choice_follows()) {
		choice_left_out(1);
		return;
	}
	if (!target_reaches(environ_value(ENVIRON_PRELOAD))) {
		agent_count_loss(MGL_LOSS_MISSED_PROCESS, 1);
		return;
	}
	n = count(environ);
	if (!loan.injected || n != loan.count || loan.origin != process_origin() ||
	    !is_same(environ, loan.source, n)) {
		if (!make(n))
			return;
	}
	loan.original = environ;
	loan.lent = true;
	environ = loan.injected;
}

/* The program's own LD_PRELOAD, which ours stood for. NULL: it had none. */
static char *own_preload(void)
{
	char *found = NULL;

	for (size_t i = 0; i < loan.count; i++) {
		if (strncmp(loan.source[i], "LD_PRELOAD=", 11) == 0)
			found = loan.source[i];
	}
	return found;
}

/* Takes ours out of what another thread has made of the array; the number left. */
static size_t clean(char **envp)
{
	char **from, **to = envp;

	for (from = envp; *from; from++) {
		bool ours = *from >= loan.text && *from < loan.text_stop;

		if (ours && strncmp(*from, "LD_PRELOAD=", 11) == 0)
			*from = own_preload();
		else if (ours)
			*from = NULL;
		if (*from)
			*to++ = *from;
	}
	*to = NULL;
	return (size_t)(to - envp);
}

static void take_back(void)
{
	char **now = environ, **original = loan.original;

	if (atomic_fetch_sub(&borrowers, 1) != 1 || !loan.lent)
		return;
	loan.lent = false;
	if (!now)
		return;
	if (now != loan.injected) {
		clean(now); /* the C library's own copy by now */
		return;
	}
	if (!is_same(now, loan.pristine, count(loan.pristine) + 1)) {
		/* Replaced or taken out in place: nothing can have been added here. */
		memcpy(original, now, (clean(now) + 1) * sizeof(*now));
		loan.injected = NULL;
	}
	environ = original;
}

AGENT_EXPORT int system(const char *command)
{
	uint64_t since = command ? agent_now() : 0;
	int ret;

	if (!real.system)
		real_resolve();
	lend();
	ret = real.system(command);
	take_back();
	if (ret != -1 && command)
		hooks_wait_note(CFA, -mgl_command_hash(command, strlen(command)), ret, since);
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
