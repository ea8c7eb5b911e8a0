#include "symbols/split.h"

#include <dwarf.h>
#include <limits.h>
#include <string.h>

#include "base/strbuf.h"

static const char *string_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr(die, name, &attribute));
}

/* Whether it is there: then the next place is not looked at. */
static bool trace_path(const struct symbols_unit *unit, const char *directory, const char *name,
		       struct symbols_trace *trace)
{
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;
	struct symbols_try tried = {.place = SYMBOLS_PLACE_SPLIT};

	if (*name != '/' && *directory)
		strbuf_printf(&path, "%s/", directory);
	strbuf_append(&path, name);
	if (path.failed) {
		trace->is_cut = true;
		return false;
	}
	tried.path = path.text;
	tried.identity = symbols_identity_of(path.text);
	tried.outcome = SYMBOLS_OUTCOME_FOUND;
	if (!tried.identity.exists)
		tried.outcome = SYMBOLS_OUTCOME_ABSENT;
	else if (unit->is_open && unit->code.addr == unit->die.addr)
		tried.outcome = SYMBOLS_OUTCOME_OTHER_BUILD_ID;
	symbols_trace_add(trace, &tried);
	return tried.outcome == SYMBOLS_OUTCOME_FOUND;
}

/* Beside the file with the unit's skeleton, then where it was compiled. */
static void trace_unit(const struct symbols_unit *unit, const char *directory,
		       struct symbols_trace *trace)
{
	Dwarf_Die die = unit->die;
	const char *name = string_attribute(&die, DW_AT_dwo_name);
	const char *compiled = string_attribute(&die, DW_AT_comp_dir);

	if (!name)
		name = string_attribute(&die, DW_AT_GNU_dwo_name);
	if (name && !trace_path(unit, directory, name, trace) && compiled && *name != '/')
		trace_path(unit, compiled, name, trace);
}

void symbols_split_trace(const struct symbols_units *units, const char *path,
			 struct symbols_trace *trace)
{
	CLEANUP_FREE char *real = realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;

	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < units->all.count; i++)
		if (units->all.items[i].is_skeleton)
			trace_unit(&units->all.items[i], slash ? real : "", trace);
}
