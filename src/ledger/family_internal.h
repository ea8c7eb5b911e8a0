/* Shared by family*.c alone. */
#ifndef MALLOGRAPH_LEDGER_FAMILY_INTERNAL_H
#define MALLOGRAPH_LEDGER_FAMILY_INTERNAL_H

#include "base/map.h"
#include "ledger/family.h"

/* Ends that a process of the session saw by its wait. Members have parent, how and the end as
 * far as it is known without; by_serial has their places; one
 * that is no place is not in the reader. */
struct error *ledger_family_settle(struct ledger_reader *reader, struct ledger_family *family,
				   const struct map_u64 *by_serial) ERROR_MUST_CHECK;

#endif
