#include "collect/signals.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

struct error *collect_signals_take(struct collect_signals *ret)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t mask;

	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&mask, faults[i]);
	ret->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ret->fd < 0)
		return error_create_system(errno, NULL, "cannot make a signal descriptor");
	sigprocmask(SIG_BLOCK, &mask, &ret->mask_before);
	/* Where it is ignored, the kernel throws away what became of the target. */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &ret->child_before);
	return NULL;
}

void collect_signals_restore(const struct collect_signals *signals)
{
	sigaction(SIGCHLD, &signals->child_before, NULL);
	sigprocmask(SIG_SETMASK, &signals->mask_before, NULL);
}

void collect_signals_give_back(struct collect_signals *signals)
{
	if (signals->fd < 0)
		return;
	collect_signals_restore(signals);
	close(signals->fd);
	signals->fd = -1;
}

void collect_signals_die(int number)
{
	sigset_t only;

	/* A limit of 0 keeps a core file away, not a dumpable one a core program. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigemptyset(&only);
	sigaddset(&only, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
}
