#include "symbols/split.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
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

#define PACKAGES_SINCE 192 /* elfutils 0. */

static bool reads_packages(void)
{
	const char *version = dwfl_version(NULL);
	const char *dot = version ? strchr(version, '.') : NULL;

	return dot && (strtol(dot + 1, NULL, 10) >= PACKAGES_SINCE || version[0] != '0');
}

static bool trace_package(const char *path, struct symbols_trace *trace)
{
	CLEANUP_STRBUF struct strbuf package = STRBUF_EMPTY;
	struct symbols_try tried = {
		.place = SYMBOLS_PLACE_SPLIT,
		.outcome = SYMBOLS_OUTCOME_FOUND,
	};

	strbuf_printf(&package, "%s.dwp", path);
	if (package.failed) {
		trace->is_cut = true;
		return false;
	}
	tried.path = package.text;
	tried.identity = symbols_identity_of(package.text);
	if (!tried.identity.exists) {
		tried.outcome = SYMBOLS_OUTCOME_ABSENT;
	} else if (!reads_packages()) {
		tried.outcome = SYMBOLS_OUTCOME_UNREADABLE;
		tried.detail = "a package of .dwo files, which elfutils reads from 0.192 on";
	}
	symbols_trace_add(trace, &tried);
	return tried.outcome == SYMBOLS_OUTCOME_UNREADABLE;
}

bool symbols_split_trace(const struct symbols_units *units, const char *path,
			 struct symbols_trace *trace)
{
	CLEANUP_FREE char *real = realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	bool any = false, unread;

	for (size_t i = 0; i < units->all.count && !any; i++)
		any = units->all.items[i].is_skeleton;
	if (!any)
		return false;
	unread = trace_package(real ? real : path, trace);
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < units->all.count; i++)
		if (units->all.items[i].is_skeleton)
			trace_unit(&units->all.items[i], slash ? real : "", trace);
	return unread;
}
