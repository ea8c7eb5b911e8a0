/*
 * Rows, the peak and lifetimes.
 *
 * The peak is copied on write: its epoch is the largest total so far, and before a row
 * changes under a stale epoch its live figures are kept as its share of that peak. A new
 * maximum therefore costs O(1), and at the end a row with a stale epoch has had its
 * present live figures at the peak.
 *
 * Threads publish what they hold of the total when it exceeds a step; a thread alone also
 * whenever the total passes the maximum, which makes its peak exact.
 */
#include "agent/account.h"

#include "agent/hook.h"
#include "agent/inherited.h"
#include "agent/rows.h"
#include "agent/shadow.h"

#define STEP_LEAST ((uint64_t)1 << 10)
#define STEP_MOST  ((uint64_t)64 << 10)
#define NO_BLOCK   ((uintptr_t)1)
#define ROWS_MOST  (1u << 26) /* more than a row's ref can tell apart */

/* --- the peak ----------------------------------------------------------------------- */

static uint64_t step_for(uint64_t max, uint64_t threads)
{
	uint64_t step = max / (64 * threads);

	return step < STEP_LEAST ? STEP_LEAST : step > STEP_MOST ? STEP_MOST : step;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
	uint64_t old = atomic_load(most);

	while (value > old && !atomic_compare_exchange_weak(most, &old, value))
		;
}

/* What threads hold back at most: each less than the largest step so far, and the first what
 * it could while it was alone; with what hooks left half done may have lost. */
static uint64_t held_most(struct agent *a, uint64_t max)
{
	uint64_t threads = LEDGER_GET(a->many), drift = LEDGER_GET(a->drift);

	return drift + (threads ? threads * LEDGER_GET(a->largest_step) + step_for(max, 1) : 0);
}

void account_step_set(struct agent *a)
{
	uint64_t max = LEDGER_GET(a->process->max);
	uint64_t threads = LEDGER_GET(a->many);
	uint64_t step = step_for(max, threads ? threads : 1);

	if (threads)
		raise_to(&a->largest_step, step);
	raise_to(&a->process->max_error, held_most(a, max));
	LEDGER_SET(a->step, step);
}

static void max_raise(struct thread *t, uint64_t total)
{
	struct agent *a = t->agent;
	struct mgl_process *p = a->process;
	uint64_t max = atomic_load(&p->max);

	while (total > max) {
		if (!atomic_compare_exchange_weak(&p->max, &max, total))
			continue;
		LEDGER_SET(p->peak_number, t->number - 1);
		LEDGER_SET(p->peak_error, held_most(a, total));
		/* While memory grows this is every allocation of a thread alone. */
		if (LEDGER_GET(a->many) || LEDGER_GET(a->step) != step_for(total, 1))
			account_step_set(a);
		return;
	}
}

/* How much of live bytes t holds back, from now on. Alone it publishes whatever passes the
 * maximum. A limit may be older than the step: max_error bounds all there ever were. */
static void held_limit(struct thread *t)
{
	struct mgl_process *p = t->process;
	int64_t step = (int64_t)LEDGER_GET(t->agent->step);
	int64_t room = (int64_t)(LEDGER_GET(p->max) - LEDGER_GET(p->total));
	int64_t most = LEDGER_GET(t->agent->many) || room >= step ? step - 1 : room;

	t->held_least = 1 - step;
	*gate_held_width(t) = (uint64_t)(most + step);
}

/* What t's rows have live; *largest is what one block of theirs has at most. */
static uint64_t rows_live(struct thread *t, uint64_t *largest)
{
	uint64_t live = 0;
	const struct mgl_row *row = record_at(t, LEDGER_GET(t->slot->rows));

	for (uint32_t n = 0; row && n < ROWS_MOST; n++) {
		uint64_t most = mgl_class_low(row->size_class) + mgl_class_width(row->size_class);

		live += LEDGER_GET(row->bytes_in) - LEDGER_GET(row->bytes_out);
		if (most > *largest)
			*largest = most;
		row = record_at(t, row->next);
	}
	return live;
}

/* A thread alone has all the rows there are. Of several, one may have published more or less
 * than its rows say, by one block and what it held back. */
AGENT_COLD void account_settle(struct thread *t)
{
	struct agent *a = t->agent;
	struct mgl_process *p = a->process;
	uint64_t largest = 0;
	uint64_t live = rows_live(t, &largest);

	if (!LEDGER_GET(a->many)) {
		uint64_t total = live - (uint64_t)LEDGER_GET(t->slot->delta);

		LEDGER_SET(p->total, total);
		if ((int64_t)total > (int64_t)LEDGER_GET(p->max))
			max_raise(t, total);
	} else {
		atomic_fetch_add(&a->drift, largest + LEDGER_GET(a->largest_step));
		raise_to(&p->peak_error, held_most(a, LEDGER_GET(p->max)));
		account_step_set(a);
	}
	held_limit(t);
}

