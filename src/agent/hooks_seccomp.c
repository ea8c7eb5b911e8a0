/*
 * prctl and syscall, for seccomp's sake: from the moment a filter (or strict mode) would
 * forbid what the agent does to grow, it lives on populated space alone, and without a
 * clock where that is taken too.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core.h"
#include "agent/hook.h"
#include "agent/hooks_fork.h"
#include "agent/real.h"
#include "agent/seccomp.h"

/* Where hooks_jump.S sends what it does not pass on itself: seccomp, prctl, forks whose child
 * returns on a stack of its own, and execs. */
long hooks_syscall_judge(long number, long a, long b, long c, long d, long e, long f);
extern long (*hooks_syscall_real)(long, ...);
long (*hooks_syscall_real)(long, ...);
/* Finds the function that hooks_jump.S jumps to. */
long (*hooks_syscall_find(void))(long, ...);

/* While system calls are still allowed. */
static void freeze(void)
{
	struct thread *t = thread_enter(CFA);

	if (t) {
		session_prepare_frozen(t);
		thread_leave(t);
	}
	agent_frozen = true;
}

/* What was done before the real call, which may refuse. */
struct request {
	bool freezes;
	bool stops_clock;
	bool closes_files;
};

/* Strict mode takes the processor's clock away as well as the system's. */
static struct request before(unsigned long operation, const void *filter)
{
	bool strict = operation == SECCOMP_SET_MODE_STRICT;
	int saved = errno;
	struct request r = {
		.freezes = !agent_frozen && (strict || !seccomp_allows(filter)),
		.stops_clock = (strict || !seccomp_allows_clock(filter)) && clock_stop(),
		.closes_files = strict || !seccomp_allows_files(filter),
	};

	if (r.freezes)
		freeze();
	errno = saved;
	return r;
}

static void after(const struct request *r, bool installed)
{
	if (installed) {
		agent_filtered = true;
		if (r->closes_files)
			agent_filtered_files = true;
		if (r->freezes)
			agent_count_loss(MGL_LOSS_SECCOMP, 1);
		return;
	}
	if (r->freezes)
		agent_frozen = false;
	if (r->stops_clock)
		clock_resume();
}

/* A program can make rdtsc, which the vDSO's clock is made of, a SIGSEGV. */
static int set_tsc(unsigned long mode)
{
	bool stopped = mode == PR_TSC_SIGSEGV && clock_stop();
	int ret = real.prctl(PR_SET_TSC, mode, 0, 0, 0);

	if (ret == 0 ? mode == PR_TSC_ENABLE : stopped)
		clock_resume();
	return ret;
}

/* prctl names a mode where seccomp names an operation. */
static unsigned long operation_of_mode(unsigned long mode)
{
	return mode == SECCOMP_MODE_FILTER ? SECCOMP_SET_MODE_FILTER : SECCOMP_SET_MODE_STRICT;
}

AGENT_EXPORT int prctl(int operation, ...)
{
	unsigned long a, b, c, d;
	struct request r;
	va_list list;
	int ret;

	va_start(list, operation);
	a = va_arg(list, unsigned long);
	b = va_arg(list, unsigned long);
	c = va_arg(list, unsigned long);
	d = va_arg(list, unsigned long);
	va_end(list);
	if (!real.prctl)
		real_resolve();
	if (operation == PR_SET_TSC)
		return set_tsc(a);
	if (operation != PR_SET_SECCOMP)
		return real.prctl(operation, a, b, c, d);
	r = before(operation_of_mode(a), (const void *)b);
	ret = real.prctl(operation, a, b, c, d);
	after(&r, ret == 0);
	return ret;
}

long (*hooks_syscall_find(void))(long, ...)
{
	if (!real.syscall)
		real_resolve();
	hooks_syscall_real = real.syscall;
	return real.syscall;
}

long hooks_syscall_judge(long number, long a, long b, long c, long d, long e, long f)
{
	bool inside = thread_in_hook();
	struct request r;
	long ret;

	if (!real.syscall)
		real_resolve();
	if (number == SYS_fork || number == SYS_clone) {
		ret = real.syscall(number, a, b, c, d, e, f);
		if (inside && ret == 0)
			hooks_fork_child(CFA);
		return ret;
	}
	if (number == SYS_execve)
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	if (number == SYS_execveat)
		return execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d,
				(int)e);
	if (number == SYS_seccomp && (a == SECCOMP_SET_MODE_FILTER || a == SECCOMP_SET_MODE_STRICT))
		r = before((unsigned long)a, (const void *)c);
	else if (number == SYS_prctl && a == PR_SET_SECCOMP)
		r = before(operation_of_mode((unsigned long)b), (const void *)c);
	else
		return real.syscall(number, a, b, c, d, e, f);
	ret = real.syscall(number, a, b, c, d, e, f);
	after(&r, ret >= 0);
	return ret;
}
