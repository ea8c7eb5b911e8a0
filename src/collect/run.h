/*
 * A run from its start to the kept file: the program is found and launched, recorded
 * until it ends, and what was recorded saved: as a profile or, if the file's name ends in
 * .mgl, as a ledger.
 *
 * While one is under way this process has its signals blocked, and afterwards too: the
 * caller prints its summary and ends with collect_signals_die() or an exit code.
 * One a process; one thread. Owner: the caller, who ends it with collect_run_close().
 */
#ifndef MALLOGRAPH_COLLECT_RUN_H
#define MALLOGRAPH_COLLECT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/finish.h"
#include "collect/output.h"
#include "collect/program.h"
#include "collect/session.h"
#include "collect/signals.h"
#include "collect/watch.h"

struct collect_run_options {
	const char *output; /* a checked pattern; NULL = the default name */
	struct collect_session_limits limits;
	char *const *argv;
	struct collect_finish_options finish; /* of a profile; its snapshots are the run's own */
};

struct collect_run {
	pid_t pid;
	struct collect_end end;
	struct collect_program program;
	struct collect_output output;
	struct collect_session session; /* its fd can be read until the run is closed */
	struct collect_signals signals;
	struct collect_snapshots *snapshots;
	struct collect_early *early;
	struct collect_retiring *retiring;
	struct collect_files *files;
	struct collect_finish_options finish; /* with them */
	bool saved;                           /* it stands at output.path */
	struct error *unsaved;                /* why not; the session file stays where it is */
	struct error *leftover;               /* why the session file could not be removed */
	size_t recorded;                      /* ledgers in it */
	size_t left_out;                      /* processes that were not to be recorded */
	size_t running;                       /* processes not yet ended */
	size_t unseen;                        /* likewise, that have allocated nothing yet */
};

/* An error is one of before the start, or one that lost sight of the program; exit_code is
 * set with it. */
struct error *collect_run(const struct collect_run_options *options, struct collect_run *ret,
			  int *exit_code) ERROR_MUST_CHECK;
void collect_run_close(struct collect_run *run);

#endif
