/*
 * What the files of inner.h share: the module that is being looked at, and what was found in it.
 *
 * Static data, for one thread at a time: while a process starts, or under the loader's lock.
 */
#ifndef MALLOGRAPH_AGENT_INNER_LOOKED_H
#define MALLOGRAPH_AGENT_INNER_LOOKED_H

#include "agent/image.h"
#include "agent/inner.h"
#include "agent/patch.h"
#include "agent/symtab.h"

#define INNER_FUNCTIONS_MOST 256u /* of one module: no allocator has as many */
#define INNER_TOLD_BYTES     4096u

struct inner_function {
	const struct inner_shape *shape;
	enum inner_family family;
	uintptr_t at;
	size_t bytes; /* 0 = not known */
	struct patch patch;
	struct inner *inner;
};

struct inner_looked {
	struct image image;
	struct symtab symtab;
	bool is_program;
	bool is_relocated; /* indirect functions can be resolved */
	bool is_open;      /* symtab is */
	const char *path;
	size_t least; /* struct inner's */
	bool sanitizer;
	bool variant[INNER_FAMILIES]; /* a copy that the compiler made is not seen */
	uint32_t count;
	struct inner_function function[INNER_FUNCTIONS_MOST]; /* last: most processes touch none */
};

extern struct inner_looked inner_looked;

/* What to tell, with a NUL each: of all "path (function)", of the refused "path (function why)". */
struct inner_told {
	char text[INNER_TOLD_BYTES];
	size_t bytes;
};

extern struct inner_told inner_found, inner_refused;

/* --- inner_find.c ---------------------------------------------------------------------- */

/* Fills what is looked at with the functions of its module. */
void inner_find(void);
/* Likewise, with what one family has that the loader knows of. */
void inner_find_exported(enum inner_family family);
bool inner_is_exported(const char *name, struct image_symbol *ret);
/* Whether what was found of it is an allocator to be changed; others: some family was. */
bool inner_is_family(enum inner_family family, bool others);

/* --- inner_change.c -------------------------------------------------------------------- */

/* Changes a family's functions, and notes it. false: it is as it was, and that is noted. */
bool inner_change(enum inner_family family);

/* --- inner.c ---------------------------------------------------------------------------- */

/* A module, its image open; path NULL or "": not known. */
void inner_look_at(const struct link_map *map, const char *path);
/* What is looked at is new where it stands: what was changed there before is gone. */
void inner_forget(void);
/* Enters what was told, from a place in what was refused on. */
void inner_tell_from(struct thread *t, size_t from);

#endif
