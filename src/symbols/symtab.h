/*
 * The functions of a module's symbol tables. Never a data symbol, never one whose size
 * does not reach the address. A function without a size (assembly) counts only where the
 * table is a full .symtab, nothing with a size is there, and up to the next symbol of its
 * section: in a stripped file the nearest exported name is seldom the right one.
 *
 * Owner: whoever declares it; symbols_symtab_free(). Names belong to the Dwfl, mangled and
 * as they stand there, version included. Errors: no memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_SYMTAB_H
#define MALLOGRAPH_SYMBOLS_SYMTAB_H

#include <stdbool.h>

#include <elfutils/libdwfl.h>

#include "base/vector.h"
#include "symbols/interval.h"

struct symbols_symtab {
	struct symbols_intervals sized;
	struct symbols_intervals unsized;
	VECTOR(const char *) names;
	bool is_full; /* has a .symtab, of its own, of a debug file or .gnu_debugdata */
};

struct error *symbols_symtab_load(Dwfl_Module *module, struct symbols_symtab *ret) ERROR_MUST_CHECK;
/* NULL = no function there. */
const char *symbols_symtab_find(const struct symbols_symtab *symtab, uint64_t address);
void symbols_symtab_free(struct symbols_symtab *symtab);

#endif
