/*
 * The functions of allocators by their names, and what their arguments mean.
 *
 * Sources: the allocators' manuals: malloc(3), jemalloc(3), the headers of gperftools, mimalloc,
 * oneTBB, rpmalloc and snmalloc; Itanium C++ ABI 5.1.5 for operators.
 */
#include <string.h>

#include "agent/inner.h"

#define B(family) (1u << (family))
#define PLAIN     B(INNER_PLAIN)
#define TCMALLOC  B(INNER_TCMALLOC)
#define MIMALLOC  (B(INNER_MIMALLOC) | B(INNER_MIMALLOC_ARROW))
#define TBB       B(INNER_TBB)
#define RPMALLOC  B(INNER_RPMALLOC)
#define SNMALLOC  B(INNER_SNMALLOC)
#define ANY       (B(INNER_OPERATORS) - 1)
#define WITH_X                                                                          \
	(PLAIN | B(INNER_JEMALLOC) | B(INNER_JEMALLOC_RUST) | B(INNER_JEMALLOC_ARROW) | \
	 B(INNER_JEMALLOC_DUCKDB))
#define OPERATORS B(INNER_OPERATORS)
#define NO        INNER_NO_ARGUMENT

static const char prefixes[INNER_FAMILIES][12] = {
	[INNER_PLAIN] = "",
	[INNER_JEMALLOC] = "je_",
	[INNER_JEMALLOC_RUST] = "_rjem_",
	[INNER_TCMALLOC] = "tc_",
	[INNER_MIMALLOC] = "mi_",
	[INNER_DLMALLOC] = "dl",
	[INNER_TBB] = "scalable_",
	[INNER_RPMALLOC] = "rp",
	[INNER_SNMALLOC] = "sn_",
	[INNER_OPERATORS] = "_Z",
	/* As Arrow and DuckDB bring them. */
	[INNER_JEMALLOC_ARROW] = "je_arrow_",
	[INNER_JEMALLOC_DUCKDB] = "duckdb_je_",
	[INNER_MIMALLOC_ARROW] = "arrow_mi_",
};

/* Numbers are those of the arguments: size, count by which it is multiplied, block. */
#define MAKES(name, families, api, size)                                    \
	{                                                                   \
		families, INNER_ALLOCATE, MGL_API_##api, size, NO, NO, name \
	}
#define MAKES_N(name, families, api, count, size)                              \
	{                                                                      \
		families, INNER_ALLOCATE, MGL_API_##api, size, count, NO, name \
	}
#define THROWS(name, families, api, size)                              \
	{                                                              \
		families, INNER_NEW, MGL_API_##api, size, NO, NO, name \
	}
#define STORES(name, families, api, size)                               \
	{                                                               \
		families, INNER_STORE, MGL_API_##api, size, NO, 0, name \
	}
#define MOVES(name, families, block, size)                                         \
	{                                                                          \
		families, INNER_REALLOCATE, MGL_API_REALLOC, size, NO, block, name \
	}
#define MOVES_N(name, families, block, count, size)                                        \
	{                                                                                  \
		families, INNER_REALLOCATE, MGL_API_REALLOCARRAY, size, count, block, name \
	}
#define FREES(name, families, block)                                    \
	{                                                               \
		families, INNER_FREE, MGL_API_NONE, NO, NO, block, name \
	}

