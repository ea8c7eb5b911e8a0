/*
 * Which .dwo files a module's split debug information was looked for in. libdw opens them on
 * its own, as units are asked for; this tells the trace where. Errors: none.
 */
#ifndef MALLOGRAPH_SYMBOLS_SPLIT_H
#define MALLOGRAPH_SYMBOLS_SPLIT_H

#include "symbols/trace.h"
#include "symbols/units.h"

/* path: of the file with the units. */
void symbols_split_trace(const struct symbols_units *units, const char *path,
			 struct symbols_trace *trace);

#endif
