/*
 * Where in the debug information an address is: its compilation unit, function and the
 * calls inlined there. Neither .debug_aranges (not always there) nor libdw's own search for
 * scopes (a walk through the unit for each address) is used: units are indexed when opened, the functions of a unit when it is
 * first asked for, the inlined calls of a function likewise.
 *
 * Owner: whoever declares it; symbols_units_free(). DIEs belong to the Dwarf. Addresses are
 * those of the debug file. Errors: no memory; what cannot be read is not there.
 */
#ifndef MALLOGRAPH_SYMBOLS_UNITS_H
#define MALLOGRAPH_SYMBOLS_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/vector.h"
#include "symbols/interval.h"
#include "symbols/package.h"

struct symbols_range {
	uint64_t low;
	uint64_t high;
};

/* A call inlined into the function, in the order of a walk through the tree. */
struct symbols_inlined {
	Dwarf_Die die;
	uint32_t end; /* place of the first one that is not within it */
	uint32_t first_range;
	uint32_t range_count;
};

struct symbols_function {
	Dwarf_Die die;
	size_t *ranges_left; /* of the units */
	bool is_loaded;
	VECTOR(struct symbols_inlined) inlined;
	VECTOR(struct symbols_range) ranges; /* of the inlined ones */
};

struct symbols_unit {
	Dwarf_Die die;  /* has lines and ranges */
	Dwarf_Die code; /* has functions: the same, or once open the one in the .dwo or .dwp file */
	bool is_skeleton;
	struct symbols_package *package; /* that may have the other half; NULL = none */
	bool is_open;
	bool is_loaded;
	size_t *ranges_left;
	bool is_searched;                   /* everywhere, not only where functions usually are */
	struct symbols_intervals intervals; /* value = place in functions */
	VECTOR(struct symbols_function) functions;
};

struct symbols_units {
	struct symbols_intervals intervals; /* value = place in all */
	VECTOR(struct symbols_unit) all;
	size_t ranges_left; /* see below */
	bool has_functions;
	bool has_lines;
	bool lacks_split; /* a .dwo file was not found */
};

/* package: of its .dwo files, if there is one; outlives the units. */
struct error *symbols_units_load(Dwarf *dwarf, struct symbols_package *package,
				 struct symbols_units *ret) ERROR_MUST_CHECK;
void symbols_units_free(struct symbols_units *units);

/* Ranges past these are not looked at: only damaged files have so many. The first few of a
 * DIE always are; of the others all units of a file together have SYMBOLS_RANGES_SPARE, since
 * any number of DIEs may have one long list. */
#define SYMBOLS_RANGES_FEW   64u
#define SYMBOLS_RANGES_MAX   65536u
#define SYMBOLS_RANGES_SPARE ((size_t)1 << 20)

/* Whether the next of a DIE's ranges, of which count were looked at, is. */
static inline bool symbols_range_take(size_t *ranges_left, unsigned count)
{
	if (count < SYMBOLS_RANGES_FEW)
		return true;
	if (count >= SYMBOLS_RANGES_MAX || *ranges_left == 0)
		return false;
	--*ranges_left;
	return true;
}

void symbols_unit_open(struct symbols_unit *unit);

/* The function around address; *ret NULL = none. */
struct error *symbols_unit_function(struct symbols_unit *unit, uint64_t address,
				    struct symbols_function **ret) ERROR_MUST_CHECK;

#define SYMBOLS_INLINED_MAX 512u

/* The inlined calls address is in, outermost first: places in function->inlined. */
struct error *symbols_function_inlined(struct symbols_function *function, uint64_t address,
				       uint32_t ret[SYMBOLS_INLINED_MAX],
				       unsigned *ret_count) ERROR_MUST_CHECK;

#endif
