#include "symbols/units.h"

#include <dwarf.h>

void symbols_units_free(struct symbols_units *units)
{
	for (size_t i = 0; i < units->all.count; i++) {
		struct symbols_unit *unit = &units->all.items[i];

		for (size_t k = 0; k < unit->functions.count; k++) {
			vector_free(&unit->functions.items[k].inlined);
			vector_free(&unit->functions.items[k].ranges);
		}
		vector_free(&unit->functions);
		symbols_intervals_free(&unit->intervals);
	}
	vector_free(&units->all);
	symbols_intervals_free(&units->intervals);
}

/* Units that do not say where their code is (rare, hand-made): what their lines cover. */
static struct error *add_line_ranges(struct symbols_units *units, Dwarf_Die *die, uint32_t place)
{
	Dwarf_Lines *lines;
	size_t count;
	Dwarf_Addr start = 0;
	bool in_sequence = false;

	if (!dwarf_hasattr(die, DW_AT_stmt_list) || dwarf_getsrclines(die, &lines, &count) != 0)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		Dwarf_Addr address;
		bool ends;

		if (dwarf_lineaddr(line, &address) != 0 || dwarf_lineendsequence(line, &ends) != 0)
			continue;
		if (!in_sequence)
			start = address;
		if (ends)
			TRY(symbols_intervals_add(&units->intervals, start, address, 0, place));
		in_sequence = !ends;
	}
	return NULL;
}

static struct error *add_ranges(struct symbols_units *units, Dwarf_Die *die, uint32_t place)
{
	size_t before = units->intervals.all.count;
	ptrdiff_t at = 0;
	Dwarf_Addr base, low, high;

	for (unsigned i = 0; symbols_range_take(&units->ranges_left, i); i++) {
		at = dwarf_ranges(die, at, &base, &low, &high);
		if (at <= 0)
			break;
		TRY(symbols_intervals_add(&units->intervals, low, high, 0, place));
	}
	if (units->intervals.all.count > before)
		return NULL;
	return add_line_ranges(units, die, place);
}

void symbols_unit_open(struct symbols_unit *unit)
{
	Dwarf_Die split;

	if (!unit->is_skeleton || unit->is_open)
		return;
	unit->is_open = true;
	if ((dwarf_cu_info(unit->die.cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 &&
	     split.cu) ||
	    (unit->package && symbols_package_unit(unit->package, &unit->die, &split)))
		unit->code = split;
}

/* One .dwo file is enough to know whether there are any. */
static void appraise(struct symbols_units *units, struct symbols_unit *unit)
{
	if (unit->is_skeleton && !units->has_functions && !units->lacks_split) {
		symbols_unit_open(unit);
		units->lacks_split = unit->code.addr == unit->die.addr;
	}
	if (!units->has_functions && dwarf_haschildren(&unit->code) > 0)
		units->has_functions = true;
	if (!units->has_lines && dwarf_hasattr(&unit->die, DW_AT_stmt_list))
		units->has_lines = true;
}

struct error *symbols_units_load(Dwarf *dwarf, struct symbols_package *package,
				 struct symbols_units *ret)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	ret->ranges_left = SYMBOLS_RANGES_SPARE;
	while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
		size_t before = ret->intervals.all.count;
		struct symbols_unit unit = {
			.die = die,
			.code = die,
			.ranges_left = &ret->ranges_left,
			.is_skeleton = type == DW_UT_skeleton,
			.package = package,
		};

		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		TRY(add_ranges(ret, &die, (uint32_t)ret->all.count));
		if (ret->intervals.all.count == before)
			continue; /* has no code */
		TRY(vector_push(&ret->all, unit));
		appraise(ret, &ret->all.items[ret->all.count - 1]);
	}
	symbols_intervals_seal(&ret->intervals);
	return NULL;
}
