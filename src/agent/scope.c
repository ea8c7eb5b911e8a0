#include "agent/scope.h"

#include <string.h>

#include "agent/image.h"
#include "agent/module.h"

/* Modules opened together that are searched; the rest is reached in list order. */
#define SCOPE_MAX  32u
#define ANCESTRY   16
#define NEEDED_MAX 256u

static bool defines(const struct link_map *map, const struct image_name *name,
		    struct scope_definition *ret)
{
	struct image image;
	struct image_symbol symbol;

	if (image_is_agent(map) || !image_open(&image, map) || !image_symbol(&image, name, &symbol))
		return false;
	*ret = (struct scope_definition){image_function(&image, &symbol), map};
	return ret->function != NULL;
}

/* Whether a module is the one a DT_NEEDED means. */
static bool answers_to(const struct link_map *map, const char *needed)
{
	const char *path = map->l_name ? map->l_name : "";
	const char *slash = strrchr(path, '/');
	struct image image;

	return strcmp(path, needed) == 0 || (slash && strcmp(slash + 1, needed) == 0) ||
	       (image_open(&image, map) && strcmp(image_soname(&image), needed) == 0);
}

static const struct link_map *find_module(const char *needed)
{
	uint32_t n = 0;

	for (const struct link_map *map = image_first(); map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		if (answers_to(map, needed))
			return map;
	}
	return NULL;
}

static bool needs(const struct link_map *map, const struct link_map *other)
{
	struct image image;
	uint32_t n = 0;

	if (!image_open(&image, map))
		return false;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL && n < NEEDED_MAX; d++, n++) {
		if (d->d_tag == DT_NEEDED && answers_to(other, image_string(&image, d->d_un.d_val)))
			return true;
	}
	return false;
}

/* The first module before this one that needs it. */
static const struct link_map *find_opener(const struct link_map *map)
{
	uint32_t n = 0;

	for (const struct link_map *m = image_first(); m && m != map && n < IMAGE_MAX_MODULES;
	     m = m->l_next, n++) {
		if (needs(m, map))
			return m;
	}
	return NULL;
}

static const struct link_map *find_root(const struct link_map *map)
{
	for (int n = 0; n < ANCESTRY; n++) {
		const struct link_map *opener = find_opener(map);

		if (!opener)
			break;
		map = opener;
	}
	return map;
}

struct queue {
	const struct link_map *maps[SCOPE_MAX];
	uint32_t count;
};

static void enqueue(struct queue *q, const struct link_map *map)
{
	for (uint32_t i = 0; i < q->count; i++) {
		if (q->maps[i] == map)
			return;
	}
	if (map && q->count < SCOPE_MAX)
		q->maps[q->count++] = map;
}

static void enqueue_needed(struct queue *q, const struct link_map *map)
{
	struct image image;
	uint32_t n = 0;

	if (!image_open(&image, map))
		return;
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL && n < NEEDED_MAX; d++, n++) {
		if (d->d_tag == DT_NEEDED)
			enqueue(q, find_module(image_string(&image, d->d_un.d_val)));
	}
}

bool scope_find(const char *text, uintptr_t pc, struct scope_definition *ret)
{
	struct image_name name = image_name(text);
	struct object object;
	const struct link_map *caller =
		object_find(pc, &object) ? (const struct link_map *)object.map : NULL;
	struct queue q = {.count = 0};
	uint32_t n = 0;

	if (caller)
		enqueue(&q, find_root(caller));
	for (uint32_t i = 0; i < q.count; i++) {
		if (defines(q.maps[i], &name, ret))
			return true;
		enqueue_needed(&q, q.maps[i]);
	}
	for (const struct link_map *map = image_first(); map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		if (defines(map, &name, ret))
			return true;
	}
	return false;
}
