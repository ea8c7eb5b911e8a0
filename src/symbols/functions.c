#include <dwarf.h>

#include "symbols/units.h"

/* Scopes in scopes, of which programs have a handful, and blocks and inlined calls in each
 * other, of which they have dozens. What is deeper is passed over, for which libdw walks
 * through all of it, at each depth anew. */
#define MAX_SCOPES 64u
#define MAX_BLOCKS 256u

static struct error *add_function(struct symbols_unit *unit, Dwarf_Die *die)
{
	uint32_t place = (uint32_t)unit->functions.count;
	size_t before = unit->intervals.all.count;
	ptrdiff_t at = 0;
	Dwarf_Addr base, low, high;

	for (unsigned i = 0; symbols_range_take(unit->ranges_left, i); i++) {
		at = dwarf_ranges(die, at, &base, &low, &high);
		if (at <= 0)
			break;
		TRY(symbols_intervals_add(&unit->intervals, low, high, 0, place));
	}
	if (unit->intervals.all.count == before)
		return NULL; /* a declaration, or inlined everywhere */
	return vector_push(
		&unit->functions,
		((struct symbols_function){.die = *die, .ranges_left = unit->ranges_left}));
}

/* Where compilers put functions: in the unit and in namespaces; rustc and others also in
 * types. GCC's nested functions stand in their outer function, which costs the walk
 * through every body, so that is done only where an address finds no function. */
static bool may_hold_functions(int tag, bool is_c_family, bool everywhere)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		return true;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
		return everywhere || !is_c_family;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return everywhere;
	default:
		return false;
	}
}

static bool is_c_family(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
		return true;
	default:
		return false;
	}
}

static struct error *find_functions(struct symbols_unit *unit, Dwarf_Die *parent, bool c_family,
				    unsigned depth)
{
	Dwarf_Die die;
	int result = dwarf_child(parent, &die);

	for (; result == 0; result = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			TRY(add_function(unit, &die));
		if (depth < MAX_SCOPES && may_hold_functions(tag, c_family, unit->is_searched))
			TRY(find_functions(unit, &die, c_family, depth + 1));
	}
	return NULL;
}

static struct error *load_functions(struct symbols_unit *unit)
{
	TRY(find_functions(unit, &unit->code, is_c_family(&unit->code), 0));
	symbols_intervals_seal(&unit->intervals);
	unit->is_loaded = true;
	return NULL;
}

static void forget_functions(struct symbols_unit *unit)
{
	for (size_t i = 0; i < unit->functions.count; i++) {
		vector_free(&unit->functions.items[i].inlined);
		vector_free(&unit->functions.items[i].ranges);
	}
	unit->functions.count = 0;
	unit->intervals.all.count = 0;
}

struct error *symbols_unit_function(struct symbols_unit *unit, uint64_t address,
				    struct symbols_function **ret)
{
	*ret = NULL;
	if (!unit->is_loaded) {
		symbols_unit_open(unit);
		TRY(load_functions(unit));
	}
	for (;;) {
		size_t position = SYMBOLS_INTERVALS_FIRST;
		const struct symbols_interval *found =
			symbols_intervals_next(&unit->intervals, address, &position);

		if (found) {
			*ret = &unit->functions.items[found->value];
			return NULL;
		}
		if (unit->is_searched)
			return NULL;
		unit->is_searched = true;
		forget_functions(unit);
		TRY(load_functions(unit));
	}
}

static struct error *add_inlined(struct symbols_function *function, Dwarf_Die *die, bool *ret_added)
{
	struct symbols_inlined inlined = {
		.die = *die,
		.first_range = (uint32_t)function->ranges.count,
	};
	ptrdiff_t at = 0;
	Dwarf_Addr base, low, high;

	for (unsigned i = 0; symbols_range_take(function->ranges_left, i); i++) {
		at = dwarf_ranges(die, at, &base, &low, &high);
		if (at <= 0)
			break;
		if (low < high)
			TRY(vector_push(&function->ranges, ((struct symbols_range){low, high})));
	}
	inlined.range_count = (uint32_t)function->ranges.count - inlined.first_range;
	*ret_added = inlined.range_count > 0;
	return *ret_added ? vector_push(&function->inlined, inlined) : NULL;
}

static bool is_block(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
	       tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

static struct error *find_inlined(struct symbols_function *function, Dwarf_Die *parent,
				  unsigned depth)
{
	Dwarf_Die die;
	int result = dwarf_child(parent, &die);

	for (; result == 0; result = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);
		size_t place = function->inlined.count;
		bool added = false;

		if (tag == DW_TAG_inlined_subroutine)
			TRY(add_inlined(function, &die, &added));
		else if (!is_block(tag))
			continue;
		if (depth < MAX_BLOCKS)
			TRY(find_inlined(function, &die, depth + 1));
		if (added)
			function->inlined.items[place].end = (uint32_t)function->inlined.count;
	}
	return NULL;
}

static bool contains(const struct symbols_function *function, const struct symbols_inlined *inlined,
		     uint64_t address)
{
	const struct symbols_range *range = &function->ranges.items[inlined->first_range];

	for (uint32_t i = 0; i < inlined->range_count; i++)
		if (address >= range[i].low && address < range[i].high)
			return true;
	return false;
}

struct error *symbols_function_inlined(struct symbols_function *function, uint64_t address,
				       uint32_t ret[SYMBOLS_INLINED_MAX], unsigned *ret_count)
{
	uint32_t at = 0;

	*ret_count = 0;
	if (!function->is_loaded) {
		TRY(find_inlined(function, &function->die, 0));
		function->is_loaded = true;
	}
	uint32_t end = (uint32_t)function->inlined.count;

	while (at < end && *ret_count < SYMBOLS_INLINED_MAX) {
		const struct symbols_inlined *inlined = &function->inlined.items[at];

		if (contains(function, inlined, address)) {
			ret[(*ret_count)++] = at++;
			end = inlined->end;
		} else {
			at = inlined->end;
		}
	}
	return NULL;
}
