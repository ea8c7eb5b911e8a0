/* Libraries that are opened later: the loader tells of them, by a function it has for debuggers. */
#include <string.h>

#include "agent/core.h"
#include "agent/inner_looked.h"
#include "agent/signals.h"

/* The last module that was looked at: what the loader adds stands behind it. */
static const struct link_map *last_known;

static const struct link_map *last_module(void)
{
	const struct link_map *map = image_first();

	while (map && map->l_next)
		map = map->l_next;
	return map;
}

static void look_at_new(struct thread *t)
{
	size_t told = inner_refused.bytes, known = inner_found.bytes;
	struct signals signals = signals_hold();

	inner_looked.is_program = inner_looked.is_relocated = false;
	for (const struct link_map *map = last_known ? last_known->l_next : NULL; map;
	     map = map->l_next)
		inner_look_at(map, map->l_name);
	if (inner_refused.bytes > told || inner_found.bytes > known)
		inner_tell_from(t, told);
	signals_release(&signals);
}

void inner_loaded(struct thread *t)
{
	static bool removes;
	const struct r_debug *debug = image_debug();

	if (!debug || agent_frozen)
		return;
	if (debug->r_state != RT_CONSISTENT) {
		removes = debug->r_state == RT_DELETE;
		return;
	}
	if (!removes)
		look_at_new(t);
	/* What was the last one may be gone. */
	last_known = last_module();
	removes = false;
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
	uintptr_t stop = symtab_text_stop(&inner_looked.symtab, symbol.address);
	uint8_t *place = stop ? patch_room(symbol.address, 1) : NULL;

	symtab_close(&inner_looked.symtab);
	if (!place || patch_plan(&patch, symbol.address, symbol.bytes, stop) ||
	    !patch_is_safe_for_threads(&patch) ||
	    patch_place(&patch, place, &loaded, hooks_inner_entry))
		return;
	loaded = (struct inner){patch.call, {.kind = INNER_LOADED}};
	last_known = last_module();
	patch_apply(&patch);
}

void inner_opening(void)
{
	static _Atomic bool done;
	uint32_t n = 0;

	if (!hooks_inner_entry || atomic_exchange(&done, true) || agent_frozen || !agent_current)
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
