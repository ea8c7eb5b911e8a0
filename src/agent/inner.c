#include "agent/inner.h"

#include <string.h>

#include "agent/core.h"
#include "agent/image.h"
#include "agent/patch.h"
#include "agent/program_path.h"
#include "agent/real.h"
#include "agent/sessionfile.h"
#include "agent/signals.h"
#include "agent/symtab.h"

#define FUNCTIONS_MOST 256u /* of one module: no allocator has as many */
#define TOLD_BYTES     4096u

bool inner_is_used;

struct function {
	const struct inner_shape *shape;
	enum inner_family family;
	uintptr_t at;
	size_t bytes; /* 0 = not known */
	struct patch patch;
	struct inner *inner;
};

/* What is being looked at; used while a process starts only. */
static struct {
	struct image image;
	struct symtab symtab;
	bool is_program;
	bool is_relocated; /* indirect functions can be resolved */
	bool is_open;      /* symtab is */
	const char *path;
	bool sanitizer;
	bool variant[INNER_FAMILIES]; /* a copy that the compiler made is not seen */
	uint32_t count;
	struct function function[FUNCTIONS_MOST]; /* last: most processes touch none of it */
} looked;

/* What to tell, with a NUL each: of all "path (function)", of the refused "path (function why)". */
static char found[TOLD_BYTES], refused[TOLD_BYTES];
static size_t found_bytes, refused_bytes;

/* --- telling ---------------------------------------------------------------------------- */

static size_t append(char *told, size_t at, const char *text)
{
	size_t n = strlen(text);

	if (n >= TOLD_BYTES - at)
		return at;
	memcpy(told + at, text, n + 1);
	return at + n;
}

static void note(char *told, size_t *bytes, const char *function, const char *why)
{
	size_t at = *bytes;

	if (strlen(looked.path) + strlen(function) + (why ? strlen(why) : 0) + 8 >= TOLD_BYTES - at)
		return;
	at = append(told, at, looked.path);
	at = append(told, at, " (");
	at = append(told, at, function);
	if (why) {
		at = append(told, at, " ");
		at = append(told, at, why);
	}
	*bytes = append(told, at, ")") + 1;
}

static void tell(struct thread *t, size_t from)
{
	struct mgl_process *p = t->process;

	for (size_t at = from; at < refused_bytes; at += strlen(refused + at) + 1)
		agent_name_loss(t, MGL_LOSS_OWN_MALLOC, refused + at, strlen(refused + at));
	uint64_t ref = record_blob(t, found, found_bytes);

	if (ref)
		atomic_store(&p->inner, ref << 32 | found_bytes);
}

void inner_tell(struct thread *t) { tell(t, 0); }

/* --- finding ---------------------------------------------------------------------------- */

static void add(const struct inner_shape *shape, enum inner_family family,
		const struct image_symbol *symbol)
{
	uintptr_t at = symbol->address;
	size_t bytes = symbol->bytes;

	if (symbol->type == STT_GNU_IFUNC) {
		at = looked.is_relocated ? (uintptr_t)image_function(&looked.image, symbol) : 0;
		bytes = 0;
	}
	if (looked.is_open && bytes > symtab_text_stop(&looked.symtab, at) - at)
		return;
	for (uint32_t i = 0; i < looked.count; i++) {
		if (looked.function[i].at == at)
			return;
	}
	if (looked.count == FUNCTIONS_MOST || !at)
		return;
	looked.function[looked.count++] = (struct function){
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

	if (looked.is_program)
		return false;
	for (const struct link_map *map = image_first(); map && !agent.map; map = map->l_next) {
		if (image_is_agent(map) && !image_open(&agent, map))
			return true;
	}
	return image_symbol(&agent, &n, &symbol);
}

static bool is_exported(const char *name, struct image_symbol *ret)
{
	struct image_name n = image_name(name);

	return image_symbol(&looked.image, &n, ret);
}

/* A few names tell whether the rest need be looked for. */
static bool has_family(enum inner_family family)
{
	static const char *const heads[] = {"malloc", "mallocx", "malloc_aligned",
					    "new",    "nwm",     "rust_alloc"};
	char name[INNER_NAME_BYTES];
	struct image_symbol symbol;

	for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		if (inner_name_of(family, heads[i], name) && is_exported(name, &symbol))
			return true;
	}
	return false;
}