static const struct inner_shape shapes[] = {
	MAKES("malloc", ANY, MALLOC, 0),
	MAKES_N("calloc", ANY, CALLOC, 0, 1),
	MOVES("realloc", ANY, 0, 1),
	MOVES_N("reallocarray", ANY, 0, 1, 2),
	{ANY, INNER_REALLOCATE_OR_FREE, MGL_API_REALLOC, 1, NO, 0, "reallocf"},
	MAKES("memalign", ANY, MEMALIGN, 1),
	MAKES("aligned_alloc", ANY, ALIGNED_ALLOC, 1),
	STORES("posix_memalign", ANY, POSIX_MEMALIGN, 2),
	MAKES("valloc", ANY, VALLOC, 0),
	MAKES("pvalloc", ANY, PVALLOC, 0),
	FREES("free", ANY, 0),
	FREES("cfree", ANY, 0),
	FREES("free_sized", ANY, 0),
	FREES("free_aligned_sized", ANY, 0),

	/* jemalloc(3)'s, with flags */
	MAKES("mallocx", WITH_X, MALLOC, 0),
	MOVES("rallocx", WITH_X, 0, 1),
	{WITH_X, INNER_RESIZE, MGL_API_REALLOC, 1, NO, 0, "xallocx"},
	FREES("dallocx", WITH_X, 0),
	FREES("sdallocx", WITH_X, 0),

	/* gperftools */
	MAKES("malloc_skip_new_handler", TCMALLOC, MALLOC, 0),
	THROWS("new", TCMALLOC, NEW, 0),
	MAKES("new_nothrow", TCMALLOC, NEW, 0),
	THROWS("new_aligned", TCMALLOC, ALIGNED_NEW, 0),
	MAKES("new_aligned_nothrow", TCMALLOC, ALIGNED_NEW, 0),
	THROWS("newarray", TCMALLOC, NEW_ARRAY, 0),
	MAKES("newarray_nothrow", TCMALLOC, NEW_ARRAY, 0),
	THROWS("newarray_aligned", TCMALLOC, ALIGNED_NEW_ARRAY, 0),
	MAKES("newarray_aligned_nothrow", TCMALLOC, ALIGNED_NEW_ARRAY, 0),
	FREES("delete", TCMALLOC, 0),
	FREES("delete_nothrow", TCMALLOC, 0),
	FREES("delete_sized", TCMALLOC, 0),
	FREES("delete_aligned", TCMALLOC, 0),
	FREES("delete_sized_aligned", TCMALLOC, 0),
	FREES("delete_aligned_nothrow", TCMALLOC, 0),
	FREES("deletearray", TCMALLOC, 0),
	FREES("deletearray_nothrow", TCMALLOC, 0),
	FREES("deletearray_sized", TCMALLOC, 0),
	FREES("deletearray_aligned", TCMALLOC, 0),
	FREES("deletearray_sized_aligned", TCMALLOC, 0),
	FREES("deletearray_aligned_nothrow", TCMALLOC, 0),

	/* mimalloc: heaps are a first argument */
	MAKES("zalloc", MIMALLOC, CALLOC, 0),
	MAKES("malloc_small", MIMALLOC, MALLOC, 0),
	MAKES("zalloc_small", MIMALLOC, CALLOC, 0),
	MAKES_N("mallocn", MIMALLOC, MALLOC, 0, 1),
	MAKES("malloc_aligned", MIMALLOC, ALIGNED_ALLOC, 0),
	MAKES("heap_malloc_aligned", MIMALLOC, ALIGNED_ALLOC, 1),
	MAKES("malloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 0),
	MAKES("heap_malloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 1),
	MAKES("zalloc_aligned", MIMALLOC, ALIGNED_ALLOC, 0),
	MAKES("heap_zalloc_aligned", MIMALLOC, ALIGNED_ALLOC, 1),
	MAKES("zalloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 0),
	MAKES("heap_zalloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 1),
	MAKES_N("calloc_aligned", MIMALLOC, ALIGNED_ALLOC, 0, 1),
	MAKES_N("heap_calloc_aligned", MIMALLOC, ALIGNED_ALLOC, 1, 2),
	MOVES("realloc_aligned", MIMALLOC, 0, 1),
	MOVES("heap_realloc_aligned", MIMALLOC, 1, 2),
	MOVES("rezalloc_aligned", MIMALLOC, 0, 1),
	MOVES("heap_rezalloc_aligned", MIMALLOC, 1, 2),
	MOVES_N("recalloc_aligned", MIMALLOC, 0, 1, 2),
	MOVES_N("heap_recalloc_aligned", MIMALLOC, 1, 2, 3),
	MAKES_N("calloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 0, 1),
	MAKES_N("heap_calloc_aligned_at", MIMALLOC, ALIGNED_ALLOC, 1, 2),
	MOVES("realloc_aligned_at", MIMALLOC, 0, 1),
	MOVES("heap_realloc_aligned_at", MIMALLOC, 1, 2),
	MOVES("rezalloc_aligned_at", MIMALLOC, 0, 1),
	MOVES("heap_rezalloc_aligned_at", MIMALLOC, 1, 2),
	MOVES_N("recalloc_aligned_at", MIMALLOC, 0, 1, 2),
	MOVES_N("heap_recalloc_aligned_at", MIMALLOC, 1, 2, 3),
	MOVES("rezalloc", MIMALLOC, 0, 1),
	MOVES_N("recalloc", MIMALLOC, 0, 1, 2),
	MOVES_N("reallocn", MIMALLOC, 0, 1, 2),
	MOVES("expand", MIMALLOC, 0, 1),
	MAKES("heap_malloc", MIMALLOC, MALLOC, 1),
	MAKES("heap_zalloc", MIMALLOC, CALLOC, 1),
	MAKES("heap_malloc_small", MIMALLOC, MALLOC, 1),
	MAKES_N("heap_calloc", MIMALLOC, CALLOC, 1, 2),
	MAKES_N("heap_mallocn", MIMALLOC, MALLOC, 1, 2),
	MOVES("heap_realloc", MIMALLOC, 1, 2),
	MOVES("heap_rezalloc", MIMALLOC, 1, 2),
	MOVES_N("heap_reallocn", MIMALLOC, 1, 2, 3),
	MOVES_N("heap_recalloc", MIMALLOC, 1, 2, 3),
	{MIMALLOC, INNER_REALLOCATE_OR_FREE, MGL_API_REALLOC, 2, NO, 1, "heap_reallocf"},
	FREES("free_size", MIMALLOC, 0),
	FREES("free_aligned", MIMALLOC, 0),
	FREES("free_size_aligned", MIMALLOC, 0),
	THROWS("new", MIMALLOC, NEW, 0),
	THROWS("new_aligned", MIMALLOC, ALIGNED_NEW, 0),
	MAKES("new_nothrow", MIMALLOC, NEW, 0),
	MAKES("new_aligned_nothrow", MIMALLOC, ALIGNED_NEW, 0),
	{MIMALLOC, INNER_NEW, MGL_API_NEW_ARRAY, 1, 0, NO, "new_n"},
	MOVES("new_realloc", MIMALLOC, 0, 1),
	MOVES_N("new_reallocn", MIMALLOC, 0, 1, 2),

	/* oneTBB, rpmalloc, snmalloc for Rust */
	MAKES("aligned_malloc", TBB, ALIGNED_ALLOC, 0),
	MOVES("aligned_realloc", TBB, 0, 1),
	FREES("aligned_free", TBB, 0),
	MOVES("aligned_realloc", RPMALLOC, 0, 2),
	MAKES_N("aligned_calloc", RPMALLOC, ALIGNED_ALLOC, 1, 2),
	MAKES("rust_alloc", SNMALLOC, ALIGNED_ALLOC, 1),
	MAKES("rust_alloc_zeroed", SNMALLOC, ALIGNED_ALLOC, 1),
	MOVES("rust_realloc", SNMALLOC, 0, 3),
	FREES("rust_dealloc", SNMALLOC, 0),

	/* C++: new and delete, of one and of arrays */
	THROWS("nwm", OPERATORS, NEW, 0),
	MAKES("nwmRKSt9nothrow_t", OPERATORS, NEW, 0),
	THROWS("nwmSt11align_val_t", OPERATORS, ALIGNED_NEW, 0),
	MAKES("nwmSt11align_val_tRKSt9nothrow_t", OPERATORS, ALIGNED_NEW, 0),
	THROWS("nam", OPERATORS, NEW_ARRAY, 0),
	MAKES("namRKSt9nothrow_t", OPERATORS, NEW_ARRAY, 0),
	THROWS("namSt11align_val_t", OPERATORS, ALIGNED_NEW_ARRAY, 0),
	MAKES("namSt11align_val_tRKSt9nothrow_t", OPERATORS, ALIGNED_NEW_ARRAY, 0),
	FREES("dlPv", OPERATORS, 0),
	FREES("dlPvm", OPERATORS, 0),
	FREES("dlPvRKSt9nothrow_t", OPERATORS, 0),
	FREES("dlPvSt11align_val_t", OPERATORS, 0),
	FREES("dlPvmSt11align_val_t", OPERATORS, 0),
	FREES("dlPvSt11align_val_tRKSt9nothrow_t", OPERATORS, 0),
	FREES("daPv", OPERATORS, 0),
	FREES("daPvm", OPERATORS, 0),
	FREES("daPvRKSt9nothrow_t", OPERATORS, 0),
	FREES("daPvSt11align_val_t", OPERATORS, 0),
	FREES("daPvmSt11align_val_t", OPERATORS, 0),
	FREES("daPvSt11align_val_tRKSt9nothrow_t", OPERATORS, 0),
};

const uint32_t inner_shape_count = sizeof(shapes) / sizeof(shapes[0]);

static const struct inner_shape *find(const char *name, enum inner_family family)
{
	for (uint32_t i = 0; i < inner_shape_count; i++) {
		if ((shapes[i].families & B(family)) && strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	}
	return NULL;
}

/* A program has a million names: most end here. */
static bool may_be(const char *name)
{
	static const char first[] = "acdfjmprstvx"; /* of prefixes and of names without one */

	if (name[0] == '_')
		return name[1] == 'r' || (name[1] == 'Z' && (name[2] == 'n' || name[2] == 'd'));
	return name[0] && memchr(first, name[0], sizeof(first) - 1) &&
	       strlen(name) < INNER_NAME_BYTES;
}

const struct inner_shape *inner_shape_of(const char *name, enum inner_family *family)
{
	if (!may_be(name))
		return NULL;
	for (uint32_t f = INNER_FAMILIES; f-- > 0;) {
		size_t n = strlen(prefixes[f]);

		if (strncmp(name, prefixes[f], n) != 0)
			continue;
		const struct inner_shape *shape = find(name + n, (enum inner_family)f);

		*family = (enum inner_family)f;
		if (shape || f == INNER_PLAIN)
			return shape;
	}
	return NULL;
}

bool inner_name_of(enum inner_family family, const char *name, char ret[INNER_NAME_BYTES])
{
	size_t n = strlen(prefixes[family]), more = strlen(name);

	if (n + more >= INNER_NAME_BYTES)
		return false;
	memcpy(ret, prefixes[family], n);
	memcpy(ret + n, name, more + 1);
	return true;
}

const struct inner_shape *inner_name(enum inner_family family, uint32_t i,
				     char ret[INNER_NAME_BYTES])
{
	if (!(shapes[i].families & B(family)) || !inner_name_of(family, shapes[i].name, ret))
		return NULL;
	return &shapes[i];
}
