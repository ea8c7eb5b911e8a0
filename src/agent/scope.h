/*
 * Where a module opened with dlopen would have found a symbol that no module of the global
 * scope defines: in the modules that were opened with it.
 *
 * The loader does not tell who opened whom, but the order of its list does: a module
 * follows the one that first needed it, and what nobody before it needs was opened by
 * name. The search is breadth first over DT_NEEDED from that one.
 *
 * Ownership: none; a definition is good while its module is loaded. Threads: any; no lock
 * is taken, a module that is being unloaded is passed over. Errors: false = nobody does.
 *
 * Source: glibc's elf/dl-open.c and dl-object.c (l_scope, l_loader).
 */
#ifndef MALLOGRAPH_AGENT_SCOPE_H
#define MALLOGRAPH_AGENT_SCOPE_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct scope_definition {
	void *function;
	const struct link_map *map;
};

/* For a call from pc; any module's definition where its own scope has none. */
bool scope_find(const char *name, uintptr_t pc, struct scope_definition *ret);

#endif
