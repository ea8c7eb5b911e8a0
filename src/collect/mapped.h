/*
 * Who maps a file: what a process records into it has mapped for as long as it lives, whatever
 * its pid is called here. Of processes whose mappings this user may see.
 */
#ifndef MALLOGRAPH_COLLECT_MAPPED_H
#define MALLOGRAPH_COLLECT_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* fd: the file. Where /proc cannot be listed nobody does. This process does not count. */
bool collect_is_mapped(int fd);
bool collect_is_mapped_by(pid_t pid, int fd);
/* How many processes do that began at a time or later, in the clock ticks of /proc/PID/stat; *last
 * is the pid of one that is_known() (NULL = none is) does not know. */
size_t collect_mapped_since(int fd, uint64_t starttime,
			    bool (*is_known)(const void *context, pid_t pid), const void *context,
			    pid_t *last);

#endif
