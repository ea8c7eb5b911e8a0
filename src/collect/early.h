/*
 * What is put into the profile while the program runs, so that little of it is left to be
 * made when it has ended and a person waits: stacks, of processes with many sites, since
 * most of a profile's rows are stacks and nodes never change; and processes that are over,
 * whose ledgers then need no room any more.
 *
 * It writes a profile of its own in the session directory, as long as there is plenty of
 * room, with a thread at low priority; collect_finish() goes on with it. Whatever fails ends
 * it, and finishing makes everything but the processes that are kept there.
 *
 * Owner: the caller, by collect_early_free(). Threads: those of the caller's one at a time.
 */
#ifndef MALLOGRAPH_COLLECT_EARLY_H
#define MALLOGRAPH_COLLECT_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "ledger/reader.h"

/* Sites and size classes of a process below which it is not worth it. */
#define COLLECT_EARLY_ROWS 4096u

struct collect_early;

struct collect_finish_options;

/* room: bytes that must be free where the profile is made; 0 = the default. path: where,
 * NULL = nameless, and no process is retired. */
struct error *collect_early_create(uint64_t room, const char *path,
				   struct collect_early **ret) ERROR_MUST_CHECK;
/* The file stays if there are retired processes in it: the session's, to be removed with it. */
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
/* Processes that are over, by their places in the reader, are in the profile for good after
 * this. An error ends the making. */
struct error *collect_early_retire(struct collect_early *early, struct ledger_reader *reader,
				   uint64_t opened, const struct collect_finish_options *options,
				   const size_t *places, size_t count) ERROR_MUST_CHECK;
/* From now on others do not go first: there is more of that than goes away. */
void collect_early_hurry(struct collect_early *early);
/* How many; early may be NULL. */
size_t collect_early_retired(const struct collect_early *early);
/* Where they are; NULL = there are none. */
const char *collect_early_retired_path(const struct collect_early *early);
bool collect_early_has_retired(const struct collect_early *early, uint32_t serial);
/* Milliseconds until there is more to do; −1 = nothing is left. */
int collect_early_wait(const struct collect_early *early);

#endif
