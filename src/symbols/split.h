/*
 * Which .dwo files a module's split debug information is looked for in, and which package of
 * them (.dwp). libdw opens .dwo files on its own, as units are asked for; this tells the trace
 * where. Errors: no memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_SPLIT_H
#define MALLOGRAPH_SYMBOLS_SPLIT_H

#include "symbols/trace.h"
#include "symbols/units.h"

/* paths: of the file with the units, and of others that a package may stand beside. *ret
 * NULL = there is none. */
struct error *symbols_split_open(const char *const *paths, size_t count,
				 struct symbols_package **ret) ERROR_MUST_CHECK;
void symbols_split_trace(const struct symbols_units *units, const char *const *paths, size_t count,
			 struct symbols_trace *trace);

#endif
