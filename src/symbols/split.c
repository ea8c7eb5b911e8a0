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
		       bool has_package, struct symbols_trace *trace)
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
	else if (!has_package && unit->is_open && unit->code.addr == unit->die.addr)
		tried.outcome = SYMBOLS_OUTCOME_OTHER_BUILD_ID;
	symbols_trace_add(trace, &tried);
	return tried.outcome == SYMBOLS_OUTCOME_FOUND;
}

/* Beside the file with the unit's skeleton, then where it was compiled. */
static void trace_unit(const struct symbols_unit *unit, const char *directory, bool has_package,
		       struct symbols_trace *trace)
{
	Dwarf_Die die = unit->die;
	const char *name = string_attribute(&die, DW_AT_dwo_name);
	const char *compiled = string_attribute(&die, DW_AT_comp_dir);

	if (!name)
		name = string_attribute(&die, DW_AT_GNU_dwo_name);
	if (name && !trace_path(unit, directory, name, has_package, trace) && compiled &&
	    *name != '/')
		trace_path(unit, compiled, name, has_package, trace);
}

/* "PATH.dwp" of where the file really is; failed = no memory. */
static struct strbuf package_path(const char *path)
{
	struct strbuf text = STRBUF_EMPTY;
	CLEANUP_FREE char *real = realpath(path, NULL);

	strbuf_printf(&text, "%s.dwp", real ? real : path);
	return text;
}

struct error *symbols_split_open(const char *const *paths, size_t count,
				 struct symbols_package **ret)
{
	*ret = NULL;
	for (size_t i = 0; i < count && !*ret; i++) {
		CLEANUP_STRBUF struct strbuf path = package_path(paths[i]);

		TRY(strbuf_result(&path));
		TRY(symbols_package_open(path.text, ret));
	}
	return NULL;
}

/* Whether it is there to be used. */
static bool trace_package(const char *path, struct symbols_trace *trace)
{
	CLEANUP_STRBUF struct strbuf package = package_path(path);
	struct symbols_package *opened = NULL;
	struct symbols_try tried = {.place = SYMBOLS_PLACE_SPLIT};

	if (package.failed) {
		trace->is_cut = true;
		return false;
	}
	tried.path = package.text;
	tried.identity = symbols_identity_of(package.text);
	tried.outcome = SYMBOLS_OUTCOME_ABSENT;
	if (tried.identity.exists) {
		error_free(symbols_package_open(package.text, &opened));
		tried.outcome = opened ? SYMBOLS_OUTCOME_FOUND : SYMBOLS_OUTCOME_UNREADABLE;
		tried.detail = opened ? NULL : "not a package of .dwo files";
	}
	symbols_package_close(opened);
	symbols_trace_add(trace, &tried);
	return opened != NULL;
}

void symbols_split_trace(const struct symbols_units *units, const char *const *paths, size_t count,
			 struct symbols_trace *trace)
{
	CLEANUP_FREE char *real = realpath(paths[0], NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	bool any = false, found = false;

	for (size_t i = 0; i < units->all.count && !any; i++)
		any = units->all.items[i].is_skeleton;
	for (size_t i = 0; i < count && any && !found; i++)
		found = trace_package(paths[i], trace);
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < units->all.count && any; i++)
		if (units->all.items[i].is_skeleton)
			trace_unit(&units->all.items[i], slash ? real : "", found, trace);
}
