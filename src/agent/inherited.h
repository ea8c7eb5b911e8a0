/*
 * Where a process's parent had blocks when it forked: a bit for each of the shadow's chunks,
 * by which a free of a block that no hook of this process saw made is known for one of its
 * parent's (or its parent's parent's).
 *
 * Ownership: private memory that a child of fork keeps: it costs a fork what its pages cost.
 * Threads: marks and looks by any; a child begins before its first thread does.
 */
#ifndef MALLOGRAPH_AGENT_INHERITED_H
#define MALLOGRAPH_AGENT_INHERITED_H

#include <stdbool.h>
#include <stdint.h>

/* This process has a chunk of 1 << chunk_shift bytes of heap there. Without memory the frees
 * there are unknown ones in its children. */
void inherited_mark(uintptr_t block, uint32_t chunk_shift);
/* In a child of fork: what was marked so far is inherited. */
void inherited_begin(void);
bool inherited_has(uintptr_t block, uint32_t chunk_shift);

#endif
