/*
 * The session file as the agent sees it: opened once by path, its head mapped, the
 * descriptor closed. Everything later is mapped by mremap(page, 0, bytes), which makes
 * another mapping of a shared file from a page of it (mremap(2), "old_size is zero").
 * The new mapping starts at the page's own file offset: what lies before the wanted part is
 * cut off again. Where there is no address space for that, an extent is reached by hops, each
 * of which leaves a page behind as the next seed.
 *
 * No store reaches a page that MADV_POPULATE_WRITE has not accepted: a full file system
 * is then an error code here and not a SIGBUS in the target.
 */
#include "agent/core.h"
#include "agent/sessionfile.h"
#include "agent/syscall.h"

#define NEAR_BYTES ((size_t)64 << 20)
#define MAPPED_MAX 4096u

bool agent_frozen;

static struct mgl_session *head;
static uint64_t file_bytes;

/* The seed nearest to the end: page address >> 12 | file page << 35. Seeds are never
 * unmapped, so whichever one a thread has loaded stays good. */
static _Atomic uint64_t seed;

/* Units taken and mapped in one piece, so that a small program needs no more; NULL = none left. */
static uint8_t *reserve;
static _Atomic uint32_t reserve_used;

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

/* Where the copy of a mapping starts at the seed and is cut off below what is wanted, the kernel
 * would fill all of it if the seed is locked in memory (mlockall): not where it has no access. */
static void seed_close(uint64_t s) { sys_mprotect(seed_page(s), MGL_PAGE, PROT_NONE); }

/* The part of a window that is wanted; NULL = refused. */
static uint8_t *window_cut(char *window, size_t lead, size_t bytes)
{
	if (lead)
		sys_munmap(window, lead);
	if (sys_mprotect(window + lead, bytes, PROT_READ | PROT_WRITE) == 0)
		return (uint8_t *)window + lead;
	sys_munmap(window + lead, bytes);
	return NULL;
}

/* A seed as far on as there is address space for, *most bytes; false = there is none. */
static bool seed_hop(uint64_t *from, size_t lead, size_t *most)
{
	size_t hop = (*most < lead ? *most : lead) & ~(size_t)(MGL_PAGE - 1);

	if (hop < MGL_UNIT_BYTES)
		return false;
	char *window = sys_mremap(seed_page(*from), 0, hop, MREMAP_MAYMOVE);

	if (sys_failed(window)) {
		*most = hop / 2;
		return true;
	}
	sys_munmap(window, hop - MGL_PAGE);
	*from = seed_pack(window + hop - MGL_PAGE, seed_offset(*from) + hop - MGL_PAGE);
	atomic_store(&seed, *from);
	return true;
}

/* A mapping of [offset, offset + bytes) of the session file; NULL = refused. */
static uint8_t *map_far(uint64_t offset, size_t bytes)
{
	uint64_t from = atomic_load(&seed);
	size_t most = SIZE_MAX;

	if (seed_offset(from) > offset) /* another thread has hopped past it */
		from = seed_pack((char *)head + MGL_SEED_OFFSET, MGL_SEED_OFFSET);
	for (;;) {
		size_t lead = offset - seed_offset(from), whole = lead + bytes;

		if (lead > NEAR_BYTES)
			seed_close(from);
		if (whole <= most) {
			char *window = sys_mremap(seed_page(from), 0, whole, MREMAP_MAYMOVE);

			if (!sys_failed(window))
				return window_cut(window, lead, bytes);
			most = whole / 2;
		}
		if (!seed_hop(&from, lead, &most))
			return NULL;
	}
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

/* The file's place of units nobody has yet; 0 = there are none left. */
static uint64_t units_claim(uint32_t units)
{
	uint64_t unit = atomic_fetch_add(&head->next_unit, units);
	uint64_t last = file_bytes >> MGL_UNIT_SHIFT;

	return unit >= last || units > last - unit ? 0 : unit << MGL_UNIT_SHIFT;
}

static uint8_t *reserve_take(void)
{
	uint32_t n = reserve ? atomic_fetch_add(&reserve_used, 1) : SESSIONFILE_UNITS;

	if (n < SESSIONFILE_UNITS)
		return reserve + n * MGL_UNIT_BYTES;
	reserve = NULL;
	return NULL;
}

static void reserve_set(uint8_t *units)
{
	bool covered = units && mapped_add(units, SESSIONFILE_UNITS * MGL_UNIT_BYTES);

	reserve_used = 0;
	reserve = covered ? units : NULL;
}

bool session_join(void)
{
	uint8_t *units = NULL;

	if (head)
		return true;
	head = sessionfile_open(&file_bytes, &units);
	if (!head)
		return false;
	atomic_store(&seed, seed_pack((char *)head + MGL_SEED_OFFSET, MGL_SEED_OFFSET));
	reserve_set(units);
	return true;
}

/* Takes and maps units; NULL = inert now. */
static uint8_t *units_take(uint32_t units)
{
	uint8_t *base = units == 1 ? reserve_take() : NULL;
	size_t bytes = units * MGL_UNIT_BYTES;

	if (base)
		return base;
	uint64_t offset = units_claim(units);

	if (offset == 0) {
		agent_go_inert(MGL_INERT_FILE_FULL);
		return NULL;
	}
	base = agent_frozen ? NULL : map_far(offset, bytes);
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
	uint32_t head_pages = kind == MGL_EXTENT_SHADOW ? units : 1;
	uint8_t *base = units_take(units);

	if (!base || !session_populate(base, head_pages * MGL_PAGE))
		return NULL;
	for (uint32_t i = 0; kind == MGL_EXTENT_RECORDS && i < units; i++)
		a->units[first_unit + i] = base + i * MGL_UNIT_BYTES;
	e->base = base;
	e->units = units;
	e->pages = kind == MGL_EXTENT_SHADOW ? mgl_shadow_pages(units)
					     : units * (uint32_t)MGL_PAGES_PER_UNIT;
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

	reserve = NULL;
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

void session_reserve(void)
{
	uint64_t offset = units_claim(SESSIONFILE_UNITS);

	if (offset)
		reserve_set(map_far(offset, SESSIONFILE_UNITS * MGL_UNIT_BYTES));
}
