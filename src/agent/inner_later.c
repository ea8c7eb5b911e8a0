/* Libraries that are opened later: the loader tells of them, by a function it has for debuggers. */
#include <string.h>

#include "agent/core.h"
#include "agent/inner_looked.h"
#include "agent/seccomp.h"
#include "agent/sessionfile.h"
#include "agent/signals.h"

/* The loader's list of one namespace, for debuggers; its type in glibc 2.35's <link.h>. */
struct list {
	struct r_debug debug;
	const struct list *next; /* where debug.r_version > 1 */
};

#define SPACES_MOST 16u /* glibc has as many */

static struct space {
	const struct link_map *last; /* looked at: what the loader adds stands behind it */
	bool removes;
} spaces[SPACES_MOST];

static bool sees_openings;
static bool has_missed; /* what was the last one may be gone */

static const struct link_map *last_of(const struct link_map *map)
{
	while (map && map->l_next)
		map = map->l_next;
	return map;
}

/* Changes the C library's own functions, for those who find them before the agent's. */
static bool change_c_library(const struct link_map *map, bool is_relocated)
{
	bool changed = false;

	if (agent_filtered_files || !image_open(&inner_looked.image, map) ||
	    !symtab_open(&inner_looked.symtab, map->l_name, map))
		return false;
	inner_looked.path = map->l_name;
	inner_looked.least = 0;
	inner_looked.is_open = inner_looked.is_program = true;
	inner_looked.is_relocated = is_relocated;
	inner_forget();
	inner_find_exported(INNER_PLAIN);
	if (inner_is_family(INNER_PLAIN, false))
		changed = inner_change(INNER_PLAIN);
	symtab_close(&inner_looked.symtab);
	return changed;
}

/* Whole granules of the shadow apart stand blocks whose class is as large: glibc's do, and of others
 * those above the class before. */
#define GLIBC_SHIFT 5u

static size_t least_told_apart(void)
{
	return agent_current && agent_current->granule_shift >= GLIBC_SHIFT ? 25 : 0;
}

static bool is_c_library(const struct link_map *map)
{
	struct image image;

	return image_open(&image, map) && strcmp(image_soname(&image), "libc.so.6") == 0;
}

/* base: the program's own namespace. What is opened in another finds another C library. */
static void look_at_new(const struct link_map *map, bool base)
{
	for (uint32_t n = 0; map && n < IMAGE_MAX_MODULES; map = map->l_next, n++) {
		if (!base && is_c_library(map)) {
			change_c_library(map, false);
			continue;
		}
		inner_looked.is_program = inner_looked.is_relocated = false;
		inner_looked.least = least_told_apart();
		inner_look_at(map, map->l_name);
	}
}

static void look_at_space(const struct r_debug *debug, struct space *space)
{
	const struct link_map *last = last_of(debug->r_map);

	if (debug->r_state != RT_CONSISTENT) {
		space->removes = debug->r_state == RT_DELETE;
		return;
	}
	if (!space->removes && last != space->last)
		look_at_new(space->last ? space->last->l_next : debug->r_map, space == spaces);
	/* What was the last one may be gone. */
	space->last = last;
	space->removes = false;
}

void inner_missed(void) { has_missed = true; }

void inner_loaded(struct thread *t)
{
	const struct list *list = (const struct list *)image_debug();
	size_t told = inner_refused.bytes, known = inner_found.bytes;

	if (!list || agent_frozen)
		return;
	struct signals signals = signals_hold();

	for (uint32_t i = 0; list && i < SPACES_MOST; i++) {
		if (has_missed)
			spaces[i] = (struct space){.last = last_of(list->debug.r_map)};
		else
			look_at_space(&list->debug, &spaces[i]);
		/* Only the first says whether there are others. */
		list = i > 0 || list->debug.r_version > 1 ? list->next : NULL;
	}
	has_missed = false;
	if (inner_refused.bytes > told || inner_found.bytes > known)
		inner_tell_from(t, told);
	signals_release(&signals);
}

/* The loader's function: one of its own family, told by nobody. */
static void change_loader(const struct link_map *map)
{
	static struct inner loaded;
	struct image_symbol symbol;
	struct patch patch;

	if (!image_open(&inner_looked.image, map) ||
	    !inner_is_exported("_dl_debug_state", &symbol) ||
	    !symtab_open(&inner_looked.symtab, map->l_name, map))
		return;
	uintptr_t start = symtab_text_start(&inner_looked.symtab, symbol.address);
	uintptr_t stop = symtab_text_stop(&inner_looked.symtab, symbol.address);
	uint8_t *place = stop ? patch_room(symbol.address, 1, NULL) : NULL;

	symtab_close(&inner_looked.symtab);
	if (!place || patch_plan(&patch, symbol.address, symbol.bytes, start, stop) ||
	    !patch_is_safe_for_threads(&patch) ||
	    patch_place(&patch, place, &loaded, hooks_inner_entry))
		return;
	loaded = (struct inner){patch.call, 0, {.kind = INNER_LOADED}};
	spaces[0].last = last_of(image_first());
	sees_openings = patch_apply(&patch);
}

void inner_opening(void)
{
	static _Atomic bool done;
	uint32_t n = 0;

	if (!hooks_inner_entry || atomic_exchange(&done, true) || agent_frozen ||
	    agent_filtered_files || !agent_current)
		return;
	struct signals signals = signals_hold();

	for (const struct link_map *map = image_first(); map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		if (image_open(&inner_looked.image, map) &&
		    strncmp(image_soname(&inner_looked.image), "ld-linux", 8) == 0)
			change_loader(map);
	}
	signals_release(&signals);
}

/* --- libraries that do not look for malloc where others do -------------------------------------- */

bool inner_sees_spaces(void) { return sees_openings && image_find_is_exact(); }

bool inner_deepbind(struct thread *t)
{
	static bool tried, changed;
	const struct link_map *map = image_first();
	size_t told = inner_refused.bytes;

	if (tried || !hooks_inner_entry || agent_frozen || agent_filtered_files ||
	    sessionfile_threads() != 1)
		return changed;
	struct signals signals = signals_hold();

	tried = true;
	for (uint32_t n = 0; map && !is_c_library(map) && n < IMAGE_MAX_MODULES; n++)
		map = map->l_next;
	changed = map && change_c_library(map, true);
	/* That is told as what it means: a library that is not seen. */
	inner_refused.bytes = told;
	inner_tell_from(t, told);
	signals_release(&signals);
	return changed;
}
