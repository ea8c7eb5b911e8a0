/*
 * Where frames are, shared by finish_stacks.c, which places them while they are named, and
 * finish_names.c, which writes what the places and sites are called.
 */
#ifndef MALLOGRAPH_COLLECT_FINISH_PLACING_H
#define MALLOGRAPH_COLLECT_FINISH_PLACING_H

#include "collect/finish_internal.h"
#include "symbols/symbols.h"

/* Where frames are, whatever is above or below them. */
struct finish_loc {
	uint32_t module; /* place in stacks */
	uint32_t flags;
	uint64_t offset;
	uint32_t put_flags; /* those that are in the profile */
	uint32_t named;     /* of symbols_title_line() */
	bool is_runtime;    /* of the C or C++ library */
};

struct finish_placing {
	struct finishing *finishing;
	struct symbols *symbols;
	struct symbols_module **modules; /* by place in stacks; NULL = nothing to look up */
	int vdso;                        /* descriptor of this kernel's; −1 = not open */
	struct symbols_jit *jits;        /* likewise, of code in no module */
	size_t jit_count;
	VECTOR(struct finish_loc) locs; /* [0] is not used */
	size_t locs_put;                /* in the profile; those before this one */
	size_t modules_put;             /* likewise, without what becomes known of them later */
	struct map_index loc_index;
	VECTOR(uint32_t) frame_locs; /* by frame, as far as they are placed; 0 = cut */
};

/* Code of one process that is in no module, by its place. */
static inline bool collect_finish_is_nowhere(const struct finish_placing *placing, uint32_t module)
{
	return placing->finishing->stacks.modules.items[module]->flags & LEDGER_MODULE_NOWHERE;
}

/* Whether symbols are looked up for it. */
static inline bool collect_finish_has_symbols(const struct ledger_module *module)
{
	return !(module->flags & (MGL_MODULE_AGENT | LEDGER_MODULE_NOWHERE));
}

/* finish_stacks.c: a place that was found before, as the next; and whether it is one already. */
bool collect_finish_has_loc(const struct finish_placing *placing, const struct finish_loc *loc);
struct error *collect_finish_load_loc(struct finish_placing *placing,
				      struct finish_loc loc) ERROR_MUST_CHECK;

/* finish_names.c: what runtimes say of code they made; modules, lines and sites, once symbols
 * are resolved. */
struct error *collect_finish_name_jits(struct finish_placing *placing) ERROR_MUST_CHECK;
struct error *collect_finish_put_names(struct finish_placing *placing) ERROR_MUST_CHECK;
/* Those that are new, for now. */
struct error *collect_finish_put_modules(struct finish_placing *placing) ERROR_MUST_CHECK;

#endif