static void find_exported(void)
{
	char name[INNER_NAME_BYTES];
	struct image_symbol symbol;

	for (uint32_t f = 0; f < INNER_FAMILIES; f++) {
		if (!has_family((enum inner_family)f))
			continue;
		for (uint32_t i = 0; i < inner_shape_count; i++) {
			const struct inner_shape *shape = inner_name((enum inner_family)f, i, name);

			if (shape && is_exported(name, &symbol) && !is_reached(name))
				add(shape, (enum inner_family)f, &symbol);
		}
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
			looked.variant[family] = true;
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
	looked.sanitizer |= is_sanitizers(name);
	if (dot)
		see_variant(name, dot);
	if (!shape || (is_reached(name) && is_exported(name, &exported)))
		return;
	add(shape, family, symbol);
}

/* --- choosing --------------------------------------------------------------------------- */

static bool is_in(enum inner_family family, const char *const *names)
{
	for (uint32_t i = 0; i < looked.count; i++) {
		const struct function *f = &looked.function[i];

		for (uint32_t n = 0; f->family == family && names[n]; n++) {
			if (strcmp(f->shape->name, names[n]) == 0)
				return true;
		}
	}
	return false;
}

static bool makes_blocks(enum inner_family family)
{
	for (uint32_t i = 0; i < looked.count; i++) {
		if (looked.function[i].family == family &&
		    looked.function[i].shape->kind < INNER_FREE)
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
		if (image_imports(&looked.image, names[i]))
			return true;
	}
	return false;
}

/* A C library's replacement of one function, as programs have them, is no allocator. */
static bool is_family(enum inner_family family, bool others)
{
	static const char *const plain[] = {"malloc", "mallocx", NULL};

	if (family == INNER_PLAIN)
		return is_in(family, plain);
	if (family == INNER_OPERATORS)
		return makes_blocks(family) && (others || !calls_malloc());
	return makes_blocks(family);
}

/* --- changing --------------------------------------------------------------------------- */

static const char *name_of(const struct function *f, char ret[INNER_NAME_BYTES])
{
	return inner_name_of(f->family, f->shape->name, ret) ? ret : "";
}

/* The first of the family, by whose name people know it. */
static const struct function *first_of(enum inner_family family)
{
	for (uint32_t i = 0; i < looked.count; i++) {
		if (looked.function[i].family == family)
			return &looked.function[i];
	}
	return NULL;
}

static const char *plan(enum inner_family family, const struct function **at, uint32_t *count)
{
	*count = 0;
	for (uint32_t i = 0; i < looked.count; i++) {
		struct function *f = &looked.function[i];
		const char *why = NULL;

		if (f->family == family)
			why = patch_plan(&f->patch, f->at, f->bytes,
					 symtab_text_stop(&looked.symtab, f->at));

		*count += f->family == family;
		*at = f;
		if (why)
			return why;
	}
	return NULL;
}

static const char *prepare(enum inner_family family, const struct function **at, uint32_t count)
{
	struct inner *inner = private_alloc(count * sizeof(*inner));
	uint8_t *place = inner ? patch_room(looked.function[0].at, count) : NULL;

	if (!place)
		return "has no room near it";
	for (uint32_t i = 0; i < looked.count; i++) {
		struct function *f = &looked.function[i];
		const char *why;

		if (f->family != family)
			continue;
		*at = f;
		f->inner = inner++;
		why = patch_place(&f->patch, place, f->inner, hooks_inner_entry);
		if (why)
			return why;
		*f->inner = (struct inner){f->patch.call, *f->shape};
		place += PATCH_PLACE_BYTES;
	}
	return NULL;
}

static const char *apply(enum inner_family family, const struct function **at)
{
	uint32_t i;

	for (i = 0; i < looked.count; i++) {
		*at = &looked.function[i];
		if ((*at)->family == family && !patch_apply(&(*at)->patch))
			break;
	}
	if (i == looked.count)
		return NULL;
	while (i-- > 0) {
		if (looked.function[i].family == family)
			patch_undo(&looked.function[i].patch);
	}
	return "may not be changed";
}

/* A hook of the same function need not pass through this one. */
static void replace_real(enum inner_family family)
{
	for (uint32_t i = 0; i < looked.count; i++) {
		const struct function *f = &looked.function[i];

		if (f->family == family)
			real_replace((void *)f->at, f->inner->call);
	}
}

static bool is_alone(void)
{
	static uint64_t threads;

	if (!threads)
		threads = sessionfile_threads();
	return threads == 1;
}

static const char *change(enum inner_family family, const struct function **at)
{
	uint32_t count;
	const char *why;

	if (looked.sanitizer)
		return "is a sanitizer's";
	if (!looked.is_open)
		return "is in a file that cannot be read";
	if (looked.is_relocated && !is_alone())
		return sessionfile_threads() ? "was in use by threads already" : "needs /proc";
	why = plan(family, at, &count);
	if (!why)
		why = prepare(family, at, count);
	if (!why)
		why = apply(family, at);
	return why;
}

static bool change_family(enum inner_family family)
{
	char name[INNER_NAME_BYTES];
	const struct function *at = first_of(family);
	const char *first = name_of(at, name);
	const char *why = change(family, &at);

	note(found, &found_bytes, first, NULL);
	if (why) {
		note(refused, &refused_bytes, name_of(at, name), why);
		return false;
	}
	replace_real(family);
	inner_is_used = true;
	if (looked.variant[family])
		note(refused, &refused_bytes, first, "has copies that the compiler made");
	return true;
}

/* --- modules ---------------------------------------------------------------------------- */

/* The C and C++ libraries' own, which are reached, and the loader's, which is not the program's. */
static bool is_known(const char *soname)
{
	static const char *const known[] = {
		"ld-linux",    "libc.so.",   "libm.so.",      "libdl.so.",   "librt.so.",
		"libpthread.", "libgcc_s.",  "libstdc++.so.", "libc++.so.",  "libc++abi.so.",
		"libasan.so.", "libtsan.so", "liblsan.so.",   "libhwasan.so"};

	for (uint32_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(soname, known[i], strlen(known[i])) == 0)
			return true;
	}
	return false;
}

