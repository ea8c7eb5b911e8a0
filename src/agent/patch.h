/*
 * Functions changed where they stand: their first instructions give way to a jump to a hook,
 * and go on elsewhere, for the hook to call.
 *
 * A place holds two pieces of code, within reach of the function: the relay, to which the jump
 * leads, and the moved instructions with a jump back behind them. Nobody else may run a function
 * while it changes, but for one that does nothing but return.
 *
 * Ownership: places are mapped for good. Errors: a reason, in words, static; nothing is changed
 * then. Not for the hot path. Writes through /proc/self/mem, which needs no right to write that
 * a mapping would have to be given and could not be taken again, else by mprotect(2).
 *
 * Sources: proc(5); x86-64 System V ABI 3.2 (r9 is the last register of arguments).
 */
#ifndef MALLOGRAPH_AGENT_PATCH_H
#define MALLOGRAPH_AGENT_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/insn.h"

#define PATCH_PLACE_BYTES  96u
#define PATCH_RECORD_BYTES 64u

struct patch {
	const uint8_t *at;     /* where the jump goes */
	uint32_t bytes;        /* of whole instructions it stands in the place of */
	uintptr_t start, stop; /* of the code that can be read */
	uint8_t was[INSN_JUMP_BYTES];
	uint8_t jump[INSN_JUMP_BYTES];
	void *call; /* the moved instructions */
};

/* What to change in a function of size bytes, 0 = not known, in code from start to stop. NULL, or
 * why it cannot be. One thread at a time. */
const char *patch_plan(struct patch *ret, uintptr_t function, size_t size, uintptr_t start,
		       uintptr_t stop);
/* Room for count places in reach of an address, readable and executable; NULL = none. *records, if
 * it is asked for: private, PATCH_RECORD_BYTES for each. */
uint8_t *patch_room(uintptr_t near, uint32_t count, void **records);
/* What stood from start to stop is gone: rooms for it may be used again. */
void patch_forget(uintptr_t start, uintptr_t stop);
/* Fills a place: its relay calls hook with the last argument's register on the stack, and record
 * in it. */
const char *patch_place(struct patch *p, uint8_t *place, const void *record, void (*hook)(void));
/* Whether other threads may run meanwhile. */
bool patch_is_safe_for_threads(const struct patch *p);
/* The function changes, or back. false: it stays as it is. */
bool patch_apply(const struct patch *p);
bool patch_undo(const struct patch *p);

#endif
