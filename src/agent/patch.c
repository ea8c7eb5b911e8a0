#include "agent/patch.h"

#include <string.h>

#include "agent/core.h"
#include "agent/syscall.h"
#include "ledger/layout.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define SHSTK_STATUS 0x5005 /* arch_prctl(2) since Linux 6.6 */

#define REACH       (UINTPTR_MAX >> 34) /* 1 GiB: half of what a jump has, for large texts */
#define ROOM_STEP   ((uintptr_t)65536)
#define LOWEST      ((uintptr_t)65536) /* below it nobody may map anything, as a rule */
#define RELAY_BYTES 32u
/* Before the last one there are four bytes: at most two short jumps, which grow by four each. */
#define MOVED_BYTES (4u + 2 * 4u + INSN_MOVED_MOST + INSN_JUMP_BYTES)
#define BODY_MOST   65536u
#define ROOMS_MOST  64u
#define PARTS_MOST  32u
#define PART_BYTES  512u
#define ALIGNED     16u /* where compilers start functions */

_Static_assert(RELAY_BYTES + MOVED_BYTES <= PATCH_PLACE_BYTES, "a place holds both");

/* --- planning ------------------------------------------------------------------------- */

static const char *const too_short = "is too short to be changed";
static const char *const not_known = "has an instruction that is not known";
static const char *const comes_back = "jumps back to its first instructions";

static bool read(const struct patch *p, const uint8_t *at, struct insn *ret)
{
	return (uintptr_t)at < p->stop && insn_read(at, p->stop - (uintptr_t)at, ret);
}

static uintptr_t target_of(const uint8_t *at, const struct insn *insn)
{
	return (uintptr_t)at + insn->bytes + (uintptr_t)insn->distance;
}

/* The space up to where the next function may start. */
static bool is_padding(const uint8_t *at, uintptr_t end, const struct insn *insn)
{
	uintptr_t stop = (end + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1);

	return (uintptr_t)at + insn->bytes <= stop && (insn->kind == INSN_NOTHING || *at == 0xcc);
}

static bool pushes_shadow(void)
{
	uint64_t status = 0;

	return sys_call3(SYS_arch_prctl, SHSTK_STATUS, (long)&status, 0) == 0 && (status & 1);
}

/* Whole instructions, up to room for a jump. end: of the function, 0 = not known. */
static const char *plan_bytes(struct patch *p, uintptr_t end)
{
	struct insn insn;

	for (p->bytes = 0; p->bytes < INSN_JUMP_BYTES; p->bytes += insn.bytes) {
		const uint8_t *at = p->at + p->bytes;

		if (!read(p, at, &insn) || insn.kind == INSN_SHORT)
			return not_known;
		if (*at == 0xcc && !(end && (uintptr_t)at >= end))
			return "has a breakpoint";
		if (end && (uintptr_t)at >= end && !is_padding(at, end, &insn))
			return too_short;
		/* What follows is somebody else's, or reached by a jump of its own. */
		if (!end && (insn.kind == INSN_END || insn.kind == INSN_JUMP) &&
		    p->bytes + insn.bytes < INSN_JUMP_BYTES)
			return too_short;
		if ((insn.kind == INSN_CALL || insn.kind == INSN_CALL_BY) && pushes_shadow())
			return "calls at its start, and returns are guarded";
	}
	return NULL;
}

/* Where the function jumps to outside of itself: a part that the compiler put elsewhere (.cold),
 * which may jump back, or another function. */
static struct {
	uintptr_t at[PARTS_MOST];
	uint32_t count;
} parts;

static bool jumps(const struct insn *insn)
{
	return insn->kind == INSN_JUMP || insn->kind == INSN_JUMP_IF || insn->kind == INSN_SHORT;
}

static void add_part(const struct patch *p, uintptr_t at)
{
	if (at < p->start || at >= p->stop)
		return;
	for (uint32_t i = 0; i < parts.count; i++) {
		if (parts.at[i] == at)
			return;
	}
	if (parts.count < PARTS_MOST)
		parts.at[parts.count++] = at;
}

/* Up to where it cannot go on; false: it jumps into what is to be replaced, past the start. Whoever
 * jumps to the start calls the function. */
