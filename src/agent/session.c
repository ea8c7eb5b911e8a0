/*
 * The session file as the agent sees it: opened once by path, its head mapped, the
 * descriptor closed. Everything later is mapped by mremap(page, 0, bytes), which makes
 * another mapping of a shared file from a page of it (mremap(2), "old_size is zero").
 * The new mapping starts at the page's own file offset, so a far extent is reached by
 * hops, each of which leaves a page behind as the next seed.
 *
 * No store reaches a page that MADV_POPULATE_WRITE has not accepted: a full file system
 * is then an error code here and not a SIGBUS in the target.
 */
#include "agent/core.h"
#include "agent/sessionfile.h"
#include "agent/shadow.h"
#include "agent/signals.h"

#define HOP_BYTES           (UINT64_C(64) << 20)
#define MAPPED_MAX          4096u
#define FROZEN_RECORD_BYTES ((size_t)1 << 20)
#define FROZEN_SHADOW_PAGES 256u

bool agent_frozen;

static struct mgl_session *head;
static uint64_t file_bytes;

/* The seed nearest to the end: page address >> 12 | file page << 35. Seeds are never
 * unmapped, so whichever one a thread has loaded stays good. */
static _Atomic uint64_t seed;

/* What a child of fork must cover. */
static struct {
	void *base;
	size_t bytes;
} mapped[MAPPED_MAX];
static _Atomic uint32_t mapped_count;

struct mgl_session *session_head(void) { return head; }

const struct mgl_control *session_control(void)
{
	return (const struct mgl_control *)((const char *)head + MGL_CONTROL_OFFSET);
}

static uint64_t seed_pack(const void *page, uint64_t offset)
{
	return (uint64_t)(uintptr_t)page >> 12 | (offset >> 12) << 35;
}

static void *seed_page(uint64_t s)
{
	return (void *)(uintptr_t)((s & ((UINT64_C(1) << 35) - 1)) << 12);
}

static uint64_t seed_offset(uint64_t s) { return s >> 35 << 12; }

bool session_join(void)
{
	if (head)
		return true;
	head = sessionfile_open(&file_bytes);
	if (!head)
		return false;
	atomic_store(&seed, seed_pack((char *)head + MGL_SEED_OFFSET, MGL_SEED_OFFSET));
	return true;
}

static bool populate(void *at, size_t bytes)
{
	long err = -1;

	for (int try = 0; try < 16; try++) {
		err = sys_madvise(at, bytes, MADV_POPULATE_WRITE);
		if (err != -4 /* EINTR */ && err != -11 /* EAGAIN */)
			break;
	}
	return err == 0;
}

bool session_populate(void *at, size_t bytes)
{
	uint64_t limit = LEDGER_GET(session_control()->max_bytes);
	uint64_t had =
		atomic_fetch_add_explicit(&head->populated_bytes, bytes, memory_order_relaxed);

	if (agent_frozen) {
		agent_go_inert(MGL_INERT_SECCOMP);
		return false;
	}
	if (limit && had + bytes > limit) {
		agent_go_inert(MGL_INERT_LEDGER_LIMIT);
		return false;
	}
	if (!populate(at, bytes)) {
		agent_go_inert(MGL_INERT_FILE_FULL);
		return false;
	}
	return true;
}

/* A mapping of [offset, offset + bytes) of the session file; NULL = refused. */
static uint8_t *map_far(uint64_t offset, size_t bytes)
{
	uint64_t from = atomic_load(&seed);
	uint64_t hop = HOP_BYTES;

	if (seed_offset(from) > offset) /* another thread has hopped past it */
		from = seed_pack((char *)head + MGL_SEED_OFFSET, MGL_SEED_OFFSET);
	while (offset + bytes - seed_offset(from) >
	       HOP_BYTES + MGL_MAX_EXTENT_UNITS * MGL_UNIT_BYTES) {
		char *window = sys_mremap(seed_page(from), 0, hop, MREMAP_MAYMOVE);

		if (sys_failed(window)) {
			hop /= 2;
			if (hop < MGL_UNIT_BYTES)
				return NULL;
			continue;
		}
		sys_munmap(window, hop - MGL_PAGE);
		from = seed_pack(window + hop - MGL_PAGE, seed_offset(from) + hop - MGL_PAGE);
		atomic_store(&seed, from);
	}
	size_t lead = offset - seed_offset(from);
	uint8_t *window = sys_mremap(seed_page(from), 0, lead + bytes, MREMAP_MAYMOVE);

	if (sys_failed(window))
		return NULL;
	if (lead)
		sys_munmap(window, lead);
	return window + lead;
}