static __attribute__((noinline)) void live_publish(struct thread *t, int64_t held)
{
	hook_check_fork(t);
	struct mgl_process *p = t->process;
	uint64_t total =
		atomic_fetch_add_explicit(&p->total, (uint64_t)held, memory_order_relaxed) +
		(uint64_t)held;

	LEDGER_SET(t->slot->delta, 0);
	if ((int64_t)total > (int64_t)LEDGER_GET(p->max))
		max_raise(t, total);
	held_limit(t);
}

static AGENT_HOT bool may_hold(const struct thread *t, int64_t held)
{
	return (uint64_t)(held - t->held_least) < *gate_held_width(t);
}

static AGENT_HOT void live_change(struct thread *t, int64_t change)
{
	int64_t held = LEDGER_GET(t->slot->delta) + change;

	if (AGENT_LIKELY(may_hold(t, held)))
		LEDGER_SET(t->slot->delta, held);
	else
		live_publish(t, held);
}

/* Before a row's live figures change. */
static AGENT_HOT void row_touch(struct thread *t, struct mgl_row *row)
{
	uint64_t max = LEDGER_GET(t->process->max);

	if (AGENT_LIKELY(LEDGER_GET(row->epoch) == max))
		return;
	LEDGER_SET(row->peak_blocks, (int64_t)(LEDGER_GET(row->allocs) - LEDGER_GET(row->frees)));
	LEDGER_SET(row->peak_bytes,
		   (int64_t)(LEDGER_GET(row->bytes_in) - LEDGER_GET(row->bytes_out)));
	atomic_store_explicit(&row->epoch, max, memory_order_release);
}

/* --- frees -------------------------------------------------------------------------- */

/* The number handed out last, as far as this thread can tell without asking others. */
static AGENT_HOT uint64_t number_now(const struct thread *t)
{
	uint64_t next = LEDGER_GET(t->process->next_number);

	/* Nobody has taken a batch since this thread took its own. */
	return (AGENT_LIKELY(next == *gate_number_stop(t)) ? t->number : next) - 1;
}

/* In allocations. */
static AGENT_HOT uint64_t lifetime_of(const struct thread *t, uint64_t word)
{
	uint64_t born = mgl_birth_number(mgl_shadow_birth(word)), now = number_now(t);

	return AGENT_LIKELY(now > born) ? now - born : 0;
}

/* Not for what a hook could not finish because a handler forked inside it. */
static AGENT_COLD void loss_count(struct thread *t, enum mgl_loss kind)
{
	hook_check_fork(t);
	if (t->agent == agent_current)
		agent_count_loss(kind, 1);
}

/* mgl_class_low(), as constants. */
#define LOW(c)   ((c) < 16 ? (uint64_t)(c) : (uint64_t)(4 + (c) % 4) << ((c) / 4 + 62) % 64)
#define LOW4(c)  LOW(c), LOW((c) + 1), LOW((c) + 2), LOW((c) + 3)
#define LOW16(c) LOW4(c), LOW4((c) + 4), LOW4((c) + 8), LOW4((c) + 12)
#define LOW64(c) LOW16(c), LOW16((c) + 16), LOW16((c) + 32), LOW16((c) + 48)
static const uint64_t class_low[256] = {LOW64(0), LOW64(64), LOW64(128), LOW64(192)};

/* Counts a block out of its row; its size. */
static AGENT_HOT uint64_t row_out(struct thread *t, struct mgl_row *row, uint64_t word,
				  uint64_t rest)
{
	uint64_t size = class_low[row->size_class] + rest;

	row_touch(t, row);
	LEDGER_ADD(row->frees, 1);
	LEDGER_ADD(row->bytes_out, size);
	LEDGER_ADD(row->lifetime, lifetime_of(t, word));
	return size;
}

/* Another thread's row counted the block in; and where t allocated last at this address, that
 * block was freed by another thread before the address came round. */
