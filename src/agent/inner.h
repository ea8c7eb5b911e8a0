/*
 * Allocators inside of programs and libraries, which no preload comes before: linked into them
 * under names of their own (je_malloc, mi_malloc …), hidden, or defined by the program, whose
 * definitions come first. Their functions are found by symbol and changed where they stand, to
 * pass through a hook.
 *
 * While a process starts, before it has a second thread; and in a library that is opened later,
 * before anything else of it is used: the loader calls a function for debuggers then, which is
 * changed likewise at the first such opening. A family of functions is changed whole or not at all:
 * one whose frees are not seen would be worth less than none.
 *
 * Ownership: private memory for as long as the process lives; text pages of the modules that
 * become the process's own. A child of fork inherits all of it. Errors: what cannot be changed
 * is a loss (MGL_LOSS_OWN_MALLOC) with its reason, and runs as ever.
 */
#ifndef MALLOGRAPH_AGENT_INNER_H
#define MALLOGRAPH_AGENT_INNER_H

#include "agent/agent.h"

enum inner_kind {
	INNER_ALLOCATE, /* returns the block or NULL */
	INNER_NEW,      /* likewise, or throws */
	INNER_STORE, /* posix_memalign's: returns an error, stores the block by its first argument */
	INNER_FREE,
	INNER_REALLOCATE,         /* returns the block, old or new, or NULL and keeps it */
	INNER_REALLOCATE_OR_FREE, /* reallocf's: NULL, and it is freed */
	INNER_RESIZE,             /* in place: returns the block's size, which may be as it was */
	INNER_LOADED, /* the loader's, which it calls for debuggers: modules come or go */
};

#define INNER_NO_ARGUMENT 7u

/* How to call a function: which argument says what. Without pointers, which the loader would
 * have to set in every process. */
struct inner_shape {
	uint16_t families; /* bits, by enum inner_family */
	uint8_t kind;      /* enum inner_kind */
	uint8_t api;       /* enum mgl_api */
	uint8_t size;      /* argument */
	uint8_t count : 4; /* argument that multiplies it; INNER_NO_ARGUMENT = none */
	uint8_t block : 4; /* argument that is freed or changed */
	char name[34];     /* without its family's prefix */
};

/* Those with one prefix; the first has none. */
enum inner_family {
	INNER_PLAIN,
	INNER_JEMALLOC,
	INNER_JEMALLOC_RUST,
	INNER_JEMALLOC_ARROW,
	INNER_JEMALLOC_DUCKDB,
	INNER_TCMALLOC,
	INNER_MIMALLOC,
	INNER_MIMALLOC_ARROW,
	INNER_DLMALLOC,
	INNER_TBB,
	INNER_RPMALLOC,
	INNER_SNMALLOC,
	INNER_OPERATORS, /* of C++ */
	INNER_FAMILIES,
	INNER_NONE = INNER_FAMILIES,
};

/* A function that was changed. Constant once it is. */
struct inner {
	void *call; /* does what it did before */
	size_t least; /* smaller blocks may stand closer than the agent tells apart: counted as lost */
	struct inner_shape shape;
};

/* --- inner_names.c ------------------------------------------------------------------ */

/* The function of that name as it is known, and whose it is; NULL = it is none. */
const struct inner_shape *inner_shape_of(const char *name, enum inner_family *family);
#define INNER_NAME_BYTES 48u
extern const uint32_t inner_shape_count;
/* The family's function of number i, if that is one of its, and its name; NULL = it is none. */
const struct inner_shape *inner_name(enum inner_family family, uint32_t i,
				     char ret[INNER_NAME_BYTES]);
/* With the family's prefix; false: it is too long. */
bool inner_name_of(enum inner_family family, const char *name, char ret[INNER_NAME_BYTES]);

/* --- inner.c ------------------------------------------------------------------------ */

/* Finds and changes what there is. Called with signals held, before recording starts. */
void inner_start(void);
/* Enters into a new ledger what was found, and what of it is not seen. */
void inner_tell(struct thread *t);
/* A library is about to be opened. */
void inner_opening(void);
/* A library is about to be opened that finds the C library's malloc before the agent's: whether
 * that is seen. */
bool inner_deepbind(struct thread *t);
/* Whether libraries in namespaces of their own are seen. Lists of them came with glibc 2.35. */
bool inner_sees_spaces(void);
/* By the loader, under its lock: it is about to add modules, or has added them. */
void inner_loaded(struct thread *t);
/* Likewise, where the thread has a hook to leave first. */
void inner_missed(void);
/* hooks_jump.S's, to which changed functions lead. Weak: unit tests link no hooks, and change
 * nothing. */
__attribute__((weak)) void hooks_inner_entry(void);
/* Some function was changed: the real functions may call hooks. */
extern bool inner_is_used;

#endif
