/*
 * Which .dwo files a module's split debug information was looked for in, and the package of
 * them (.dwp) beside it. libdw opens them on its own, as units are asked for; this tells the
 * trace where. Packages it reads from elfutils 0.192 on. Errors: none.
 */
#ifndef MALLOGRAPH_SYMBOLS_SPLIT_H
#define MALLOGRAPH_SYMBOLS_SPLIT_H

#include "symbols/trace.h"
#include "symbols/units.h"

/* path: of the file with the units. Whether there is a package that cannot be read. */
bool symbols_split_trace(const struct symbols_units *units, const char *path,
			 struct symbols_trace *trace);

#endif
