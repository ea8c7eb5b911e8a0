/*
 * Waiting for the target: its end is awaited, signals sent to the collector are passed
 * on, a terminal's stop is joined, space is kept populated ahead, snapshots are taken, and what
 * is over is put away.
 * One thread.
 */
#ifndef MALLOGRAPH_COLLECT_WATCH_H
#define MALLOGRAPH_COLLECT_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "collect/retire.h"
#include "collect/session.h"
#include "collect/signals.h"
#include "collect/snapshot.h"

struct collect_end {
	bool by_signal;
	int code;          /* exit status or signal number */
	uint64_t ns;       /* CLOCK_MONOTONIC */
	uint64_t rss_peak; /* bytes, of the target and the children it waited for */
	uint64_t rss_seen; /* bytes, of the target alone as last seen; 0 = not known */
};

/* snapshots, retiring NULL = none. */
struct error *collect_watch(pid_t pid, const struct collect_signals *signals,
			    struct collect_session *session, struct collect_snapshots *snapshots,
			    struct collect_retiring *retiring,
			    struct collect_end *ret) ERROR_MUST_CHECK;

#endif
