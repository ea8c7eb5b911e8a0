#include "agent/scratch.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/core.h"
#include "agent/syscall.h"

#define ENTRIES       16
#define RESERVE_BYTES 32768u

/* What the first entry has until it needs more: there even where no call may be made. */
static _Alignas(16) char reserve[RESERVE_BYTES];

/* memory, bytes and pid belong to the owner. */
static AGENT_SMALL struct {
	_Atomic uintptr_t owner; /* thread pointer, 0 = free */
	int32_t pid;             /* of the process it is in: not always this one */
	void *memory;
	size_t bytes;
} entries[ENTRIES];

static void *map(size_t bytes)
{
	void *p;

	if (agent_frozen)
		return NULL;
	p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return sys_failed(p) ? NULL : p;
}

/* One a vfork child of this thread took and left in its exec, or a parent before a fork. */
static int find_left(uintptr_t me, int32_t pid)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (atomic_load_explicit(&entries[i].owner, memory_order_acquire) == me &&
		    entries[i].pid != pid)
			return i;
	}
	return -1;
}

static int find_free(uintptr_t me)
{
	for (int i = 0; i < ENTRIES; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&entries[i].owner, &none, me))
			return i;
	}
	return -1;
}

static bool grow(int i, size_t bytes)
{
	void *p;

	if (i == 0 && !entries[i].memory) {
		entries[i].memory = reserve;
		entries[i].bytes = RESERVE_BYTES;
	}
	if (entries[i].bytes >= bytes)
		return true;
	p = map(bytes);
	if (!p)
		return false;
	if (entries[i].memory && entries[i].memory != reserve)
		sys_munmap(entries[i].memory, entries[i].bytes);
	entries[i].memory = p;
	entries[i].bytes = bytes;
	return true;
}

struct scratch scratch_take(size_t bytes)
{
	uintptr_t me = (uintptr_t)__builtin_thread_pointer();
	int32_t pid = agent_frozen ? 0 : sys_getpid();
	int i = find_left(me, pid);
	void *p;

	bytes = (bytes + 4095) & ~(size_t)4095;
	if (i < 0)
		i = find_free(me);
	if (i < 0) {
		p = map(bytes);
		return p ? (struct scratch){p, bytes, -1} : SCRATCH_NONE;
	}
	entries[i].pid = pid;
	if (!grow(i, bytes)) {
		atomic_store_explicit(&entries[i].owner, 0, memory_order_release);
		return SCRATCH_NONE;
	}
	return (struct scratch){entries[i].memory, entries[i].bytes, i};
}

void scratch_give(struct scratch *s)
{
	if (s->entry >= 0)
		atomic_store_explicit(&entries[s->entry].owner, 0, memory_order_release);
	else if (s->memory)
		sys_munmap(s->memory, s->bytes);
	*s = SCRATCH_NONE;
}