static bool is_part_apart(const struct patch *p, uintptr_t part)
{
	uintptr_t gone = (uintptr_t)p->at, at = part, far = part;
	struct insn insn;

	for (; at - part < PART_BYTES && read(p, (const uint8_t *)at, &insn); at += insn.bytes) {
		uintptr_t target = target_of((const uint8_t *)at, &insn);

		if (jumps(&insn) && target > gone && target < gone + p->bytes)
			return false;
		if (jumps(&insn) && target - part < PART_BYTES)
			far = target > far ? target : far;
		else if (jumps(&insn))
			add_part(p, target);
		if ((insn.kind == INSN_END || insn.kind == INSN_JUMP) && at + insn.bytes > far)
			break;
	}
	return true;
}

static const char *plan_parts(const struct patch *p)
{
	for (uint32_t i = 0; i < parts.count; i++) {
		if (!is_part_apart(p, parts.at[i]))
			return comes_back;
	}
	return NULL;
}

/* Whether the function jumps into what is to be replaced, or to its start with whatever it holds
 * in registers then. */
static const char *plan_body(const struct patch *p, uintptr_t start, size_t size)
{
	uintptr_t gone = (uintptr_t)p->at, far = 0;
	const uint8_t *at = (const uint8_t *)start;
	struct insn insn;

	parts.count = 0;
	for (size_t done = 0; done < (size ? size : BODY_MOST); done += insn.bytes) {
		if (!read(p, at + done, &insn))
			return not_known;
		uintptr_t target = target_of(at + done, &insn);

		if (jumps(&insn) && target >= gone && target < gone + p->bytes)
			return comes_back;
		if (jumps(&insn) && target > far && target - start < BODY_MOST)
			far = target;
		if (jumps(&insn) && target - start >= (size ? size : BODY_MOST))
			add_part(p, target);
		if (size == 0 && (insn.kind == INSN_END || insn.kind == INSN_JUMP) &&
		    (uintptr_t)(at + done) + insn.bytes > far)
			break;
	}
	return NULL;
}

static const char *plan_at(struct patch *ret, const uint8_t *at, uintptr_t function, size_t size,
			   uintptr_t start, uintptr_t stop)
{
	const char *why;

	*ret = (struct patch){.at = at, .start = start, .stop = stop};
	why = plan_bytes(ret, size ? function + size : 0);
	if (!why)
		why = plan_body(ret, function, size);
	if (!why)
		why = plan_parts(ret);
	if (!why)
		memcpy(ret->was, ret->at, sizeof(ret->was));
	return why;
}

const char *patch_plan(struct patch *ret, uintptr_t function, size_t size, uintptr_t start,
		       uintptr_t stop)
{
	const uint8_t *at = (const uint8_t *)function;
	struct insn first;

	/* Indirect branches may be asked to lead to such a marker: it stays, where there is room. */
	*ret = (struct patch){.stop = stop};
	if (read(ret, at, &first) && first.kind == INSN_NOTHING && first.bytes == 4 &&
	    !plan_at(ret, at + first.bytes, function, size, start, stop))
		return NULL;
	return plan_at(ret, at, function, size, start, stop);
}

/* --- places ----------------------------------------------------------------------------- */

