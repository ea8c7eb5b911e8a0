/*
 * A module's file: where its code is, and the functions of its symbol table, which the loader
 * does not map: what is hidden stands there alone, and nothing does in a file that was stripped.
 *
 * Ownership: one descriptor until symtab_close(), buffers in static data and given back. Threads:
 * one at a time: while a process starts, or under the loader's lock. Errors: false, also of a
 * file that is another one by now. Bounded: a file is what somebody else wrote.
 *
 * Source: System V gABI (program header, sections, symbol table).
 */
#ifndef MALLOGRAPH_AGENT_SYMTAB_H
#define MALLOGRAPH_AGENT_SYMTAB_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/image.h"

#define SYMTAB_TEXTS 4u

struct symtab {
	int fd;
	const struct link_map *map;
	Elf64_Ehdr header;
	/* In memory: what is mapped readable and executable. 0, 0 = none. */
	struct {
		uintptr_t start, stop;
	} text[SYMTAB_TEXTS];
};

typedef void symtab_visit(void *context, const char *name, const struct image_symbol *symbol);

/* path: the module's file. false: it cannot be read, and there is nothing to close. */
bool symtab_open(struct symtab *ret, const char *path, const struct link_map *map);
/* Calls visit for each function that the file defines; names are good during the call, addresses
 * are the module's in memory, and may be anything. false: there is a table, and no room for it. */
bool symtab_each(const struct symtab *s, symtab_visit *visit, void *context);
/* Where the code ends that an address is in; 0 = it is in none. */
uintptr_t symtab_text_stop(const struct symtab *s, uintptr_t at);
/* And where it starts; 0 likewise. */
uintptr_t symtab_text_start(const struct symtab *s, uintptr_t at);
void symtab_close(const struct symtab *s);

#endif
