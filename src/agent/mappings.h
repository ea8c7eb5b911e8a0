/*
 * Live mappings made by the program: a bounded table of intervals in the ledger.
 *
 * Ownership: the table is the ledger's (mgl_process.mappings); the functions take it
 * plainly. Threads: any number, lock-free; an entry is claimed by storing MAPPING_BUSY in
 * its start. Errors: what finds no entry is reported to the caller, who counts it.
 * Units: bytes, whole pages.
 */
#ifndef MALLOGRAPH_AGENT_MAPPINGS_H
#define MALLOGRAPH_AGENT_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/layout.h"

struct mapping_table {
	struct mgl_mapping *entries; /* MGL_MAPPINGS */
	_Atomic uint32_t *used;      /* no entry at or beyond it is in use; only grows */
};

/* What was taken out, to put back. */
#define MAPPINGS_REMOVED 8u
struct mappings_removed {
	uint64_t bytes;
	uint32_t count;
	uint32_t lost;      /* pieces that stay mapped and found no entry */
	uint32_t forgotten; /* pieces beyond this array, which cannot be put back */
	struct {
		uint64_t start;
		uint64_t bytes;
	} pieces[MAPPINGS_REMOVED];
};

/* false: the table is full. */
bool mappings_add(struct mapping_table table, uint64_t start, uint64_t bytes);
/* Takes [start, start + bytes) out of every mapping it overlaps. */
void mappings_remove(struct mapping_table table, uint64_t start, uint64_t bytes,
		     struct mappings_removed *ret);

#endif
