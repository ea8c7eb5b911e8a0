/*
 * Takes in what a reader process says (wire.h) and puts it into the round's modules. Of
 * anything that cannot be right it takes no more, and says so: is_garbled.
 *
 * Owner: whoever declares it; symbols_receiver_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_RECEIVER_H
#define MALLOGRAPH_SYMBOLS_RECEIVER_H

#include "symbols/internal.h"

#define SYMBOLS_NO_WORK UINT32_MAX

struct symbols_receiver {
	struct symbols_round *round;
	struct strbuf input;
	uint32_t work; /* place of the one it is at, or SYMBOLS_NO_WORK */
	VECTOR(const char *) strings;
	bool is_garbled;
};

void symbols_receiver_init(struct symbols_receiver *receiver, struct symbols_round *round);
void symbols_receiver_free(struct symbols_receiver *receiver);

struct error *symbols_receiver_take(struct symbols_receiver *receiver, const void *bytes,
				    size_t count) ERROR_MUST_CHECK;
/* A module will get no more: what is not known of it is not known. */
struct error *symbols_receiver_finish_module(struct symbols_receiver *receiver,
					     struct symbols_module *module) ERROR_MUST_CHECK;

#endif