/* Remembers a mapping for a child of fork. false: too many. */
static bool mapped_add(void *base, size_t bytes)
{
	uint32_t n = atomic_fetch_add(&mapped_count, 1);

	if (n >= MAPPED_MAX)
		return false;
	mapped[n].bytes = bytes;
	mapped[n].base = base;
	return true;
}

/* Takes and maps units; NULL = inert now. */
static uint8_t *units_take(uint32_t units)
{
	uint8_t *base = units == 1 ? sessionfile_take_unit() : NULL;

	if (base && mapped_add(base, MGL_UNIT_BYTES))
		return base;
	uint64_t unit = atomic_fetch_add(&head->next_unit, units);
	uint64_t last = file_bytes >> MGL_UNIT_SHIFT;

	if (unit == 0 || unit >= last || units > last - unit) {
		agent_go_inert(MGL_INERT_FILE_FULL);
		return NULL;
	}
	size_t bytes = units * MGL_UNIT_BYTES;

	base = agent_frozen ? NULL : map_far(unit << MGL_UNIT_SHIFT, bytes);
	if (!base || !mapped_add(base, bytes)) {
		agent_go_inert(agent_frozen ? MGL_INERT_SECCOMP : MGL_INERT_NO_MEMORY);
		return NULL;
	}
	return base;
}

struct extent *session_take_extent(struct agent *a, enum mgl_extent_kind kind, uint32_t units)
{
	uint32_t first_unit = 0;
	struct extent *e = private_alloc(sizeof(*e));

	if (!e) {
		agent_go_inert(MGL_INERT_NO_MEMORY);
		return NULL;
	}
	if (kind == MGL_EXTENT_RECORDS) {
		first_unit = atomic_fetch_add(&a->record_units, units);
		if (first_unit >= MGL_MAX_RECORD_UNITS ||
		    units > MGL_MAX_RECORD_UNITS - first_unit) {
			agent_go_inert(MGL_INERT_FILE_FULL);
			return NULL;
		}
	}
	uint32_t head_pages = kind == MGL_EXTENT_SHADOW ? 1 + units : 1;
	uint8_t *base = units_take(units);

	if (!base || !session_populate(base, head_pages * MGL_PAGE))
		return NULL;
	for (uint32_t i = 0; kind == MGL_EXTENT_RECORDS && i < units; i++)
		a->units[first_unit + i] = base + i * MGL_UNIT_BYTES;
	e->base = base;
	e->pages = units * MGL_PAGES_PER_UNIT;
	e->first_ref = first_unit << MGL_REF_UNIT_SHIFT;
	e->next_page = head_pages;

	struct mgl_extent *header = (struct mgl_extent *)base;

	header->process = a->serial;
	header->kind = kind;
	header->units = units;
	header->first_unit = first_unit;
	header->granule_shift = kind == MGL_EXTENT_SHADOW ? a->granule_shift : 0;
	atomic_thread_fence(memory_order_release);
	header->magic = MGL_EXTENT_MAGIC;
	return e;
}

bool session_leave_parent(void)
{
	uint32_t n = atomic_load(&mapped_count);
	bool all = true;

	sessionfile_leave_units();
	if (n > MAPPED_MAX)
		n = MAPPED_MAX;
	for (uint32_t i = 0; i < n; i++) {
		if (!mapped[i].base)
			continue;
		void *p = sys_mmap(mapped[i].base, mapped[i].bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

		all &= !sys_failed(p);
	}
	if (all)
		atomic_store(&mapped_count, 0);
	return all;
}

/* --- record space -------------------------------------------------------------- */

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

static bool records_take(struct thread *t, size_t need)
{
	uint32_t ref;
	size_t bytes = t->records_next ? t->records_next : 2 * MGL_PAGE;

	if (t->agent->inert)
		return false;
	if (bytes < need)
		bytes = (need + MGL_PAGE - 1) & ~(size_t)(MGL_PAGE - 1);
	uint8_t *at = pages_take(t->agent, (uint32_t)(bytes / MGL_PAGE), &ref);

	if (!at || !session_populate(at, bytes))
		return false;
	t->records = at;
	t->records_stop = at + bytes;
	t->records_bias = ref - (uint32_t)((uintptr_t)at / MGL_REF_BYTES);
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
