/*
 * exec*, posix_spawn*, system and popen: the new program gets our variables back, so that
 * it is recorded too; this one never sees them.
 *
 * A vfork child runs these in its parent's memory and on its thread pointer, and after a
 * successful exec nothing here returns: so nothing is left entered or taken over the call
 * but a scratch entry, which scratch.c knows how to find again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent/choice.h"
#include "agent/core.h"
#include "agent/environ.h"
#include "agent/real.h"
#include "agent/scratch.h"
#include "agent/seccomp.h"
#include "agent/syscall.h"
#include "agent/target.h"

struct target {
	int dir;
	const char *path;
	int flags;
	bool search;   /* in PATH */
	bool replaces; /* exec, not spawn */
};

/* One call under way. */
struct following {
	const struct target *target;
	char *const *own; /* the environment that was asked for */
	char *const *envp;
	struct scratch scratch;
	bool execing;
	bool missed;
	bool left_out;
};

/* A vfork child is not the process whose memory it runs in; a fork child's ledger, if it
 * has none yet, reads as zeros. */
static bool is_recorded_process(void)
{
	return agent_process && !agent_frozen && agent_process->pid == sys_getpid();
}

static void count_missed(struct following *f, const struct target *target)
{
	if (target->path && !choice_admits(target->path, ""))
		return;
	f->missed = true;
	if (target->path)
		agent_name_missed(target->path);
	else
		agent_count_loss(MGL_LOSS_MISSED_PROCESS, 1);
}

/* The environment the new program is to get; f->envp is envp where that is the one. */
static void choose_environment(struct following *f, const struct target *target, char *const envp[])
{
	enum mgl_how how = target->replaces ? process_exec_how() : MGL_HOW_SPAWN;
	size_t bytes;

	if (!environ_differs(envp))
		return;
	if (how != MGL_HOW_EXEC && !choice_follows()) {
		f->left_out = true;
		choice_left_out(1);
		return;
	}
	bytes = (environ_bytes(envp) + 15) & ~(size_t)15;
	f->scratch = scratch_take(TARGET_ROOM + bytes);
	if (f->scratch.memory && environ_admits(envp) && target_reaches() &&
	    target_loads_agent(target->dir, target->path, target->flags, target->search,
			       (char *)f->scratch.memory + bytes))
		f->envp = environ_inject(envp, f->scratch.memory, how, process_origin());
	else
		count_missed(f, target);
}

static void begin(struct following *f, const struct target *target, char *const envp[])
{
	int saved = errno;

	*f = (struct following){
		.target = target, .own = envp, .envp = envp, .scratch = SCRATCH_NONE};
	if (!real.execve)
		real_resolve();
	choose_environment(f, target, envp);
	if (target->replaces && is_recorded_process()) {
		f->execing = true;
		LEDGER_SET(agent_process->state, MGL_STATE_EXECING);
	}
	errno = saved;
}

/* Whether it is to be tried again: what the kernel found too much may be little enough without
 * our variables. */
static bool again(struct following *f, int error)
{
	if (error != E2BIG || f->envp == f->own)
		return false;
	f->envp = f->own;
	count_missed(f, f->target);
	return true;
}

/* ret is the real function's; an exec that returns has failed. */
static void end(struct following *f, int ret)
{
	if (f->execing)
		LEDGER_SET(agent_process->state, MGL_STATE_RUNNING);
	if (f->missed && ret != 0)
		agent_count_loss(MGL_LOSS_MISSED_PROCESS, UINT64_MAX); /* none was started */
	if (f->left_out && ret != 0)
		choice_left_out(-1);
	scratch_give(&f->scratch);
}

static int run_execve(const char *path, char *const argv[], char *const envp[])
{
	struct following f;
	int ret;

	begin(&f, &(struct target){AT_FDCWD, path, 0, false, true}, envp);
	do
		ret = real.execve(path, argv, f.envp);
	while (ret == -1 && again(&f, errno));
	end(&f, ret);
	return ret;
}

static int run_execvpe(const char *file, char *const argv[], char *const envp[])
{
	struct following f;
	int ret;

	begin(&f, &(struct target){AT_FDCWD, file, 0, true, true}, envp);
	do
		ret = real.execvpe(file, argv, f.envp);
	while (ret == -1 && again(&f, errno));
	end(&f, ret);
	return ret;
}

