/*
 * Packages of .dwo files (.dwp), which libdw opens by itself only from elfutils 0.192 on. A
 * unit's contributions to the package's sections are found by its id and given to libdw as
 * what it knows: an ELF file in memory with one compilation unit. What the unit has in the
 * program itself comes with it: its addresses, and in DWARF 4 its ranges. Its own low_pc, which a
 * split unit does not have and its ranges are relative to, takes the place of DW_AT_producer.
 *
 * Owner: the package owns its units until symbols_package_close(); the program's Dwarf must
 * last as long. Errors: no memory; what is not as it should be is not there. Facts: DWARF 5,
 * 7.3.5; for version 2 of the index "DWARF Package File Format" of GCC's wiki.
 */
#ifndef MALLOGRAPH_SYMBOLS_PACKAGE_H
#define MALLOGRAPH_SYMBOLS_PACKAGE_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct symbols_package;

/* *ret NULL = there is none to be used. */
struct error *symbols_package_open(const char *path, struct symbols_package **ret) ERROR_MUST_CHECK;
void symbols_package_close(struct symbols_package *package);

/* The unit's other half; false = it is not in the package. */
bool symbols_package_unit(struct symbols_package *package, Dwarf_Die *skeleton, Dwarf_Die *ret);

#endif
