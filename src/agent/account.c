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

#define STEP_LEAST ((uint64_t)1 << 10)
#define STEP_MOST  ((uint64_t)64 << 10)

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
 * it could while it was alone. */
static uint64_t held_most(struct agent *a, uint64_t max)
{
	uint64_t threads = LEDGER_GET(a->many);

	return threads ? threads * LEDGER_GET(a->largest_step) + step_for(max, 1) : 0;
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

static AGENT_COLD void max_raise(struct thread *t, uint64_t total)
{
	struct agent *a = t->agent;
	struct mgl_process *p = a->process;
	uint64_t max = atomic_load(&p->max);

	while (total > max) {
		if (!atomic_compare_exchange_weak(&p->max, &max, total))
			continue;
		LEDGER_SET(p->peak_number, t->number - 1);
		LEDGER_SET(p->peak_error, held_most(a, total));
		account_step_set(a);
		return;
	}
}

static inline void live_change(struct thread *t, int64_t change)
{
	struct agent *a = t->agent;
	struct mgl_process *p = a->process;
	int64_t held = LEDGER_GET(t->slot->delta) + change;
	int64_t step = (int64_t)LEDGER_GET(a->step);
	int64_t room = (int64_t)(LEDGER_GET(p->max) - LEDGER_GET(p->total));

	if (AGENT_LIKELY(held < step && held > -step && (held <= room || LEDGER_GET(a->many)))) {
		LEDGER_SET(t->slot->delta, held);
		return;
	}
	uint64_t total =
		atomic_fetch_add_explicit(&p->total, (uint64_t)held, memory_order_relaxed) +
		(uint64_t)held;

	LEDGER_SET(t->slot->delta, 0);
	if ((int64_t)total > (int64_t)LEDGER_GET(p->max))
		max_raise(t, total);
}

/* Before a row's live figures change. */
static inline void row_touch(struct thread *t, struct mgl_row *row)
{
	uint64_t max = LEDGER_GET(t->agent->process->max);

	if (AGENT_LIKELY(LEDGER_GET(row->epoch) == max))
		return;
	LEDGER_SET(row->peak_blocks, (int64_t)(LEDGER_GET(row->allocs) - LEDGER_GET(row->frees)));
	LEDGER_SET(row->peak_bytes,
		   (int64_t)(LEDGER_GET(row->bytes_in) - LEDGER_GET(row->bytes_out)));
	atomic_store_explicit(&row->epoch, max, memory_order_release);
}

/* --- frees -------------------------------------------------------------------------- */

static inline uint64_t number_now(const struct thread *t)
{
	uint64_t own = t->number - 1;

	if (LEDGER_GET(t->agent->many)) {
		uint64_t all = LEDGER_GET(t->agent->process->next_number) - 1;

		return all > own ? all : own;
	}
	return own;
}

/* Not for what a hook could not finish because a handler forked inside it. */
static AGENT_COLD void loss_count(struct thread *t, enum mgl_loss kind)
{
	if (t->agent == agent_current)
		agent_count_loss(kind, 1);
}

/* This thread's row of the site that a word names; NULL = the word names none. */
static inline struct mgl_row *row_of(struct thread *t, uint64_t word, bool *foreign)
{
	struct mgl_row *row = record_at(t, mgl_shadow_row(word));

	if (AGENT_UNLIKELY(!row))
		return NULL;
	*foreign = row->slot != t->slot_ref;
	return *foreign ? row_find(t, row->node, row->size_class, row->api) : row;
}

/* Counts a block out; its size. */
static uint64_t block_out(struct thread *t, uintptr_t block, const struct taken *taken)
{
	bool foreign;
	struct mgl_row *row = row_of(t, taken->word, &foreign);

	if (AGENT_UNLIKELY(!row)) {
		loss_count(t, MGL_LOSS_UNRECORDED);
		return 0;
	}
	uint64_t size = mgl_class_low(row->size_class) + taken->rest;
	uint64_t born = mgl_birth_number(mgl_shadow_birth(taken->word));
	uint64_t now = number_now(t);

	row_touch(t, row);
	LEDGER_ADD(row->frees, 1);
	LEDGER_ADD(row->bytes_out, size);
	if (AGENT_LIKELY(now > born))
		LEDGER_ADD(row->lifetime, now - born);
	if (foreign)
		LEDGER_ADD(row->foreign_frees, 1);
	/* Another thread may have freed that block and made one at its address. */
	if (block == t->last_block && (taken->word & ~MGL_SHADOW_START) == t->last_word) {
		/* Another thread's, where somebody freed ours and the address came round. */
		if (!foreign)
			LEDGER_ADD(row->temporaries, 1);
		t->last_block = 0;
	}
	return size;
}

static inline void op_edge(struct thread *t)
{
	atomic_store_explicit(&t->slot->op, LEDGER_GET(t->slot->op) + 1, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

void account_free(struct thread *t, void *p)
{
	struct taken taken;

	op_edge(t);
	taken.word = shadow_take(t, (uintptr_t)p, &taken.rest);
	if (AGENT_LIKELY(taken.word != 0))
		live_change(t, -(int64_t)block_out(t, (uintptr_t)p, &taken));
	else
		LEDGER_ADD(t->slot->unknown_frees, 1);
	op_edge(t);
}

/* --- allocations --------------------------------------------------------------------- */

void account_failed(struct thread *t, enum mgl_api api)
{
	LEDGER_ADD(t->slot->calls[api].failed, 1);
}

/* A block whose free nobody saw stood at the address: put its row right. */
static AGENT_COLD uint64_t occupied_out(struct thread *t, const struct shadow_found *found)
{
	struct taken taken = {found->word, found->rest};

	loss_count(t, MGL_LOSS_OCCUPIED);
	return block_out(t, 0, &taken);
}

/* An allocation that cannot be entered: recording is off, or has ended. */
static AGENT_COLD void block_dropped(struct thread *t)
{
	if (t->agent->inert)
		t->idle = GATE_OFF;
	if (!LEDGER_GET(session_control()->off))
		loss_count(t, MGL_LOSS_UNRECORDED);
}

/* Counts a block in; what it changes live bytes by. */
static int64_t block_in(struct thread *t, uintptr_t block, uint64_t size, enum mgl_api api,
			const struct unwind_regs *regs, bool moved)
{
	struct shadow_found found;
	uint32_t size_class = mgl_size_class(size);
	uint32_t node = unwind_stack(t, regs);
	struct mgl_row *row = node ? row_find(t, node, size_class, api) : NULL;

	if (AGENT_UNLIKELY(!row || (t->number >= t->number_stop && !number_refill(t)))) {
		block_dropped(t);
		return 0;
	}
	uint64_t number = t->number++;
	uint64_t rest = size - mgl_class_low(size_class);
	int64_t change = (int64_t)size;

	row_touch(t, row);
	LEDGER_ADD(row->bytes_in, size);
	LEDGER_ADD(row->allocs, 1);
	if (moved)
		LEDGER_ADD(row->moved, 1);
	LEDGER_ADD(t->slot->calls[api].calls, 1);
	LEDGER_ADD(t->slot->calls[api].bytes, size);
	uint64_t word = mgl_shadow_word(
		row->self, 0, size_class < MGL_LARGE_CLASS ? (uint32_t)rest : 0, mgl_birth(number));

	if (AGENT_UNLIKELY(!shadow_store(t, block, word, rest, &found)))
		loss_count(t, MGL_LOSS_UNSHADOWED);
	else if (AGENT_UNLIKELY(found.word != 0))
		change -= (int64_t)occupied_out(t, &found);
	t->last_block = block;
	t->last_word = word;
	return change;
}

void account_allocated(struct thread *t, void *p, size_t size, enum mgl_api api,
		       const struct unwind_regs *regs)
{
	op_edge(t);
	live_change(t, block_in(t, (uintptr_t)p, size, api, regs, false));
	op_edge(t);
}

/* --- realloc ------------------------------------------------------------------------- */

struct taken account_realloc_begin(struct thread *t, void *p)
{
	struct taken old;

	old.word = shadow_take(t, (uintptr_t)p, &old.rest);
	return old;
}

void account_realloc_failed(struct thread *t, void *p, struct taken old, enum mgl_api api)
{
	struct shadow_found found;

	account_failed(t, api);
	if (old.word)
		shadow_store(t, (uintptr_t)p, old.word & ~MGL_SHADOW_START, old.rest, &found);
}

/* Counts the old block out; its size. */
static uint64_t realloc_out(struct thread *t, void *p, const struct taken *old)
{
	if (old->word)
		return block_out(t, (uintptr_t)p, old);
	LEDGER_ADD(t->slot->unknown_frees, 1);
	return 0;
}

void account_realloc_freed(struct thread *t, void *p, struct taken old)
{
	op_edge(t);
	live_change(t, -(int64_t)realloc_out(t, p, &old));
	op_edge(t);
}

void account_realloc_done(struct thread *t, void *p, struct taken old, void *q, size_t size,
			  enum mgl_api api, const struct unwind_regs *regs)
{
	op_edge(t);
	int64_t change = -(int64_t)realloc_out(t, p, &old);

	change += block_in(t, (uintptr_t)q, size, api, regs, p != q);
	live_change(t, change);
	op_edge(t);
}
