/*
 * The collector's signals. It takes none by a handler: all are blocked but those of its own
 * faults and read from a descriptor, so that each one can be passed on to the target.
 * The target gets mask and dispositions as they were before.
 *
 * One of these a process; one thread.
 */
#ifndef MALLOGRAPH_COLLECT_SIGNALS_H
#define MALLOGRAPH_COLLECT_SIGNALS_H

#include <signal.h>

#include "base/error.h"

struct collect_signals {
	int fd; /* a signalfd, non-blocking; -1 = none */
	sigset_t mask_before;
	struct sigaction child_before;
};

struct error *collect_signals_take(struct collect_signals *ret) ERROR_MUST_CHECK;
/* Back to how it was; async-signal-safe, for the child before it executes. */
void collect_signals_restore(const struct collect_signals *signals);
/* The same, and the descriptor is closed. */
void collect_signals_give_back(struct collect_signals *signals);

/* Die of a signal as the target did, without a core file of ours. Returns where the
 * signal does not kill. */
void collect_signals_die(int number);

#endif