static uint8_t *map_at(uintptr_t at, size_t bytes)
{
	void *room = sys_mmap((void *)at, bytes, PROT_READ | PROT_EXEC,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (sys_failed(room))
		return NULL;
	/* Linux before 4.17 takes the address for a wish. */
	if ((uintptr_t)room != at) {
		sys_munmap(room, bytes);
		return NULL;
	}
	return room;
}

/* Below, where no heap of the program's grows. */
static uint8_t *map_near(uintptr_t near, size_t bytes)
{
	uintptr_t away = ROOM_STEP;

	near &= ~(ROOM_STEP - 1);
	for (uint32_t n = 0; away < REACH && near >= away + LOWEST; n++) {
		uint8_t *room = map_at(near - away, bytes);

		if (room)
			return room;
		away += n < 64 ? ROOM_STEP : away / 8 & ~(ROOM_STEP - 1);
	}
	return NULL;
}

/* A library that is opened again stands where it stood, or where another one did. */
static struct known_room {
	uintptr_t near; /* 0 = nothing uses it */
	uint8_t *room;
	void *records;
	uint32_t count;
} rooms[ROOMS_MOST];
static uint32_t room_count;

static struct known_room *room_again(uintptr_t near, uint32_t count)
{
	for (uint32_t i = 0; i < room_count; i++) {
		struct known_room *r = &rooms[i];
		uintptr_t at = (uintptr_t)r->room;

		if (r->near == 0 && r->count >= count &&
		    (near > at ? near - at : at - near) < REACH)
			return r;
	}
	return NULL;
}

uint8_t *patch_room(uintptr_t near, uint32_t count, void **records)
{
	size_t bytes = ((size_t)count * PATCH_PLACE_BYTES + MGL_PAGE - 1) & ~(size_t)(MGL_PAGE - 1);
	struct known_room *again = records ? room_again(near, count) : NULL;
	struct known_room made = {.near = near, .count = count};

	if (again) {
		again->near = near;
		*records = again->records;
		return again->room;
	}
	if (records)
		*records = made.records = private_alloc((size_t)count * PATCH_RECORD_BYTES);
	made.room = records && !made.records ? NULL : map_near(near, bytes);
	if (records && made.room && room_count < ROOMS_MOST)
		rooms[room_count++] = made;
	return made.room;
}

void patch_forget(uintptr_t start, uintptr_t stop)
{
	for (uint32_t i = 0; i < room_count; i++) {
		if (rooms[i].near >= start && rooms[i].near < stop)
			rooms[i].near = 0;
	}
}

static bool store_by_right(uint8_t *at, const uint8_t *from, size_t bytes)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)(MGL_PAGE - 1);
	size_t span = (uintptr_t)at + bytes - page;

	if (sys_mprotect((void *)page, span, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return false;
	memcpy(at, from, bytes);
	sys_mprotect((void *)page, span, PROT_READ | PROT_EXEC);
	return true;
}

static bool store(const uint8_t *at, const uint8_t *from, size_t bytes)
{
	int fd = (int)sys_open("/proc/self/mem", O_WRONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : sys_call6(SYS_pwrite64, fd, (long)from, (long)bytes, (long)at, 0, 0);

	if (fd >= 0)
		sys_close(fd);
	return n == (long)bytes || store_by_right((uint8_t *)(uintptr_t)at, from, bytes);
}

/* push %r9; movabs $record, %r9; jmp *0(%rip); hook */
static void write_relay(uint8_t *to, const void *record, void (*hook)(void))
{
	static const uint8_t push_and_set[] = {0x41, 0x51, 0x49, 0xb9};
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};

	memcpy(to, push_and_set, 4);
	memcpy(to + 4, &record, 8);
	memcpy(to + 12, jump, 6);
	memcpy(to + 18, &hook, 8);
}

static const char *write_moved(const struct patch *p, uint8_t *to, uintptr_t runs_at)
{
	struct insn insn;
	size_t bytes, at = 0;

	for (uint32_t done = 0; done < p->bytes; done += insn.bytes) {
		if (!read(p, p->at + done, &insn) ||
		    !insn_move(p->at + done, &insn, to + at, runs_at + at, &bytes))
			return "has an instruction that cannot be moved";
		at += bytes;
	}
	return insn_jump(to + at, runs_at + at, (uintptr_t)p->at + p->bytes) ? NULL
									     : "is too far off";
}

const char *patch_place(struct patch *p, uint8_t *place, const void *record, void (*hook)(void))
{
	uint8_t bytes[PATCH_PLACE_BYTES];
	const char *why;

	/* Whatever jumps astray stops. */
	memset(bytes, 0xcc, sizeof(bytes));
	write_relay(bytes, record, hook);
	p->call = place + RELAY_BYTES;
	why = write_moved(p, bytes + RELAY_BYTES, (uintptr_t)p->call);
	if (why)
		return why;
	if (!insn_jump(p->jump, (uintptr_t)p->at, (uintptr_t)place))
		return "is too far off";
	return store(place, bytes, sizeof(bytes)) ? NULL : "may not be changed";
}

/* What stands behind a first byte that returns is run by nobody: it may go first, and then one
 * byte makes the difference. */
bool patch_is_safe_for_threads(const struct patch *p) { return p->was[0] == 0xc3; }

bool patch_apply(const struct patch *p)
{
	return store(p->at + 1, p->jump + 1, sizeof(p->jump) - 1) && store(p->at, p->jump, 1);
}

bool patch_undo(const struct patch *p) { return store(p->at, p->was, sizeof(p->was)); }
