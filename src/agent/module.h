/*
 * The modules of the process, as the unwinder and the ledger know them.
 *
 * The list is private memory, insert-only and read without locks. A module that is
 * unloaded stays in it with map 0, and comes back to life when the same file is mapped
 * at the same place again.
 */
#ifndef MALLOGRAPH_AGENT_MODULE_H
#define MALLOGRAPH_AGENT_MODULE_H

#include "agent/agent.h"
#include "agent/cfi.h"

/* What the dynamic linker says of the object that holds an address. */
struct object {
	uint64_t start, stop; /* of one segment where there are gaps between them */
	uintptr_t map;        /* its struct link_map, which tells it from others at its place */
	uint64_t bias;
	uint64_t dynamic;
	const char *name;
};

#define MODULE_TEXTS 4u

/* A readable, executable segment; 0, 0 = none. */
struct text_range {
	uint64_t start, stop;
};

/* What its ELF headers say, in memory addresses. */
struct object_image {
	uint64_t start, stop; /* over all segments */
	struct cfi_section cfi;
	struct text_range text[MODULE_TEXTS];
	uint8_t build_id[32];
	uint32_t build_id_bytes;
};

struct module {
	struct module *next;
	_Atomic uintptr_t map; /* 0 = unloaded */
	uint64_t start, stop;
	uint64_t bias;
	uint64_t dynamic;
	struct cfi_section cfi;
	struct text_range text[MODULE_TEXTS];
	uint32_t index;
	uint32_t where; /* index and RULE_HIDDEN */
	uint64_t name_hash;
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	struct mgl_module *record;
};

/* The module that maps this address now, recorded at first sight; NULL = none. */
const struct module *module_find(struct thread *t, uint64_t address);
/* Whether all these bytes of it are code. */
bool module_is_text(const struct module *m, uint64_t address, uint64_t bytes);

/* --- module_object.c ---------------------------------------------------------------- */

/* The loaded object that holds an address; takes no lock. */
bool object_find(uint64_t address, struct object *ret);
/* Whether that is quick and exact, by the dynamic linker itself. */
bool object_find_is_exact(void);
/* The loaded objects one by one, the program first; *cursor starts as 0. false = no more. */
bool object_next(uintptr_t *cursor, struct object *ret);
bool object_is_program(const struct object *o);
bool object_is_vdso(const struct object *o);
bool object_is_agent(const struct object *o);
/* Reads the object's program headers and notes; false = not to be found. */
bool object_image(const struct object *o, struct object_image *ret);

#endif
