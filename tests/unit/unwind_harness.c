/*
 * Stand-ins for the rest of the agent: see unwind_harness.h. A trie of its own for every
 * thread, so that nothing here needs a lock.
 */
#include "unwind_harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/core.h"

#define RECORD_BYTES ((size_t)8 << 20)
#define TRIE_NODES   65536u
#define TRIE_SLOTS   (2 * TRIE_NODES)

static uint8_t records[RECORD_BYTES];
static _Atomic size_t records_used = 64;
static struct mgl_process process;
static struct mgl_control control;
static _Atomic uint64_t cut_stacks;

struct mgl_process *agent_process = &process;
bool agent_frozen, agent_starting;

static _Thread_local struct mgl_slot slot;
static _Thread_local struct thread self;
static _Thread_local struct mgl_node *nodes;
static _Thread_local uint32_t node_count, *slots;
static _Thread_local struct harness_effort effort;
static _Thread_local bool free_trie;

static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *private_alloc(size_t bytes) { return pages(bytes); }
void *private_pages(size_t bytes) { return pages(bytes); }
void *private_pages_kept(size_t bytes) { return pages(bytes); }
void private_pages_free(void *p, size_t bytes) { munmap(p, bytes); }

void *record_alloc(struct thread *t, size_t bytes, uint32_t *ref)
{
	size_t at = atomic_fetch_add(&records_used, (bytes + 15) & ~(size_t)15);

	(void)t;
	if (at + bytes > RECORD_BYTES)
		return NULL;
	*ref = (uint32_t)(at / MGL_REF_BYTES);
	return records + at;
}

uint32_t record_blob(struct thread *t, const void *data, size_t bytes)
{
	uint32_t ref;
	void *p = bytes ? record_alloc(t, bytes, &ref) : NULL;

	if (!p)
		return 0;
	memcpy(p, data, bytes);
	return ref;
}

void agent_count_loss(enum mgl_loss kind, uint64_t count)
{
	if (kind == MGL_LOSS_CUT_STACKS)
		atomic_fetch_add(&cut_stacks, count);
}

uint64_t agent_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const struct mgl_control *session_control(void) { return &control; }

uint32_t __real_unwind_saved_enter(struct thread *t, struct unwind_state *u);
uint32_t __wrap_unwind_saved_enter(struct thread *t, struct unwind_state *u);

uint32_t __wrap_unwind_saved_enter(struct thread *t, struct unwind_state *u)
{
	effort.whole++;
	return __real_unwind_saved_enter(t, u);
}

AGENT_EXPORT struct harness_effort harness_effort(void) { return effort; }

uint32_t trie_child(struct thread *t, uint32_t parent, uint64_t pc, uint32_t where)
{
	uint64_t hash = (pc ^ (uint64_t)parent << 40 ^ where) * UINT64_C(0x9e3779b97f4a7c15);

	(void)t;
	effort.entered++;
	if (free_trie)
		return parent + 1;
	for (uint64_t at = hash >> 40;; at++) {
		uint32_t *found = &slots[at % TRIE_SLOTS];
		const struct mgl_node *node = &nodes[*found];

		if (*found && node->pc == pc && node->parent == parent && node->where == where)
			return *found;
		if (*found)
			continue;
		if (node_count + 1 >= TRIE_NODES)
			return 0;
		*found = ++node_count;
		nodes[node_count] = (struct mgl_node){.pc = pc, .parent = parent, .where = where};
		return node_count;
	}
}

void trie_ahead(const struct thread *t, uint32_t parent)
{
	(void)t;
	(void)parent;
}

static void thread_ready(void)
{
	if (nodes)
		return;
	nodes = pages(TRIE_NODES * sizeof(*nodes));
	slots = pages(TRIE_SLOTS * sizeof(*slots));
	slot.tid = gettid();
	self.slot = &slot;
	process.pid = getpid();
}

static void unwind(const struct unwind_regs *regs, struct harness_stack *ret)
{
	thread_ready();
	if (node_count > TRIE_NODES / 2) {
		node_count = 0;
		memset(slots, 0, TRIE_SLOTS * sizeof(*slots));
		unwind_forget(&self);
	}
	uint32_t node = unwind_stack(&self, regs)->node;

	ret->count = 0;
	for (; node; node = nodes[node].parent)
		ret->frame[ret->count++] = nodes[node];
}

static inline uint64_t frame_pointer(void)
{
	uint64_t bp;

	__asm__ volatile("movq %%rbp, %0" : "=r"(bp));
	return bp;
}

#define CALLER_REGS                                                                   \
	((struct unwind_regs){.pc = (uint64_t)(uintptr_t)__builtin_return_address(0), \
			      .sp = (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),       \
			      .bp = frame_pointer()})

AGENT_EXPORT __attribute__((noinline)) void harness_hook(struct harness_stack *ret)
{
	struct unwind_regs regs = CALLER_REGS;

	unwind(&regs, ret);
}

AGENT_EXPORT void harness_unwind(const struct unwind_regs *regs, struct harness_stack *ret)
{
	unwind(regs, ret);
}

AGENT_EXPORT __attribute__((noinline)) void harness_during(void (*during)(void))
{
	during();
	__asm__ volatile("");
}

AGENT_EXPORT __attribute__((noinline)) uint32_t harness_repeat(uint32_t n)
{
	struct unwind_regs regs = CALLER_REGS;
	uint32_t node = 0;

	thread_ready();
	free_trie = true;
	while (n-- > 0)
		node = unwind_stack(&self, &regs)->node;
	free_trie = false;
	unwind_forget(&self);
	return node;
}

AGENT_EXPORT void harness_unloaded(void) { module_unloaded(&self); }

AGENT_EXPORT const struct mgl_module *harness_module(uint32_t index)
{
	uint32_t ref = atomic_load(&process.modules);

	while (ref) {
		const struct mgl_module *m = (const void *)(records + (size_t)ref * MGL_REF_BYTES);

		if (m->index == (index & MGL_NODE_MODULE_MASK))
			return m;
		ref = m->next;
	}
	return NULL;
}

AGENT_EXPORT const char *harness_module_path(const struct mgl_module *module)
{
	static _Thread_local char path[4097];

	if (module->path_bytes >= sizeof(path))
		return "";
	memcpy(path, records + (size_t)module->path * MGL_REF_BYTES, module->path_bytes);
	path[module->path_bytes] = '\0';
	return path;
}

AGENT_EXPORT uint64_t harness_cut_stacks(void) { return atomic_load(&cut_stacks); }
AGENT_EXPORT uint32_t harness_generation(void) { return atomic_load(&process.generation); }
AGENT_EXPORT void harness_depth(uint32_t frames)
{
	atomic_store(&control.max_depth, frames);
	self.unwind = NULL;
}
AGENT_EXPORT void harness_freeze(bool frozen) { agent_frozen = frozen; }
AGENT_EXPORT void harness_reset(void)
{
	module_reset();
	atomic_store(&process.modules, 0);
	self.unwind = NULL;
	module_record_all(&self);
}
