#include "agent/real.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "agent/image.h"

AGENT_SMALL struct real real;
AGENT_SMALL struct real_facts real_facts;

static _Atomic int resolved;
static const char *agent_path;

static const struct {
	const char *name;
	size_t offset;
} functions[] = {
#define X(name, type, parameters) {#name, offsetof(struct real, name)},
	REAL_FUNCTIONS(X)
#undef X
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

struct definition {
	void *address;
	const struct link_map *map;
};

static const struct link_map *find_agent(void)
{
	const struct link_map *map = image_first();

	for (uint32_t n = 0; map && !image_is_agent(map) && n < IMAGE_MAX_MODULES; n++)
		map = map->l_next;
	return map;
}

/* The first definition from a module on, before another (NULL: to the end). */
static bool find_from(const struct link_map *map, const struct link_map *stop, const char *text,
		      struct definition *ret)
{
	struct image_name name = image_name(text);
	struct image_symbol symbol;
	struct image image;

	for (uint32_t n = 0; map && map != stop && n < IMAGE_MAX_MODULES; map = map->l_next, n++) {
		if (!image_open(&image, map) || !image_symbol(&image, &name, &symbol))
			continue;
		*ret = (struct definition){image_function(&image, &symbol), map};
		if (ret->address)
			return true;
	}
	return false;
}

/* What stands behind the agent's own. */
static bool find(const char *text, struct definition *ret)
{
	const struct link_map *agent = find_agent();

	return agent && find_from(agent->l_next, NULL, text, ret);
}

static bool soname_is(const struct link_map *map, const char *prefix)
{
	struct image image;

	return image_open(&image, map) &&
	       strncmp(image_soname(&image), prefix, strlen(prefix)) == 0;
}

bool real_is_cpp_library(const struct link_map *map)
{
	return soname_is(map, "libstdc++.so.") || soname_is(map, "libc++.so.") ||
	       soname_is(map, "libc++abi.so.");
}

/* --- what stands in for a function nobody defines ------------------------------- */

/* What the program's calls reach: its own, if it has one. */
static void (*first_free)(void *);
static void *(*first_realloc)(void *, size_t);

static void free_only(void *p) { first_free(p); }

static void free_ignoring_size(void *p, size_t bytes)
{
	(void)bytes;
	first_free(p);
}

static void free_ignoring_alignment(void *p, size_t alignment, size_t bytes)
{
	(void)alignment;
	(void)bytes;
	first_free(p);
}

static void *reallocarray_by_realloc(void *p, size_t count, size_t bytes)
{
	size_t total;

	if (__builtin_mul_overflow(count, bytes, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return first_realloc(p, total);
}

static int execveat_by_syscall(int dir, const char *path, char *const argv[], char *const envp[],
			       int flags)
{
	return (int)real.syscall(SYS_execveat, dir, path, argv, envp, flags);
}

static void substitute(void)
{
	struct definition d;
	const struct link_map *agent = find_agent();

	first_free = find_from(image_first(), agent, "free", &d) ? d.address : real.free;
	first_realloc = find_from(image_first(), agent, "realloc", &d) ? d.address : real.realloc;
	if (!real.free_sized)
		real.free_sized = free_ignoring_size;
	if (!real.free_aligned_sized)
		real.free_aligned_sized = free_ignoring_alignment;
	if (!real.cfree)
		real.cfree = free_only;
	if (!real.reallocarray)
		real.reallocarray = reallocarray_by_realloc;
	if (!real.aligned_alloc)
		real.aligned_alloc = real.memalign;
	if (!real.mmap64)
		real.mmap64 = real.mmap;
	if (!real._Fork)
		real._Fork = real.fork;
	if (!real.execveat && real.syscall)
		real.execveat = execveat_by_syscall;
}

/* --- resolving ---------------------------------------------------------------------- */

static const char *path_of(const struct definition *d)
{
	return d->map->l_name ? d->map->l_name : "";
}

static bool is_hooked(const char *name)
{
	struct definition d;

	return find(name, &d) && !soname_is(d.map, "libc.so.6");
}

static void find_facts(void)
{
	struct definition d;

	if (find("malloc", &d)) {
		real_facts.glibc_malloc = soname_is(d.map, "libc.so.6");
		real_facts.leak_sanitizer = soname_is(d.map, "liblsan.so.");
		real_facts.malloc_path = path_of(&d);
	}
	real_facts.library_new = find("_Znwm", &d) && !real_is_cpp_library(d.map);
	real_facts.own_execv = is_hooked("execv");
	real_facts.own_execvp = is_hooked("execvp");
}

static void *read_pointer(size_t i)
{
	void *p;

	memcpy(&p, (const char *)&real + functions[i].offset, sizeof(p));
	return p;
}

void real_replace(void *from, void *to)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		if (read_pointer(i) == from)
			memcpy((char *)&real + functions[i].offset, &to, sizeof(to));
	}
}

/* Takes from one module what no earlier one defined. */
static void take(const struct image *image)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		struct image_symbol symbol;
		struct image_name name;
		void *address;

		if (read_pointer(i))
			continue;
		name = image_name(functions[i].name);
		if (!image_symbol(image, &name, &symbol))
			continue;
		address = image_function(image, &symbol);
		memcpy((char *)&real + functions[i].offset, &address, sizeof(address));
	}
}

bool real_resolve(void)
{
	const struct link_map *agent;
	struct image image;
	uint32_t n = 0;

	if (atomic_load_explicit(&resolved, memory_order_acquire))
		return true;
	agent = find_agent();
	if (!agent)
		return false;
	agent_path = agent->l_name ? agent->l_name : "";
	for (const struct link_map *map = agent->l_next; map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		if (image_open(&image, map))
			take(&image);
	}
	if (!real.malloc || !real.free || !real.calloc || !real.realloc || !real.memalign)
		return false;
	substitute();
	find_facts();
	atomic_store_explicit(&resolved, 1, memory_order_release);
	return true;
}

void *real_late(const char *name)
{
	struct definition d;

	return find(name, &d) ? d.address : NULL;
}

const char *real_agent_path(void) { return agent_path ? agent_path : ""; }
