/*
 * Resident memory of a process from its /proc/PID/status, which takes none of its locks.
 *
 * The directory is held open, so that what is read is never of another process that got
 * the pid. Owner: the caller, by closing the descriptor.
 */
#ifndef MALLOGRAPH_COLLECT_RESIDENT_H
#define MALLOGRAPH_COLLECT_RESIDENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "collect/snapshot.h"

/* /proc/PID of the process that began at starttime (0 = whoever has the pid); -1 = it is
 * gone. */
int collect_resident_open(pid_t pid, uint64_t starttime);
/* false = it has ended. */
bool collect_resident_read(int directory, struct collect_resident *ret);

#endif
