/*
 * Copying what was taken of a session file into the ledger that is kept: holes stay holes,
 * and what was populated but never used becomes one.
 */
#ifndef MALLOGRAPH_COLLECT_SAVE_H
#define MALLOGRAPH_COLLECT_SAVE_H

#include <stdint.h>

#include "base/error.h"

/* to is empty. Processes may still be writing into from; what they take after the start
 * is not in the copy. */
struct error *collect_save(int from, const char *from_name, int to,
			   const char *to_name) ERROR_MUST_CHECK;

#endif
