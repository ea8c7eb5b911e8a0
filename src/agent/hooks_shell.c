/*
 * system and popen: the C library starts the shell itself, with the environ it finds, so
 * that the shell is recorded only if environ has our variables in it for that long.
 *
 * In a program with one thread nobody looks meanwhile. In one with more, another thread
 * may see them: an array that was lent is never unmapped, nor written to while somebody may
 * be reading it, and what the program changed meanwhile is kept.
 *
 * Threads. Calls that overlap are of one generation, which ends with the last of them. Nobody
 * waits: whoever finds that environ is not what his generation lends lends an array of his own.
 * An array serves again only when whoever took it back is through with it, so that a late
 * hand cannot take back what was lent anew. Where there is one thread, its memory may serve.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/choice.h"
#include "agent/core.h"
#include "agent/environ.h"
#include "agent/hook.h"
#include "agent/hooks_wait.h"
#include "agent/real.h"
#include "agent/seccomp.h"
#include "agent/syscall.h"
#include "agent/target.h"

#define LOOKS       8
#define SHELL_BYTES 64u /* of "/bin/sh", "sh", "-c" and pointers */

/* An array that is lent, or was and may serve again. */
struct loan {
	struct loan *next; /* constant once it is linked */
	char **original;
	char **source; /* its pointers then */
	char **injected;
	char **pristine; /* injected's pointers then */
	size_t count;    /* of source */
	size_t room;     /* bytes behind this struct */
	const char *text;
	const char *text_stop;
	uint32_t origin;             /* process_origin() then */
	_Atomic uint32_t generation; /* that it was lent in last */
	_Atomic bool idle;
	bool spoiled; /* changed in place: serves no more */
};

static _Atomic(struct loan *) loans; /* newest first */
static _Atomic uint64_t state;       /* generation << 32 | calls under way */

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

static char **environ_now(void) { return __atomic_load_n(&environ, __ATOMIC_ACQUIRE); }