/* Another library's execv ends in an execve of its choice, which we shall see. */
static int run_execv(const char *path, char *const argv[])
{
	if (!real.execv)
		real_resolve();
	return real_facts.own_execv ? real.execv(path, argv) : run_execve(path, argv, environ);
}

static int run_execvp(const char *file, char *const argv[])
{
	if (!real.execvp)
		real_resolve();
	return real_facts.own_execvp ? real.execvp(file, argv) : run_execvpe(file, argv, environ);
}

/* --- the interposers ------------------------------------------------------------ */

AGENT_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return run_execve(path, argv, envp);
}

AGENT_EXPORT int execv(const char *path, char *const argv[]) { return run_execv(path, argv); }

AGENT_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return run_execvpe(file, argv, envp);
}

AGENT_EXPORT int execvp(const char *file, char *const argv[]) { return run_execvp(file, argv); }

AGENT_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[],
			  int flags)
{
	struct following f;
	int ret;

	begin(&f, &(struct target){dir, path, flags, false, true}, envp);
	do
		ret = real.execveat(dir, path, argv, f.envp, flags);
	while (ret == -1 && again(&f, errno));
	end(&f, ret);
	return ret;
}

AGENT_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	struct following f;
	int ret;

	begin(&f, &(struct target){fd, "", AT_EMPTY_PATH, false, true}, envp);
	do
		ret = real.fexecve(fd, argv, f.envp);
	while (ret == -1 && again(&f, errno));
	end(&f, ret);
	return ret;
}

/* A variadic exec's arguments as an array in scratch memory; NULL with errno set where there
 * is none. count and copy both start after first; copy ends after the NULL. */
static char **list_take(struct scratch *scratch, const char *first, va_list *count, va_list *copy)
{
	size_t n = 0;
	char **argv;

	for (const char *s = first; s; s = va_arg(*count, const char *))
		n++;
	*scratch = scratch_take((n + 1) * sizeof(*argv));
	argv = scratch->memory;
	if (!argv) {
		errno = ENOMEM;
		return NULL;
	}
	n = 0;
	for (const char *s = first; s; s = va_arg(*copy, const char *))
		argv[n++] = (char *)s;
	argv[n] = NULL;
	return argv;
}

/* No room for vector registers, which hold no argument of these. */
#define LIST_FUNCTION AGENT_EXPORT __attribute__((target("general-regs-only"))) int

#define LIST_BODY(first, run)                                    \
	struct scratch scratch;                                  \
	va_list count, copy;                                     \
	int ret = -1;                                            \
                                                                 \
	va_start(count, first);                                  \
	va_start(copy, first);                                   \
	char **argv = list_take(&scratch, first, &count, &copy); \
	if (argv)                                                \
		ret = (run);                                     \
	va_end(count);                                           \
	va_end(copy);                                            \
	scratch_give(&scratch);                                  \
	return ret

LIST_FUNCTION execl(const char *path, const char *first, ...)
{
	LIST_BODY(first, run_execv(path, argv));
}

LIST_FUNCTION execlp(const char *file, const char *first, ...)
{
	LIST_BODY(first, run_execvp(file, argv));
}

LIST_FUNCTION execle(const char *path, const char *first, ...)
{
	LIST_BODY(first, run_execve(path, argv, va_arg(copy, char **)));
}

AGENT_EXPORT int posix_spawn(pid_t *pid, const char *path,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attributes, char *const argv[],
			     char *const envp[])
{
	struct following f;
	int ret;

	begin(&f, &(struct target){AT_FDCWD, path, 0, false, false}, envp);
	do
		ret = real.posix_spawn(pid, path, actions, attributes, argv, f.envp);
	while (again(&f, ret));
	end(&f, ret);
	return ret;
}

AGENT_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			      const posix_spawn_file_actions_t *actions,
			      const posix_spawnattr_t *attributes, char *const argv[],
			      char *const envp[])
{
	struct following f;
	int ret;

	begin(&f, &(struct target){AT_FDCWD, file, 0, true, false}, envp);
	do
		ret = real.posix_spawnp(pid, file, actions, attributes, argv, f.envp);
	while (again(&f, ret));
	end(&f, ret);
	return ret;
}
