/*
 * Module records: which ELF files were mapped where, and when. See module.h.
 *
 * A module is entered in the private list first, by a compare-and-swap that gives it its
 * index; who loses looks again, so nothing is entered twice. Only the winner's record
 * joins the ledger's list.
 */
#include "agent/module.h"

#include <string.h>

#include "agent/rules.h"
#include "agent/signals.h"

#define PATH_LIMIT 4096u

static _Atomic(struct module *) modules;

/* The object of a module, before it has an index. */
struct candidate {
	struct object object;
	struct object_image image;
	uint64_t name_hash;
};

static uint64_t name_hash(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (uint32_t i = 0; i < PATH_LIMIT && name[i]; i++)
		h = (h ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
	return h;
}

static bool same_place(const struct module *m, const struct object *o)
{
	return m->bias == o->bias && m->dynamic == o->dynamic;
}

bool module_is_text(const struct module *m, uint64_t address, uint64_t bytes)
{
	for (uint32_t i = 0; i < MODULE_TEXTS; i++) {
		if (address >= m->text[i].start && address < m->text[i].stop)
			return m->text[i].stop - address >= bytes;
	}
	return false;
}

/* true for one caller only. */
static bool module_drop(struct module *m, uintptr_t map)
{
	if (!atomic_compare_exchange_strong(&m->map, &map, 0))
		return false;
	LEDGER_SET(m->record->unloaded_ns, agent_now());
	return true;
}

static void generation_end(void)
{
	rules_flush();
	atomic_fetch_add(&agent_process->generation, 1);
}

/* The live entry of an object. An entry that stands in its place is of a library that
 * was unloaded without our seeing it. */
static const struct module *module_match(const struct object *o)
{
	struct module *m = atomic_load_explicit(&modules, memory_order_acquire);

	for (; m; m = m->next) {
		uintptr_t map = atomic_load_explicit(&m->map, memory_order_acquire);

		if (map == 0 || o->stop <= m->start || o->start >= m->stop)
			continue;
		if (map == o->map && same_place(m, o))
			return m;
		if (module_drop(m, map))
			generation_end();
	}
	return NULL;
}

/* The same file back at the same place keeps its index, so that a program that loads and
 * unloads a plugin for ever has a bounded number of modules and stacks. */
static const struct module *module_revive(const struct candidate *c)
{
	struct module *m = atomic_load_explicit(&modules, memory_order_acquire);
	const struct object_image *image = &c->image;

	for (; image->build_id_bytes >= 8 && m; m = m->next) {
		uintptr_t unloaded = 0;

		if (!same_place(m, &c->object) || m->stop != image->stop ||
		    m->name_hash != c->name_hash || m->build_id_bytes != image->build_id_bytes ||
		    memcmp(m->build_id, image->build_id, image->build_id_bytes) != 0 ||
		    !atomic_compare_exchange_strong(&m->map, &unloaded, c->object.map))
			continue;
		LEDGER_SET(m->record->unloaded_ns, 0);
		return m;
	}
	return NULL;
}

static struct module *module_make(struct thread *t, const struct candidate *c, uint32_t *ref)
{
	const struct object *o = &c->object;
	struct module *m = private_alloc(sizeof(*m));
	struct mgl_module *r = m ? record_alloc(t, sizeof(*r), ref) : NULL;

	if (!r)
		return NULL;
	m->start = r->start = c->image.start;
	m->stop = r->stop = c->image.stop;
	m->bias = r->bias = o->bias;
	m->dynamic = o->dynamic;
	m->cfi = c->image.cfi;
	memcpy(m->text, c->image.text, sizeof(m->text));
	m->name_hash = c->name_hash;
	m->build_id_bytes = r->build_id_bytes = c->image.build_id_bytes;
	memcpy(m->build_id, c->image.build_id, sizeof(m->build_id));
	memcpy(r->build_id, c->image.build_id, sizeof(r->build_id));
	m->record = r;
	atomic_store_explicit(&m->map, o->map, memory_order_relaxed);
	r->loaded_ns = agent_now();
	if (object_is_program(o))
		r->flags |= MGL_MODULE_PROGRAM;
	if (object_is_vdso(o))
		r->flags |= MGL_MODULE_VDSO;
	if (object_is_agent(o))
		r->flags |= MGL_MODULE_AGENT;
	r->path_bytes = (uint32_t)strnlen(o->name, PATH_LIMIT);
	r->path = record_blob(t, o->name, r->path_bytes);
	if (!r->path)
		r->path_bytes = 0;
	return m;
}

/* Makes the record visible in the ledger. */
static void record_link(struct mgl_module *r, uint32_t ref)
{
	struct mgl_process *process = agent_process;
	uint32_t next = atomic_load(&process->modules);

	do
		r->next = next;
	while (!atomic_compare_exchange_weak(&process->modules, &next, ref));
	atomic_fetch_add(&process->module_count, 1);
}

/* Into the private list and the ledger's, unless somebody else's is there already. */
static const struct module *module_publish(struct module *m, const struct object *o, uint32_t ref)
{
	for (;;) {
		struct module *head = atomic_load_explicit(&modules, memory_order_acquire);
		const struct module *known = module_match(o);

		if (known)
			return known;
		m->next = head;
		m->index = head ? head->index + 1 : 1;
		if (m->index > MGL_NODE_MODULE_MASK)
			return NULL;
		m->where = m->index | (m->record->flags & MGL_MODULE_AGENT ? RULE_HIDDEN : 0);
		m->record->index = m->index;
		if (atomic_compare_exchange_strong(&modules, &head, m))
			break;
	}
	record_link(m->record, ref);
	return m;
}

/* A module in the private list alone would have no name in the ledger. */
static __attribute__((noinline)) const struct module *
module_publish_held(struct module *m, const struct object *o, uint32_t ref)
{
	struct signals signals = signals_hold();
	const struct module *published = module_publish(m, o, ref);

	signals_release(&signals);
	return published;
}

static AGENT_COLD const struct module *module_enter(struct thread *t, struct candidate *c)
{
	const struct module *known;
	struct module *m;
	uint32_t ref;

	if (!object_image(&c->object, &c->image))
		return NULL;
	c->name_hash = name_hash(c->object.name);
	rules_flush_unknown();
	known = module_revive(c);
	if (known)
		return known;
	m = module_make(t, c, &ref);
	return m ? module_publish_held(m, &c->object, ref) : NULL;
}

/* Where asking the dynamic linker is slow, what is known is taken for true: unloading is
 * seen by module_unloaded(). */
static const struct module *module_known(uint64_t address)
{
	const struct module *m = atomic_load_explicit(&modules, memory_order_acquire);

	for (; m; m = m->next) {
		if (address - m->start < m->stop - m->start &&
		    atomic_load_explicit(&m->map, memory_order_relaxed) != 0)
			return m;
	}
	return NULL;
}

const struct module *module_find(struct thread *t, uint64_t address)
{
	struct candidate c;
	const struct module *m = object_find_is_exact() ? NULL : module_known(address);

	if (m)
		return m;
	if (!object_find(address, &c.object))
		return NULL;
	m = module_match(&c.object);
	return m ? m : module_enter(t, &c);
}

uint32_t module_of(struct thread *t, uint64_t pc)
{
	const struct module *m = module_find(t, pc);

	return m ? m->index : 0;
}

void module_record_all(struct thread *t)
{
	struct object o;
	uintptr_t cursor = 0;

	while (object_next(&cursor, &o))
		module_find(t, o.start);
}

/* --- unloading -------------------------------------------------------------------------- */

static bool is_loaded(const struct module *m, uintptr_t map)
{
	struct object o;
	uintptr_t cursor = 0;

	if (object_find_is_exact())
		return object_find(m->start, &o) && o.map == map && same_place(m, &o);
	while (object_next(&cursor, &o)) {
		if (o.map == map && same_place(m, &o))
			return true;
	}
	return false;
}

void module_unloaded(struct thread *t)
{
	struct module *m = atomic_load_explicit(&modules, memory_order_acquire);
	bool any = false;

	(void)t;
	for (; m; m = m->next) {
		uintptr_t map = atomic_load_explicit(&m->map, memory_order_acquire);

		if (map != 0 && !is_loaded(m, map))
			any |= module_drop(m, map);
	}
	if (any)
		generation_end();
}

void module_reset(void)
{
	atomic_store(&modules, NULL);
	rules_reset();
}