static __attribute__((noinline)) uint64_t foreign_out(struct thread *t, uintptr_t block,
						      uint64_t word, uint64_t rest,
						      const struct mgl_row *from)
{
	hook_check_fork(t);
	struct mgl_row *row = from ? row_find(t, from->node, from->size_class, from->api) : NULL;

	if (AGENT_UNLIKELY(!row)) {
		loss_count(t, MGL_LOSS_UNRECORDED);
		return 0;
	}
	LEDGER_ADD(row->foreign_frees, 1);
	if (block == t->last.block && word == t->last.word)
		t->last.block = 0;
	return row_out(t, row, word, rest);
}

/* Counts a block out; its size. row is what its word names, NULL = nothing. */
static AGENT_HOT uint64_t block_out(struct thread *t, uintptr_t block, uint64_t word, uint64_t rest,
				    struct mgl_row *row)
{
	if (AGENT_UNLIKELY(!row || row->slot != t->slot_ref))
		return foreign_out(t, block, word, rest, row);
	uint64_t size = row_out(t, row, word, rest);

	if (block == t->last.block && word == t->last.word) {
		LEDGER_ADD(row->temporaries, 1);
		t->last.block = 0;
	}
	return size;
}

/* Around what changes a slot's rows; the value goes from the one to the other. */
static AGENT_HOT uint64_t op_begin(struct thread *t)
{
	uint64_t op = LEDGER_GET(t->slot->op) | 1; /* even, but for what a child of fork left */

	atomic_store_explicit(&t->slot->op, op, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	return op;
}

static AGENT_HOT void op_end(struct thread *t, uint64_t op)
{
	atomic_store_explicit(&t->slot->op, op + 1, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Takes a block out of the shadow; 0 = no such block. row may become NULL. */
static AGENT_HOT uint64_t take(struct thread *t, uintptr_t block, uint64_t *rest,
			       struct mgl_row **row)
{
	_Atomic uint64_t *at = shadow_word(t, block);
	uint64_t word = AGENT_LIKELY(at != NULL) ? LEDGER_GET(*at) : 0;

	if (AGENT_UNLIKELY(word == 0 || !shadow_starts_at(t, word, block)))
		return 0;
	*row = row_at(t, word);
	if (AGENT_UNLIKELY(!*row) && shadow_is_tag(word))
		return 0;
	LEDGER_SET(*at, 0);
	*rest = mgl_shadow_rest(word);
	if (AGENT_LIKELY(*row != NULL) && AGENT_UNLIKELY((*row)->size_class >= MGL_LARGE_CLASS))
		*rest = shadow_rest_take(t, block, (*row)->size_class);
	return word;
}

/* What counts the free of a block that no hook of this process saw made. */
static _Atomic uint64_t *unseen(struct thread *t, uintptr_t block)
{
	return inherited_has(block, SHADOW_CHUNK_BITS + t->granule_shift)
		       ? &t->slot->inherited_frees
		       : &t->slot->unknown_frees;
}

/* A free that is not the usual one: unknown, foreign, large, or one to publish. */
static __attribute__((noinline)) void free_slow(struct thread *t, uintptr_t block, uintptr_t cfa)
{
	hook_check_fork(t);
	uint64_t rest, op = op_begin(t);
	struct mgl_row *row;
	uint64_t word = take(t, block, &rest, &row);

	if (AGENT_LIKELY(word != 0))
		live_change(t, -(int64_t)block_out(t, block, word, rest, row));
	else
		LEDGER_ADD(*unseen(t, block), 1);
	op_end(t, op);
	hook_phase(t, cfa, GATE_REAL);
}

/* No allocation of this thread lies in between; what others did meanwhile is not asked. */
#define TEMPORARY UINT64_MAX

/* A block that this thread counted in and whose word is at `at`. */
static AGENT_HOT void free_own(struct thread *t, uintptr_t block, uintptr_t cfa,
			       _Atomic uint64_t *at, struct mgl_row *row, uint64_t size,
			       uint64_t lifetime)
{
	int64_t held = LEDGER_GET(t->slot->delta) - (int64_t)size;

	if (AGENT_UNLIKELY(!may_hold(t, held) || row->size_class >= MGL_LARGE_CLASS)) {
		free_slow(t, block, cfa);
		return;
	}
	uint64_t op = op_begin(t);

	LEDGER_SET(*at, 0);
	row_touch(t, row);
	LEDGER_ADD(row->frees, 1);
	LEDGER_ADD(row->bytes_out, size);
	if (lifetime == TEMPORARY) {
		LEDGER_ADD(row->temporaries, 1);
		t->last.block = 0;
	} else {
		LEDGER_ADD(row->lifetime, lifetime);
	}
	LEDGER_SET(t->slot->delta, held);
	op_end(t, op);
	hook_phase(t, cfa, GATE_REAL);
}

void account_free(struct thread *t, void *p, uintptr_t cfa)
{
	uintptr_t block = (uintptr_t)p;

	hook_phase(t, cfa, GATE_AGENT);
	if (block == t->last.block && LEDGER_GET(*t->last.at) == t->last.word) {
		free_own(t, block, cfa, t->last.at, t->last.row, t->last.size, TEMPORARY);
		return;
	}
	_Atomic uint64_t *at = shadow_word(t, block);
	uint64_t word = AGENT_LIKELY(at != NULL) ? LEDGER_GET(*at) : 0;

	if (AGENT_LIKELY(word != 0 && shadow_starts_at(t, word, block))) {
		struct mgl_row *row = row_at(t, word);

		if (AGENT_LIKELY(row && row->slot == t->slot_ref)) {
			free_own(t, block, cfa, at, row,
				 class_low[row->size_class] + mgl_shadow_rest(word),
				 lifetime_of(t, word));
			return;
		}
	}
	free_slow(t, block, cfa);
}

/* --- allocations --------------------------------------------------------------------- */

void account_failed(struct thread *t, enum mgl_api api)
{
	LEDGER_ADD(t->slot->calls[api].failed, 1);
}

/* A block whose free nobody saw stood at the address: put its row right. What its size
 * takes off live bytes. */
static AGENT_COLD int64_t occupied_out(struct thread *t, uintptr_t block, uint64_t word)
{
	struct mgl_row *row = row_at(t, word);
	uint64_t rest = mgl_shadow_rest(word);

	loss_count(t, MGL_LOSS_OCCUPIED);
	if (row && row->size_class >= MGL_LARGE_CLASS)
		rest = shadow_rest_take(t, block, row->size_class);
	return (int64_t)block_out(t, NO_BLOCK, word, rest, row);
}

/* An allocation that cannot be entered: recording is off, or has ended. */
static AGENT_COLD void block_dropped(struct thread *t)
{
	if (t->agent->inert)
		t->idle = GATE_OFF;
	if (!LEDGER_GET(session_control()->off))
		loss_count(t, MGL_LOSS_UNRECORDED);
}

/* The word of a block whose number is the thread's last, but for its start. */
static AGENT_HOT uint64_t word_of(const struct thread *t, const struct mgl_row *row,
				  uint64_t number, uint64_t rest)
{
	return (uint64_t)row->self << 35 | rest << 24 |
	       (uint32_t)(t->birth_base + (number >> t->birth_shift));
}

/* Enters a block whose word has everything but its start. What a block that stood there
 * takes off live bytes. */
static int64_t enter(struct thread *t, uintptr_t block, uint64_t word, struct mgl_row *row,
		     uint64_t rest)
{
	hook_check_fork(t);
	uint32_t size_class = row->size_class;
	_Atomic uint64_t *at = shadow_word_make(t, block);
	int64_t off = 0;

	t->last.block = 0;
	if (!at) {
		loss_count(t, MGL_LOSS_UNSHADOWED);
		return 0;
	}
	uint64_t old = LEDGER_GET(*at);

	if (AGENT_UNLIKELY(old != 0) && !shadow_is_tag(old))
		off = occupied_out(t, block, old);
	if (AGENT_UNLIKELY(size_class >= MGL_LARGE_CLASS) &&
	    !shadow_rest_store(t, block, size_class, rest)) {
		loss_count(t, MGL_LOSS_UNSHADOWED);
		return off;
	}
	word |= shadow_start_bits(t, block);
	LEDGER_SET(*at, word);
	t->last = (struct last){block, word, at, row, class_low[size_class] + rest};
	return off;
}

/* Counts a block in; what it changes live bytes by. */
static int64_t block_in(struct thread *t, uintptr_t block, uint64_t size, enum mgl_api api,
			uint32_t node, bool moved)
{
	hook_check_fork(t);
	uint32_t size_class = mgl_size_class(size);
	struct mgl_row *row = AGENT_LIKELY(node != 0) ? row_find(t, node, size_class, api) : NULL;

	if (AGENT_UNLIKELY(!row || (t->number >= *gate_number_stop(t) && !number_refill(t)))) {
		block_dropped(t);
		return 0;
	}
	uint64_t number = t->number++;
	uint64_t rest = size - class_low[size_class];
	uint64_t word = word_of(t, row, number, size_class < MGL_LARGE_CLASS ? rest : 0);

	row_touch(t, row);
	LEDGER_ADD(row->bytes_in, size);
	LEDGER_ADD(row->allocs, 1);
	if (moved)
		LEDGER_ADD(row->moved, 1);
	return (int64_t)size - enter(t, block, word, row, rest);
}

/* A block that is not the usual one: a new site, a new chunk of the shadow or batch of
 * numbers, a large block, or something that stood in its place. */
static __attribute__((noinline)) void *allocated_slow(struct thread *t, void *made, size_t size,
						      enum mgl_api api, uint32_t node)
{
	hook_check_fork(t);
	uint64_t op = op_begin(t);

	live_change(t, block_in(t, (uintptr_t)made, size, api, node, false));
	op_end(t, op);
	hook_leave(t);
	return made;
}

static __attribute__((noinline)) void *allocated_publish(struct thread *t, void *made, int64_t held,
							 uint64_t op)
{
	live_publish(t, held);
	op_end(t, op);
	hook_leave(t);
	return made;
}

static AGENT_COLD void *allocated_none(struct thread *t, enum mgl_api api)
{
	account_failed(t, api);
	hook_leave(t);
	return NULL;
}

/* Where it is null, too, nothing happens. */
static AGENT_HOT void prefetch(const void *at) { __asm__ volatile("prefetcht0 (%0)" : : "r"(at)); }

void *account_allocated(struct thread *t, void *made, size_t size, enum mgl_api api, uintptr_t pc,
			uintptr_t cfa)
{
	uintptr_t block = (uintptr_t)made;
	struct unwind_regs regs = REGS(pc, cfa);

	hook_phase(t, cfa, GATE_AGENT);
	if (AGENT_UNLIKELY(!made))
		return allocated_none(t, api);
	_Atomic uint64_t *at = shadow_word(t, block);

	prefetch(at); /* on its way while the stack is looked at */
	struct unwind_site *site = unwind_stack(t, &regs);
	uint32_t size_class = mgl_size_class(size);
	struct mgl_row *row = row_of_site(t, site, size_class, api);

	if (AGENT_UNLIKELY(!row || !at || LEDGER_GET(*at) != 0 ||
			   t->number >= *gate_number_stop(t) || size_class >= MGL_LARGE_CLASS))
		return allocated_slow(t, made, size, api, site->node);
	int64_t held = LEDGER_GET(t->slot->delta) + (int64_t)size;
	uint64_t word = word_of(t, row, t->number++, size - class_low[size_class]) |
			shadow_start_bits(t, block);
	uint64_t op = op_begin(t);

	row_touch(t, row);
	LEDGER_ADD(row->bytes_in, size);
	LEDGER_ADD(row->allocs, 1);
	LEDGER_SET(*at, word);
	t->last = (struct last){block, word, at, row, size};
	if (AGENT_UNLIKELY(!may_hold(t, held)))
		return allocated_publish(t, made, held, op);
	LEDGER_SET(t->slot->delta, held);
	op_end(t, op);
	hook_leave(t);
	return made;
}

/* --- realloc ------------------------------------------------------------------------- */

struct taken account_realloc_begin(struct thread *t, void *p)
{
	hook_check_fork(t);
	struct taken old = {0};
	struct mgl_row *row;

	old.word = take(t, (uintptr_t)p, &old.rest, &row);
	return old;
}

void account_realloc_failed(struct thread *t, void *p, struct taken old, enum mgl_api api)
{
	struct mgl_row *row = old.word ? row_at(t, old.word) : NULL;
	struct last last = t->last;

	account_failed(t, api);
	if (row)
		enter(t, (uintptr_t)p, old.word, row, old.rest);
	t->last = last;
}

/* Counts the old block out; its size. */
static uint64_t realloc_out(struct thread *t, void *p, const struct taken *old)
{
	if (old->word)
		return block_out(t, (uintptr_t)p, old->word, old->rest, row_at(t, old->word));
	LEDGER_ADD(*unseen(t, (uintptr_t)p), 1);
	return 0;
}

void account_realloc_freed(struct thread *t, void *p, struct taken old)
{
	uint64_t op = op_begin(t);

	live_change(t, -(int64_t)realloc_out(t, p, &old));
	op_end(t, op);
}

void account_realloc_done(struct thread *t, void *p, struct taken old, void *q, size_t size,
			  enum mgl_api api, uintptr_t pc, uintptr_t cfa)
{
	struct unwind_regs regs = REGS(pc, cfa);
	uint32_t node = unwind_stack(t, &regs)->node;
	hook_check_fork(t);
	uint64_t op = op_begin(t);
	int64_t change = -(int64_t)realloc_out(t, p, &old);

	change += block_in(t, (uintptr_t)q, size, api, node, p != q);
	live_change(t, change);
	op_end(t, op);
}
