/*
 * What seccomp leaves the agent: judged before the kernel is asked to install it.
 *
 * Ownership: static data, inherited over fork as the filters are. Threads: any.
 * Errors: what cannot be read or understood is taken to forbid.
 */
#ifndef MALLOGRAPH_AGENT_SECCOMP_H
#define MALLOGRAPH_AGENT_SECCOMP_H

#include <linux/filter.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The program has installed a filter; that it lets the agent's usual calls pass is all that
 * is known of it. */
extern _Atomic bool agent_filtered;

/* One does not let pass what looking at a library's file, and changing its code, takes. */
extern _Atomic bool agent_filtered_files;

/* The same of what that takes. */
bool seccomp_allows_files(const struct sock_fprog *filter);
/* Whether a filter lets every call in AGENT_SYSCALLS pass as if it were not there. */
bool seccomp_allows(const struct sock_fprog *filter);
/* The same of clock_gettime, which is a system call where the vDSO has no clock. */
bool seccomp_allows_clock(const struct sock_fprog *filter);

#endif
