/* A profile written from others: whole under its name, or not at all. */
#ifndef MALLOGRAPH_COLLECT_REWRITE_H
#define MALLOGRAPH_COLLECT_REWRITE_H

#include "base/error.h"

struct collect_output;
struct store_writer;

typedef struct error *collect_rewrite_put(void *context, struct store_writer *writer);

/* Has put fill a writer, and gives what output names to what it wrote. */
struct error *collect_rewrite(struct collect_output *output, collect_rewrite_put *put,
			      void *context) ERROR_MUST_CHECK;

#endif
