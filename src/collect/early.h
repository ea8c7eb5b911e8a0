/*
 * Stacks put into the profile while the program runs, so that little of it is left to be
 * made when it has ended and a person waits: most of a profile's rows are stacks, and
 * nodes never change. For programs with many sites; of others nothing is made.
 *
 * It writes a profile of its own that has no name, in the session directory as long as
 * there is plenty of room, with a thread at low priority; collect_finish() goes on with it.
 * Whatever fails ends it, and finishing makes everything.
 *
 * Owner: the caller, by collect_early_free(). Threads: those of the caller's one at a time.
 */
#ifndef MALLOGRAPH_COLLECT_EARLY_H
#define MALLOGRAPH_COLLECT_EARLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "ledger/reader.h"

/* Sites and size classes of a process below which it is not worth it. */
#define COLLECT_EARLY_ROWS 4096u

struct collect_early;

/* room: bytes that must be free where the profile is made; 0 = the default. */
struct error *collect_early_create(uint64_t room, struct collect_early **ret) ERROR_MUST_CHECK;
void collect_early_free(struct collect_early *early);

/* A node of a process, by its serial, that has a row. */
void collect_early_add(struct collect_early *early, uint32_t serial, uint32_t node);
/* Of those how many are to be named yet. */
size_t collect_early_count(const struct collect_early *early);
/* Frames that have names so far. */
size_t collect_early_frames(const struct collect_early *early);
/* Names some of what was added, for some milliseconds. opened: how many readers of the session
 * there were before this one. */
void collect_early_work(struct collect_early *early, struct ledger_reader *reader, uint64_t opened);
/* Milliseconds until there is more to do; −1 = nothing is left. */
int collect_early_wait(const struct collect_early *early);

#endif
