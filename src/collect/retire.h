/*
 * Processes that are over, while others of the tree go on: they are put into the profile
 * that is made early, and their ledgers are taken out of the session file, so that a tree
 * of any number of processes needs room for those that live.
 *
 * Only where there is something to gain: COLLECT_RETIRE_PROCESSES of them, or that many
 * bytes; from then on all of them after two seconds. At most half a processor is spent on
 * it, some milliseconds at a time. A ledger stays for a second after it was put into the
 * profile, for who reads both. A process is over once its parent has waited for it, or it
 * went on as another program: a pid that nobody has may be one of another namespace. What
 * nobody that is recorded waits for stays until the end.
 *
 * Owner: the caller, by collect_retiring_free(). Threads: the one that takes snapshots. What
 * fails ends it; what was put into the profile is there.
 */
#ifndef MALLOGRAPH_COLLECT_RETIRE_H
#define MALLOGRAPH_COLLECT_RETIRE_H

#include "collect/early.h"
#include "collect/finish.h"
#include "collect/session.h"
#include "collect/snapshot.h"

#define COLLECT_RETIRE_PROCESSES 64u
#define COLLECT_RETIRE_BYTES     (UINT64_C(32) << 20)

struct collect_retiring;

/* All of these are the caller's and outlive it; options has the snapshots. */
struct error *collect_retiring_create(struct collect_session *session,
				      struct collect_snapshots *snapshots,
				      struct collect_early *early,
				      const struct collect_finish_options *options,
				      struct collect_retiring **ret) ERROR_MUST_CHECK;
void collect_retiring_free(struct collect_retiring *retiring);

/* Milliseconds until there may be something to do; −1 = never. NULL is allowed. */
int collect_retiring_wait(const struct collect_retiring *retiring);
void collect_retiring_step(struct collect_retiring *retiring);
/* Nothing more is retired, and nothing of what was is left in the session file. */
void collect_retiring_end(struct collect_retiring *retiring);

#endif