static bool environ_swap(char **from, char **to)
{
	return __atomic_compare_exchange_n(&environ, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static struct loan *loan_of(char *const *envp)
{
	struct loan *l = atomic_load(&loans);

	while (l && l->injected != envp)
		l = l->next;
	return l;
}

/* --- lending ---------------------------------------------------------------------- */

/* As a directory in /proc has it: a link for each thread, and two. Not where a filter of the
 * program's could forbid to look. */
static bool is_single_threaded(void)
{
	struct stat st = {0};

	return !agent_frozen && !agent_filtered &&
	       sys_call3(SYS_stat, (long)"/proc/self/task", (long)&st, 0) == 0 && st.st_nlink == 3;
}

/* Where there is one thread nobody reads what is not lent: memory that serves again. */
static struct loan *room_again(size_t bytes)
{
	struct loan *l = is_single_threaded() ? atomic_load(&loans) : NULL;

	while (l && (l->room < bytes || !(l->idle || l->spoiled)))
		l = l->next;
	return l;
}

static struct loan *room_make(size_t bytes)
{
	size_t all = (sizeof(struct loan) + bytes + MGL_PAGE - 1) & ~(size_t)(MGL_PAGE - 1);
	struct loan *l = agent_frozen ? NULL
				      : sys_mmap(NULL, all, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!l || sys_failed(l))
		return NULL;
	l->room = all - sizeof(*l);
	return l;
}

static struct loan *loan_make(char **own, size_t n, bool *is_new)
{
	size_t arrays = (2 * n + 2 + ENVIRON_COUNT) * sizeof(char *);
	size_t bytes = environ_bytes(own), injected;
	struct loan *l = room_again(arrays + bytes);

	*is_new = !l;
	if (!l)
		l = room_make(arrays + bytes);
	if (!l)
		return NULL;
	char *memory = (char *)(l + 1);

	l->idle = l->spoiled = false;
	l->count = n;
	l->source = (char **)memory;
	l->pristine = l->source + n + 1;
	l->origin = process_origin();
	l->text = memory + arrays;
	l->text_stop = l->text + bytes;
	l->injected = environ_inject(own, memory + arrays, MGL_HOW_SPAWN, l->origin);
	injected = count(l->injected);
	if (n > 0)
		memcpy(l->source, own, n * sizeof(*own));
	memcpy(l->pristine, l->injected, (injected + 1) * sizeof(*own));
	return l;
}

/* One that is idle and the same, or a new one. */
static struct loan *loan_take(char **own, uint32_t generation)
{
	size_t n = count(own);
	struct loan *l;

	for (l = atomic_load(&loans); l; l = l->next) {
		bool idle = true;

		if (!l->spoiled && n == l->count && l->origin == process_origin() &&
		    is_same(own, l->source, n) &&
		    atomic_compare_exchange_strong(&l->idle, &idle, false))
			break;
	}
	bool is_new = false;

	if (!l && !(l = loan_make(own, n, &is_new)))
		return NULL;
	l->original = own;
	atomic_store(&l->generation, generation);
	if (!is_new)
		return l;
	l->next = atomic_load(&loans);
	while (!atomic_compare_exchange_weak(&loans, &l->next, l))
		;
	return l;
}

/* For a command of so many bytes. */
static bool may_lend(char **own, size_t bytes)
{
	if (!environ_differs(own))
		return false;
	if (!choice_follows()) {
		choice_left_out(1);
		return false;
	}
	if (target_reaches() && target_takes(own, bytes + SHELL_BYTES))
		return true;
	agent_count_loss(MGL_LOSS_MISSED_PROCESS, 1);
	return false;
}

static void lend(size_t bytes)
{
	uint32_t generation = (uint32_t)(atomic_fetch_add(&state, 1) >> 32);
	struct loan *made = NULL;

	for (int i = 0; i < LOOKS; i++) {
		char **now = environ_now();
		struct loan *lent = loan_of(now);

		if (lent && atomic_load(&lent->generation) == generation)
			break;
		char **own = lent ? lent->original : now;

		if (made && made->original != own) {
			atomic_store(&made->idle, true);
			made = NULL;
		}
		if (!made && (!may_lend(own, bytes) || !(made = loan_take(own, generation))))
			return;
		if (environ_swap(now, made->injected))
			return;
	}
	if (made)
		atomic_store(&made->idle, true);
}

/* --- taking back -------------------------------------------------------------------- */

static const struct loan *loan_of_text(const char *s)
{
	const struct loan *l = atomic_load(&loans);

	while (l && (s < l->text || s >= l->text_stop))
		l = l->next;
	return l;
}

/* The program's own LD_PRELOAD, which ours stood for. NULL: it had none. */
static char *own_preload(const struct loan *l)
{
	char *found = NULL;

	for (size_t i = 0; i < l->count; i++) {
		if (strncmp(l->source[i], "LD_PRELOAD=", 11) == 0)
			found = l->source[i];
	}
	return found;
}

/* Takes ours out of what the program has made of the array; the number left. */
static size_t clean(char **envp)
{
	char **from, **to = envp;

	for (from = envp; *from; from++) {
		const struct loan *l = loan_of_text(*from);

		if (l && strncmp(*from, "LD_PRELOAD=", 11) == 0)
			*from = own_preload(l);
		else if (l)
			*from = NULL;
		if (*from)
			*to++ = *from;
	}
	*to = NULL;
	return (size_t)(to - envp);
}

static bool was_lent(uint32_t generation)
{
	const struct loan *l = atomic_load(&loans);

	while (l && (l->idle || l->spoiled || atomic_load(&l->generation) != generation))
		l = l->next;
	return l != NULL;
}

static void restore(uint32_t generation)
{
	char **now = environ_now();
	struct loan *lent = loan_of(now);

	if (!lent && now)
		clean(now); /* the C library's own copy by now */
	if (lent && atomic_load(&lent->generation) == generation) {
		if (!is_same(now, lent->pristine, count(lent->pristine) + 1)) {
			/* Replaced or taken out in place: nothing can have been added here. */
			memcpy(lent->original, now, (clean(now) + 1) * sizeof(*now));
			lent->spoiled = true;
		}
		environ_swap(now, lent->original);
	}
	for (struct loan *l = atomic_load(&loans); l; l = l->next) {
		if (atomic_load(&l->generation) == generation && !l->spoiled)
			atomic_store(&l->idle, true);
	}
}

static void take_back(void)
{
	uint64_t was = atomic_load(&state), is;

	do {
		is = was - 1;
		if ((uint32_t)is == 0)
			is += UINT64_C(1) << 32;
	} while (!atomic_compare_exchange_weak(&state, &was, is));
	if ((uint32_t)is == 0 && was_lent((uint32_t)(was >> 32)))
		restore((uint32_t)(was >> 32));
}

/* What pthread_cleanup_push() makes of C, in every glibc. */
struct cleanup {
	long registers[8];
	int mask_was_saved;
	void *of_the_thread[4];
};

int __sigsetjmp(struct cleanup *cleanup, int save_mask) __attribute__((returns_twice));
void __pthread_register_cancel(struct cleanup *cleanup) __attribute__((weak));
void __pthread_unregister_cancel(struct cleanup *cleanup) __attribute__((weak));
_Noreturn void __pthread_unwind_next(struct cleanup *cleanup) __attribute__((weak));

/* As C libraries have them in which threads are a library of its own, that a program may do
 * without. */
#define OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.3.3")
OLD(__pthread_register_cancel);
OLD(__pthread_unregister_cancel);
OLD(__pthread_unwind_next);

/* A thread may be cancelled, or end, while it waits for the shell. */
static int system_lent(const char *command, size_t bytes)
{
	struct cleanup cleanup;

	lend(bytes);
	if (__pthread_register_cancel) {
		if (__sigsetjmp(&cleanup, 0)) {
			take_back();
			__pthread_unwind_next(&cleanup);
		}
		__pthread_register_cancel(&cleanup);
	}
	int ret = real.system(command);

	if (__pthread_register_cancel)
		__pthread_unregister_cancel(&cleanup);
	take_back();
	return ret;
}

AGENT_EXPORT int system(const char *command)
{
	uint64_t since = command ? agent_now() : 0;
	size_t bytes = command ? strlen(command) : 0;
	int ret;

	if (!real.system)
		real_resolve();
	ret = system_lent(command, bytes);
	if (ret != -1 && command)
		hooks_wait_note(CFA, -mgl_command_hash(command, bytes), ret, since);
	return ret;
}

AGENT_EXPORT FILE *popen(const char *command, const char *type)
{
	FILE *ret;

	if (!real.popen)
		real_resolve();
	lend(command ? strlen(command) : 0);
	ret = real.popen(command, type);
	take_back();
	return ret;
}