static void find(void)
{
	looked.count = 0;
	looked.sanitizer = false;
	memset(looked.variant, 0, sizeof(looked.variant));
	find_exported();
	if (looked.is_open)
		symtab_each(&looked.symtab, see, NULL);
}

static void look_at(const struct link_map *map, const char *path)
{
	bool others = false;

	looked.path = path;
	if (!path || !image_open(&looked.image, map) || is_known(image_soname(&looked.image)))
		return;
	looked.is_open = symtab_open(&looked.symtab, path, map);
	find();
	for (uint32_t f = 0; f < INNER_FAMILIES && looked.count; f++) {
		if (is_family((enum inner_family)f, others))
			others |= change_family((enum inner_family)f);
	}
	if (looked.is_open)
		symtab_close(&looked.symtab);
}

void inner_start(void)
{
	static char program[TOLD_BYTES];
	const struct link_map *first = image_first();
	uint32_t n = 0;
	long bytes = program_path(program, sizeof(program) - 1);

	if (!hooks_inner_entry)
		return;
	program[bytes > 0 ? bytes : 0] = '\0';
	looked.is_relocated = true;
	for (const struct link_map *map = first; map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		looked.is_program = map == first;
		if (!image_is_agent(map))
			look_at(map, looked.is_program ? program : map->l_name);
	}
}

/* --- libraries that are opened later ---------------------------------------------------------- */

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
	size_t told = refused_bytes, known = found_bytes;
	struct signals signals = signals_hold();

	looked.is_program = looked.is_relocated = false;
	for (const struct link_map *map = last_known ? last_known->l_next : NULL; map;
	     map = map->l_next)
		look_at(map, map->l_name);
	if (refused_bytes > told || found_bytes > known)
		tell(t, told);
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

	if (!image_open(&looked.image, map) || !is_exported("_dl_debug_state", &symbol) ||
	    !symtab_open(&looked.symtab, map->l_name, map))
		return;
	uintptr_t stop = symtab_text_stop(&looked.symtab, symbol.address);
	uint8_t *place = stop ? patch_room(symbol.address, 1) : NULL;

	symtab_close(&looked.symtab);
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
		if (image_open(&looked.image, map) &&
		    strncmp(image_soname(&looked.image), "ld-linux", 8) == 0)
			change_loader(map);
	}
	signals_release(&signals);
}
