/*
 * mmap, mmap64, munmap and mremap: counters and a table of what is mapped now.
 *
 * A range leaves the table before the kernel can give it to another thread, and comes
 * back if the call fails. A call made inside another hook (an allocator's own) is not
 * counted: thread_enter() gives none there.
 */
#undef _FILE_OFFSET_BITS /* with 64, mmap is another name for mmap64 */

#include <stdarg.h>
#include <sys/mman.h>

#include "agent/core.h"
#include "agent/hook.h"
#include "agent/mappings.h"
#include "agent/real.h"

#define HUGE_DEFAULT_SHIFT 21

static _Atomic uint32_t used;

/* entries NULL: the ledger has no room for a table. */
static struct mapping_table table_of(struct thread *t)
{
	struct mgl_process *p = t->agent->process;
	uint32_t ref = atomic_load_explicit(&p->mappings, memory_order_acquire);

	if (!ref) {
		uint32_t none = 0;

		if (record_alloc(t, MGL_MAPPINGS * sizeof(struct mgl_mapping), &ref) &&
		    !atomic_compare_exchange_strong(&p->mappings, &none, ref))
			ref = none;
	}
	return (struct mapping_table){record_at(t, ref), &used};
}

/* --- what the ledger is told ------------------------------------------------------- */

static void count_call(struct thread *t, enum mgl_api api, bool done, size_t bytes)
{
	struct mgl_calls *calls = &t->slot->calls[api];

	calls->calls += done;
	calls->failed += !done;
	calls->bytes += done ? bytes : 0;
}

static void enter_range(struct thread *t, uint64_t start, uint64_t bytes)
{
	struct mgl_process *p = t->agent->process;
	struct mapping_table table = table_of(t);
	uint64_t now, peak;

	if (!table.entries || !mappings_add(table, start, bytes)) {
		agent_count_loss(MGL_LOSS_MAPPINGS_FULL, 1);
		return;
	}
	now = atomic_fetch_add(&p->mapped_bytes, bytes) + bytes;
	peak = atomic_load(&p->mapped_peak);
	while (peak < now && !atomic_compare_exchange_weak(&p->mapped_peak, &peak, now))
		;
}

static void take_range(struct thread *t, uint64_t start, uint64_t bytes,
		       struct mappings_removed *removed)
{
	struct mapping_table table = table_of(t);

	*removed = (struct mappings_removed){.count = 0};
	if (!table.entries || bytes == 0 || start + bytes < start)
		return;
	mappings_remove(table, start, bytes, removed);
	atomic_fetch_sub(&t->agent->process->mapped_bytes, removed->bytes);
	if (removed->lost)
		agent_count_loss(MGL_LOSS_MAPPINGS_FULL, removed->lost);
}

static void put_back(struct thread *t, const struct mappings_removed *removed)
{
	for (uint32_t i = 0; i < removed->count; i++)
		enter_range(t, removed->pieces[i].start, removed->pieces[i].bytes);
	if (removed->forgotten)
		agent_count_loss(MGL_LOSS_MAPPINGS_FULL, removed->forgotten);
}

/* --- the calls ------------------------------------------------------------------------ */

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + MGL_PAGE - 1) & ~(uint64_t)(MGL_PAGE - 1);
}

/* The kernel rounds up to the page size asked for. */
static uint64_t mapped_length(size_t bytes, int flags)
{
	unsigned shift = (unsigned)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
	uint64_t page;

	if (!(flags & MAP_HUGETLB))
		return whole_pages(bytes);
	page = UINT64_C(1) << (shift ? shift : HUGE_DEFAULT_SHIFT);
	return (bytes + page - 1) & ~(page - 1);
}

typedef void *map_function(void *, size_t, int, int, int, off_t);

static void *map_recorded(struct thread *t, map_function *call, void *at, size_t bytes, int prot,
			  int flags, int fd, off_t offset)
{
	struct mappings_removed replaced = {.count = 0};
	uint64_t length = mapped_length(bytes, flags);
	void *ret;

	if ((flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE))
		take_range(t, (uintptr_t)at, length, &replaced);
	thread_real_begin(t);
	ret = call(at, bytes, prot, flags, fd, offset);
	thread_real_end(t);
	count_call(t, MGL_API_MMAP, ret != MAP_FAILED, bytes);
	if (ret != MAP_FAILED)
		enter_range(t, (uintptr_t)ret, length);
	else
		put_back(t, &replaced);
	return ret;
}

#define MAP_BODY(function)                                                        \
	struct thread *t = thread_enter(CFA);                                     \
	void *ret;                                                                \
                                                                                  \
	if (!t)                                                                   \
		return real.function(at, bytes, prot, flags, fd, offset);         \
	ret = map_recorded(t, real.function, at, bytes, prot, flags, fd, offset); \
	thread_leave(t);                                                          \
	return ret

AGENT_EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	MAP_BODY(mmap);
}

AGENT_EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	MAP_BODY(mmap64);
}

AGENT_EXPORT int munmap(void *at, size_t bytes)
{
	struct thread *t = thread_enter(CFA);
	struct mappings_removed removed = {.count = 0};
	int ret;

	if (!t)
		return real.munmap(at, bytes);
	if ((uintptr_t)at % MGL_PAGE == 0)
		take_range(t, (uintptr_t)at, whole_pages(bytes), &removed);
	thread_real_begin(t);
	ret = real.munmap(at, bytes);
	thread_real_end(t);
	count_call(t, MGL_API_MUNMAP, ret == 0, bytes);
	if (ret != 0)
		put_back(t, &removed);
	thread_leave(t);
	return ret;
}

static void *remap_recorded(struct thread *t, void *old, size_t old_bytes, size_t new_bytes,
			    int flags, void *at)
{
	struct mappings_removed moved = {.count = 0}, replaced = {.count = 0};
	void *ret;

	if (!(flags & MREMAP_DONTUNMAP))
		take_range(t, (uintptr_t)old, whole_pages(old_bytes), &moved);
	if (flags & MREMAP_FIXED)
		take_range(t, (uintptr_t)at, whole_pages(new_bytes), &replaced);
	thread_real_begin(t);
	ret = real.mremap(old, old_bytes, new_bytes, flags, at);
	thread_real_end(t);
	count_call(t, MGL_API_MREMAP, ret != MAP_FAILED, new_bytes);
	if (ret != MAP_FAILED) {
		enter_range(t, (uintptr_t)ret, whole_pages(new_bytes));
	} else {
		put_back(t, &moved);
		put_back(t, &replaced);
	}
	return ret;
}

/* The fifth argument is there with some flags only; it costs nothing to pass on whatever
 * its register holds. */
AGENT_EXPORT void *mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, ...)
{
	struct thread *t = thread_enter(CFA);
	va_list list;
	void *at, *ret;

	va_start(list, flags);
	at = va_arg(list, void *);
	va_end(list);
	if (!t)
		return real.mremap(old, old_bytes, new_bytes, flags, at);
	ret = remap_recorded(t, old, old_bytes, new_bytes, flags, at);
	thread_leave(t);
	return ret;
}
