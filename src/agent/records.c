/*
 * Record space: pages of the process's RECORDS extents, taken by threads in runs and bumped,
 * small records from below, rows from above.
 */
#include "agent/core.h"
#include "agent/shadow.h"
#include "agent/signals.h"

#define FROZEN_RECORD_BYTES ((size_t)1 << 20)
#define FROZEN_SHADOW_PAGES 256u

/* Pages of the current extent of this kind, or of a new one; NULL = inert. */
static uint8_t *pages_take(struct agent *a, uint32_t pages, uint32_t *ref)
{
	struct extent *e = atomic_load_explicit(&a->records, memory_order_acquire);

	for (;;) {
		uint32_t at = atomic_fetch_add(&e->next_page, pages);

		if (at <= e->pages && pages <= e->pages - at) {
			*ref = e->first_ref + at * (MGL_PAGE / MGL_REF_BYTES);
			return e->base + (size_t)at * MGL_PAGE;
		}
		if (at > e->pages) /* keep the counter from ever wrapping */
			atomic_store(&e->next_page, e->pages);
		uint32_t units = atomic_load(&a->records_size);
		struct extent *next = session_take_extent(a, MGL_EXTENT_RECORDS, units);

		if (!next)
			return NULL;
		if (units < MGL_MAX_EXTENT_UNITS)
			atomic_store(&a->records_size, units * 2);
		/* Who loses the race uses its own extent this once and forgets the rest of
		 * it: a hole in a sparse file. */
		struct extent *expected = e;

		e = next;
		atomic_compare_exchange_strong(&a->records, &expected, next);
	}
}

void *record_page(struct agent *a, uint32_t *ref)
{
	struct signals signals = signals_hold();
	uint8_t *at = a->inert ? NULL : pages_take(a, 1, ref);

	if (at && !session_populate(at, MGL_PAGE))
		at = NULL;
	signals_release(&signals);
	return at;
}

static void records_set(struct thread *t, uint8_t *at, size_t bytes, uint32_t ref)
{
	t->records = at;
	t->records_stop = at + bytes;
	t->records_bias = ref - (uint32_t)((uintptr_t)at / MGL_REF_BYTES);
}

/* What the process's header leaves of its page is enough for many a process. */
static bool header_take(struct thread *t, size_t need)
{
	struct mgl_process *header = t->agent->process;
	size_t place = MGL_PROCESS_OFFSET + sizeof(*header);

	if (MGL_PAGE - place < need || atomic_exchange(&t->agent->header_taken, true))
		return false;
	records_set(t, (uint8_t *)(header + 1), MGL_PAGE - place,
		    (uint32_t)(place / MGL_REF_BYTES));
	return true;
}

static bool records_take(struct thread *t, size_t need)
{
	uint32_t ref;
	size_t bytes = t->records_next ? t->records_next : 2 * MGL_PAGE;

	if (t->agent->inert)
		return false;
	if (header_take(t, need))
		return true;
	if (bytes < need)
		bytes = (need + MGL_PAGE - 1) & ~(size_t)(MGL_PAGE - 1);
	uint8_t *at = pages_take(t->agent, (uint32_t)(bytes / MGL_PAGE), &ref);

	if (!at || !session_populate(at, bytes))
		return false;
	records_set(t, at, bytes, ref);
	if (bytes < 65536)
		t->records_next = (uint32_t)bytes * 2;
	return true;
}

static AGENT_COLD bool records_refill(struct thread *t, size_t need)
{
	struct signals signals = signals_hold();
	bool taken = records_take(t, need);

	signals_release(&signals);
	return taken;
}

/* One store moves the bump pointer, so a hook that is left at any moment costs a record. */
static inline uint32_t record_ref(const struct thread *t, const void *at)
{
	return (uint32_t)((uintptr_t)at / MGL_REF_BYTES) + t->records_bias;
}

void *record_alloc(struct thread *t, size_t bytes, uint32_t *ref)
{
	bytes = (bytes + MGL_REF_BYTES - 1) & ~(size_t)(MGL_REF_BYTES - 1);
	if (bytes > MGL_UNIT_BYTES / 4)
		return NULL;
	if (AGENT_UNLIKELY((size_t)(t->records_stop - t->records) < bytes) &&
	    !records_refill(t, bytes))
		return NULL;
	void *at = t->records;

	*ref = record_ref(t, at);
	t->records += bytes;
	return at;
}

void *record_alloc_row(struct thread *t, uint32_t *ref)
{
	size_t bytes = sizeof(struct mgl_row);

	if (AGENT_UNLIKELY((size_t)(t->records_stop - t->records) < bytes) &&
	    !records_refill(t, bytes))
		return NULL;
	t->records_stop -= bytes;
	*ref = record_ref(t, t->records_stop);
	return t->records_stop;
}

uint32_t record_blob(struct thread *t, const void *data, size_t bytes)
{
	uint32_t ref;
	void *at = bytes ? record_alloc(t, bytes, &ref) : NULL;

	if (!at)
		return 0;
	__builtin_memcpy(at, data, bytes);
	return ref;
}

void *agent_record_at(const struct agent *a, uint32_t ref)
{
	uint32_t unit = ref >> MGL_REF_UNIT_SHIFT;
	uint8_t *base = unit < MGL_MAX_RECORD_UNITS ? a->units[unit] : NULL;

	if (AGENT_UNLIKELY(!base || ref == 0))
		return NULL;
	return base + (size_t)(ref & ((1u << MGL_REF_UNIT_SHIFT) - 1)) * MGL_REF_BYTES;
}

void *record_at(const struct thread *t, uint32_t ref) { return agent_record_at(t->agent, ref); }

void session_prepare_frozen(struct thread *t)
{
	if (records_refill(t, FROZEN_RECORD_BYTES / 4))
		shadow_prepare(t, FROZEN_SHADOW_PAGES);
}
