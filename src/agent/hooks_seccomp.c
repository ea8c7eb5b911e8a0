/*
 * prctl and syscall, for seccomp's sake: from the moment a filter (or strict mode) would
 * forbid what the agent does to grow, it lives on populated space alone.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/core.h"
#include "agent/hook.h"
#include "agent/real.h"
#include "agent/seccomp.h"

/* Where hooks_jump.S sends what it does not pass on itself: seccomp, prctl, and the first
 * call of all. */
long hooks_syscall_judge(long number, long a, long b, long c, long d, long e, long f);
extern long (*hooks_syscall_real)(long, ...);
long (*hooks_syscall_real)(long, ...);

/* Whether a request to install is one the agent outlives as it is. */
static bool is_harmless(unsigned long operation, const void *filter)
{
	return operation == SECCOMP_SET_MODE_FILTER && seccomp_allows(filter);
}

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

/* Around the real call, which may refuse. */
struct request {
	bool freezes;
};

static struct request before(unsigned long operation, const void *filter)
{
	int saved = errno;
	struct request r = {!agent_frozen && !is_harmless(operation, filter)};

	if (r.freezes)
		freeze();
	errno = saved;
	return r;
}

static void after(const struct request *r, bool installed)
{
	if (installed)
		agent_filtered = true;
	if (installed && r->freezes)
		agent_count_loss(MGL_LOSS_SECCOMP, 1);
	else if (r->freezes)
		agent_frozen = false;
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
	if (operation != PR_SET_SECCOMP)
		return real.prctl(operation, a, b, c, d);
	r = before(operation_of_mode(a), (const void *)b);
	ret = real.prctl(operation, a, b, c, d);
	after(&r, ret == 0);
	return ret;
}

long hooks_syscall_judge(long number, long a, long b, long c, long d, long e, long f)
{
	struct request r;
	long ret;

	if (!real.syscall)
		real_resolve();
	hooks_syscall_real = real.syscall;
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
