/* Finding the functions of allocators in a module, and which of them are one. */
#include <string.h>

#include "agent/inner_looked.h"

struct inner_looked inner_looked;

static void add(const struct inner_shape *shape, enum inner_family family,
		const struct image_symbol *symbol)
{
	uintptr_t at = symbol->address;
	size_t bytes = symbol->bytes;

	if (symbol->type == STT_GNU_IFUNC) {
		at = inner_looked.is_relocated
			     ? (uintptr_t)image_function(&inner_looked.image, symbol)
			     : 0;
		bytes = 0;
	}
	/* A symbol may say anything. */
	uintptr_t stop =
		inner_looked.is_open ? symtab_text_stop(&inner_looked.symtab, at) : UINTPTR_MAX;

	if (!at || !stop || bytes > stop - at)
		return;
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		if (inner_looked.function[i].at == at)
			return;
	}
	if (inner_looked.count == INNER_FUNCTIONS_MOST)
		return;
	inner_looked.function[inner_looked.count++] = (struct inner_function){
		.shape = shape,
		.family = family,
		.at = at,
		.bytes = bytes,
	};
}

/* Whether calls of the name reach the agent: a library's, but for what the agent does not define. */
static bool is_reached(const char *name)
{
	static struct image agent;
	struct image_name n = image_name(name);
	struct image_symbol symbol;

	if (inner_looked.is_program)
		return false;
	for (const struct link_map *map = image_first(); map && !agent.map; map = map->l_next) {
		if (image_is_agent(map) && !image_open(&agent, map))
			return true;
	}
	return image_symbol(&agent, &n, &symbol);
}

bool inner_is_exported(const char *name, struct image_symbol *ret)
{
	struct image_name n = image_name(name);

	return image_symbol(&inner_looked.image, &n, ret);
}

/* A few names tell whether the rest need be looked for. */
static bool has_family(enum inner_family family)
{
	static const char *const heads[] = {"malloc", "mallocx", "malloc_aligned",
					    "new",    "nwm",     "rust_alloc"};
	char name[INNER_NAME_BYTES];
	struct image_symbol symbol;

	for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		if (inner_name_of(family, heads[i], name) && inner_is_exported(name, &symbol))
			return true;
	}
	return false;
}

static void add_exported(enum inner_family family)
{
	char name[INNER_NAME_BYTES];
	struct image_symbol symbol;

	for (uint32_t i = 0; i < inner_shape_count; i++) {
		const struct inner_shape *shape = inner_name(family, i, name);

		if (shape && inner_is_exported(name, &symbol) && !is_reached(name))
			add(shape, family, &symbol);
	}
}

/* name.part.0 and the like: what is called in the function's place, past its start. */
static void see_variant(const char *name, const char *dot)
{
	static const char *const kinds[] = {"constprop.", "isra.", "part."};
	char base[INNER_NAME_BYTES];
	enum inner_family family;

	if ((size_t)(dot - name) >= sizeof(base))
		return;
	memcpy(base, name, (size_t)(dot - name));
	base[dot - name] = '\0';
	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(dot + 1, kinds[i], strlen(kinds[i])) == 0 &&
		    inner_shape_of(base, &family))
			inner_looked.variant[family] = true;
	}
}

/* A sanitizer looks at its callers, and says who they are. */
static bool is_sanitizers(const char *name)
{
	/* Which of them are left depends on version, runtime and linker. */
	static const char *const names[] = {
		"__interceptor_malloc", "___interceptor_malloc", "__interceptor_trampoline_malloc",
		"__asan_init",          "__tsan_init",           "__msan_init",
		"__lsan_init",          "__hwasan_init"};

	for (uint32_t i = 0;
	     name[0] == '_' && name[1] == '_' && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

static void see(void *context, const char *name, const struct image_symbol *symbol)
{
	enum inner_family family;
	const struct inner_shape *shape = inner_shape_of(name, &family);
	const char *dot = shape ? NULL : strchr(name, '.');
	struct image_symbol exported;

	(void)context;
	inner_looked.sanitizer |= is_sanitizers(name);
	if (dot)
		see_variant(name, dot);
	/* What is resolved by a call has been, where the loader knows of it. */
	if (!shape || symbol->type == STT_GNU_IFUNC ||
	    (is_reached(name) && inner_is_exported(name, &exported)))
		return;
	add(shape, family, symbol);
}

static void forget(void)
{
	inner_looked.count = 0;
	inner_looked.sanitizer = false;
	memset(inner_looked.variant, 0, sizeof(inner_looked.variant));
}

void inner_find_exported(enum inner_family family)
{
	forget();
	add_exported(family);
}

void inner_find(void)
{
	forget();
	for (uint32_t f = 0; f < INNER_FAMILIES; f++) {
		if (has_family((enum inner_family)f))
			add_exported((enum inner_family)f);
	}
	if (inner_looked.is_open)
		symtab_each(&inner_looked.symtab, see, NULL);
}

/* --- choosing --------------------------------------------------------------------------- */

static bool is_in(enum inner_family family, const char *const *names)
{
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		const struct inner_function *f = &inner_looked.function[i];

		for (uint32_t n = 0; f->family == family && names[n]; n++) {
			if (strcmp(f->shape->name, names[n]) == 0)
				return true;
		}
	}
	return false;
}

static bool makes_blocks(enum inner_family family)
{
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		if (inner_looked.function[i].family == family &&
		    inner_looked.function[i].shape->kind < INNER_FREE)
			return true;
	}
	return false;
}

/* Operators that can go through malloc are left to do so: it is seen. */
static bool calls_malloc(void)
{
	static const char *const names[] = {"malloc",         "calloc",        "realloc",
					    "posix_memalign", "aligned_alloc", "memalign"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (image_imports(&inner_looked.image, names[i]))
			return true;
	}
	return false;
}

/* A C library's replacement of one function, as programs have them, is no allocator. */
bool inner_is_family(enum inner_family family, bool others)
{
	static const char *const plain[] = {"malloc", "mallocx", NULL};
	static const char *const heads[] = {"malloc", "mallocx", "malloc_aligned", "rust_alloc",
					    NULL};

	if (family == INNER_OPERATORS)
		return makes_blocks(family) && (others || !calls_malloc());
	return is_in(family, family == INNER_PLAIN ? plain : heads);
}
