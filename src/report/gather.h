/*
 * Output put together from pieces that stay where they are: a listing repeats the same
 * lines millions of times, and copying them is most of its cost.
 *
 * Owner: whoever declares it; nothing to free. A borrowed piece must stay until the next
 * flush, which adding one may bring. Pieces go out in order, past the stream's buffer where
 * it has a descriptor, and after what stood in it. Errors: writing failed.
 */
#ifndef MALLOGRAPH_REPORT_GATHER_H
#define MALLOGRAPH_REPORT_GATHER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>

#include "base/error.h"

#define REPORT_GATHER_PIECES 1024u /* what one writev takes: IOV_MAX */
#define REPORT_GATHER_BYTES  65536u

struct report_gather {
	FILE *out;
	size_t count;
	size_t used; /* of copied */
	struct iovec pieces[REPORT_GATHER_PIECES];
	char copied[REPORT_GATHER_BYTES];
};

struct error *report_gather_flush(struct report_gather *gather) ERROR_MUST_CHECK;
struct error *report_gather_borrow(struct report_gather *gather, const char *text,
				   size_t length) ERROR_MUST_CHECK;
struct error *report_gather_copy(struct report_gather *gather, const char *text,
				 size_t length) ERROR_MUST_CHECK;

/* Digits at at; the place after them. A decimal number takes 20 bytes at most, a
 * hexadecimal one 16. */
char *report_put_decimal(char *at, uint64_t value);
char *report_put_hex(char *at, uint64_t value);

#endif
