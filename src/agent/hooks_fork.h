/*
 * What forks by hand share with fork(). Called in a child of fork that thread_in_hook() was
 * true for; cfa is the calling hook's.
 */
#ifndef MALLOGRAPH_AGENT_HOOKS_FORK_H
#define MALLOGRAPH_AGENT_HOOKS_FORK_H

#include <stdint.h>

void hooks_fork_child(uintptr_t cfa);

#endif
