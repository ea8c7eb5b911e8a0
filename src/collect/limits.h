/*
 * How much memory a session may take: a quarter of what is free, by the cgroups this
 * process is in (v2 and v1, and all above them), the machine, and the file system the
 * session file is on. What cannot be read does not limit.
 */
#ifndef MALLOGRAPH_COLLECT_LIMITS_H
#define MALLOGRAPH_COLLECT_LIMITS_H

#include <stdint.h>

/* fd: the session directory. Never 0. */
uint64_t collect_limits_default(int fd);

/* For tests: cgroup headroom with other roots for /proc/self/cgroup's text and the mounted
 * hierarchies. UINT64_MAX = no limit. */
uint64_t collect_limits_cgroup(const char *membership, const char *root);

#endif
