/*
 * What the function a DIE describes is called: its mangled name demangled; where the
 * compiler gave none (GCC, for functions local to a file) its plain name, in C++, D and
 * Rust with the namespaces and classes around it, (anonymous namespace) included.
 *
 * Owner: names and their strings live until symbols_names_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_NAMES_H
#define MALLOGRAPH_SYMBOLS_NAMES_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/map.h"
#include "base/vector.h"
#include "symbols/bounds.h"

/* A DIE that others are named after, and those of its children that are. */
struct symbols_scope {
	Dwarf_Die die;
	Dwarf_Off offset;
	uint32_t first; /* place of its first child; 0 = not looked for yet */
	uint32_t count;
};

struct symbols_names {
	VECTOR(char *) strings;   /* [0] = NULL, for what has none */
	struct map_u64 demangled; /* where a mangled name stands in memory → place in strings */
	struct map_u64 qualified; /* where a DIE stands in memory → place in strings */
	struct map_u64 symbols;   /* where a symbol's name stands in memory → place in strings */
	struct map_u64 roots;     /* where a unit stands in memory → place of its scope */
	VECTOR(struct symbols_scope) scopes;
	struct symbols_bounds bounds;
	size_t budget; /* bytes that demangling may still give */
};

struct error *symbols_names_init(struct symbols_names *names) ERROR_MUST_CHECK;
void symbols_names_free(struct symbols_names *names);

/* *ret NULL = it has none. */
struct error *symbols_names_of_die(struct symbols_names *names, Dwarf_Die *die,
				   const char **ret) ERROR_MUST_CHECK;
/* A name of a symbol table, not empty: demangled, without its version and what compilers
 * append to parts of functions (.cold, .constprop.0). */
struct error *symbols_names_of_symbol(struct symbols_names *names, const char *symbol,
				      const char **ret) ERROR_MUST_CHECK;

/* What the symbol at a function's place may do better: C++ functions without a mangled name
 * get their parameters, and a library's __strdup the name it is called by. *ret, the name
 * so far, is replaced if so. */
bool symbols_names_may_improve(Dwarf_Die *die, const char *name);
struct error *symbols_names_improve(struct symbols_names *names, Dwarf_Die *die, const char *symbol,
				    const char **ret) ERROR_MUST_CHECK;

#endif
