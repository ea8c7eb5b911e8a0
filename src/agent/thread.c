/*
 * Threads: their structs, gates and slots.
 *
 * A gate tells in one load whether a hook may run: see GATE_READY in agent.h. It lies in
 * pages that fork wipes, GATE_DISTANCE below its struct thread, so that a child finds 0.
 *
 * Nesting. A hook that finds its thread's gate busy looks at its own stack (chain.h). Where
 * a handler calls that interrupted the agent, it is given a struct thread and slot of its own
 * (thread.nested); one that interrupted the real function passes through, counted; what the
 * real function calls is its own business. A hook that is not on the stack any more was left
 * by a jump, and left its gate busy: its struct thread is taken over.
 *
 * Slots. Nothing tells the agent of a thread's end. A new thread looks for a slot with its
 * own name whose owner is dead (tgkill: ESRCH) and adopts it, rows and all. A program that gives
 * every thread a name of its own would have a slot for each: from OWN_NAMES slots on, one of a
 * name that begins the same will do, and is named after what they share ("conn-*").
 */
#include <signal.h>
#include <string.h>

#include "agent/account.h"
#include "agent/chain.h"
#include "agent/inner.h"
#include "agent/real.h"
#include "agent/rows.h"
#include "agent/signals.h"
#include "agent/unwind.h"

#define NESTED_MAX      4u
#define ADOPT_LOOKED_AT 64u
#define ADOPT_PROBED    8u
#define OWN_NAMES       128u /* and twice that, before names are merged that share nothing */
#define NAME_SHARED     3u
#define NAME_BYTES      16u

struct agent_fixed agent_fixed;
_Thread_local intptr_t agent_thread_place;

_Static_assert(sizeof(struct thread) <= THREAD_STRIDE, "struct thread fits its stride");

/* --- making ----------------------------------------------------------------------- */

/* The group of gates that threads are taken of, with their structs behind it, and how many
 * were: page-aligned, so that both are in one word. */
static _Atomic uintptr_t group_now;

#define GROUP_USED ((uintptr_t)MGL_PAGE - 1)

static struct thread *struct_take(void)
{
	uintptr_t was = atomic_load(&group_now), now;

	do {
		now = was + 1;
		if (was == 0 || (was & GROUP_USED) >= GATE_GROUP) {
			/* A race makes two groups, of which one serves a single thread. */
			now = (uintptr_t)private_gates() + 1;
			if (now == 1)
				return NULL;
			atomic_store(&group_now, now);
			break;
		}
	} while (!atomic_compare_exchange_weak(&group_now, &was, now));
	uintptr_t place = (now & GROUP_USED) - 1;

	return (struct thread *)((now & ~GROUP_USED) + GATE_DISTANCE + place * THREAD_STRIDE);
}

static bool slot_make(struct thread *t, uint32_t level, const char *name)
{
	struct mgl_process *p = t->agent->process;
	struct mgl_slot *slot = record_alloc(t, sizeof(*slot), &t->slot_ref);

	if (!slot)
		return false;
	slot->index = atomic_fetch_add(&p->slot_count, 1) + 1;
	slot->tid = sys_gettid();
	slot->adopted = 1;
	slot->level = level;
	memcpy(slot->name, name, sizeof(slot->name));
	t->slot = slot;
	if (slot->index > 1)
		atomic_store(&t->agent->many, slot->index);
	account_step_set(t->agent);
	uint32_t head = atomic_load(&p->slots);

	do {
		slot->next = head;
	} while (!atomic_compare_exchange_weak(&p->slots, &head, t->slot_ref));
	return true;
}

struct thread *thread_make(struct agent *a, uint32_t level)
{
	char name[NAME_BYTES] = "";
	struct thread *t = struct_take();

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->agent = a;
	t->process = a->process;
	t->shadow_top = a->shadow_top;
	t->units = a->units;
	t->granule_shift = a->granule_shift;
	t->start_mask = (1u << a->granule_shift) - 8;
	t->idle = GATE_READY;
	t->batch = 1;
	t->rows = (struct row_index *)&rows_none;
	sys_prctl(16 /* PR_GET_NAME */, (unsigned long)name);
	atomic_store(gate_own(t), 1);
	if (!slot_make(t, level, name))
		return NULL;
	struct thread *head = atomic_load(&a->threads);

	do {
		t->next = head;
	} while (!atomic_compare_exchange_weak(&a->threads, &head, t));
	return t;
}

/* --- adopting --------------------------------------------------------------------- */

static bool is_dead(const struct thread *t, int32_t tid, int32_t self)
{
	return tid == self || sys_tgkill(t->agent->pid, tid, 0) == -3 /* ESRCH */;
}

/* A hook that did not come to its end, by a jump or with its thread, left this odd. */
static void op_close(struct thread *t)
{
	if (!(LEDGER_GET(t->slot->op) & 1))
		return;
	account_settle(t);
	LEDGER_ADD(t->slot->op, 1);
}

static void thread_reset(struct thread *t)
{
	t->last.block = 0;
	op_close(t);
	unwind_forget(t);
	chain_forget(t);
	for (struct thread *n = t->nested; n; n = n->nested) {
		n->last.block = 0;
		op_close(n);
		unwind_forget(n);
		LEDGER_SET(n->slot->tid, sys_gettid());
		gate_set(n, GATE_READY);
	}
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* How much of its beginning a name shares with a slot's; numbers are not shared in part. */
static uint32_t shared(const char *slot, const char *name)
{
	uint32_t n = 0;

	while (n < NAME_BYTES - 1 && slot[n] && slot[n] == name[n])
		n++;
	while (n > 0 && is_digit(slot[n - 1]))
		n--;
	return n;
}

static void slot_rename(struct mgl_slot *slot, const char *name)
{
	uint32_t n = shared(slot->name, name);

	memset(slot->name + n, 0, NAME_BYTES - n);
	slot->name[n] = '*';
}

/* The least that a name must share with a slot's to adopt it. */
static uint32_t must_share(const struct agent *a)
{
	uint32_t slots = atomic_load(&a->process->slot_count);

	return slots > 2 * OWN_NAMES ? 0 : slots > OWN_NAMES ? NAME_SHARED : NAME_BYTES;
}

static bool adopt(struct thread *t, int32_t tid, int32_t self)
{
	if (!atomic_compare_exchange_strong(&t->slot->tid, &tid, self))
		return false;
	/* The first thread comes twice where the loader has cleared its thread-local variables. */
	if (tid != t->agent->pid)
		t->slot->adopted++;
	thread_reset(t);
	return true;
}

/* A dead thread's struct, now ours, with this name or one that will do; NULL = none among those
 * looked at. */
static struct thread *thread_adopt(struct agent *a, const char *name)
{
	int32_t self = sys_gettid(), near_tid = 0;
	uint32_t probed = 0, probed_near = 0, least = must_share(a);
	struct thread *t = atomic_load(&a->adoption), *near = NULL;

	for (uint32_t i = 0; i < ADOPT_LOOKED_AT && probed < ADOPT_PROBED; i++) {
		t = t && t->next ? t->next : atomic_load(&a->threads);
		if (!t)
			return NULL;
		int32_t tid = LEDGER_GET(t->slot->tid);
		bool same = memcmp(t->slot->name, name, NAME_BYTES) == 0;

		if (t->slot->level)
			continue;
		if (same) {
			probed++;
			if (is_dead(t, tid, self) && adopt(t, tid, self))
				return t;
		} else if (probed_near < ADOPT_PROBED && shared(t->slot->name, name) >= least) {
			probed_near++;
			if (!is_dead(t, tid, self))
				continue;
			near = t;
			near_tid = tid;
			least = shared(t->slot->name, name) + 1;
		}
	}
	atomic_store(&a->adoption, t);
	if (!near || !adopt(near, near_tid, self))
		return NULL;
	slot_rename(near->slot, name);
	return near;
}

/* --- entering --------------------------------------------------------------------- */

static struct thread *thread_start(void)
{
	char name[NAME_BYTES] = "";
	struct agent *a = agent_current;
	struct thread *t;

	if (a->inert)
		return NULL;
	sys_prctl(16 /* PR_GET_NAME */, (unsigned long)name);
	t = thread_adopt(a, name);
	if (!t)
		t = thread_make(a, 0);
	if (t)
		thread_own_set(t);
	return t;
}

static void thread_off(void)
{
	atomic_store(gate_own(&agent_fixed.off), 1);
	atomic_store(gate_of(&agent_fixed.off), GATE_OFF);
	thread_own_set(&agent_fixed.off);
}

/* The first hook of a thread, of the process, or of a child of fork. */
static AGENT_COLD struct thread *thread_first(uintptr_t cfa)
{
	uint64_t all = ~UINT64_C(0), before = 0;
	struct thread *t = NULL;

	if (agent_frozen) {
		agent_count_early();
		return NULL;
	}
	sys_sigprocmask(SIG_SETMASK, &all, &before);
	enum process_started started = process_start();

	if (started == PROCESS_RECORDS) {
		/* The process's first thread was made by its start. */
		t = atomic_load_explicit(gate_of(thread_own()), memory_order_relaxed) == GATE_READY
			    ? thread_own()
			    : thread_start();
	}
	if (t)
		gate_set(t, cfa | GATE_REAL);
	else if (started == PROCESS_BUSY)
		agent_count_early();
	else
		thread_off();
	sys_sigprocmask(SIG_SETMASK, &before, NULL);
	return t;
}

static bool on_alternate_stack(void)
{
	stack_t now = {0};

	return sys_sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK);
}

/* Where the stack does not tell: a frame below the stack pointer is gone, but for a handler's
 * stack, which may lie above what the handler interrupted. */
static bool is_above(const struct thread *self, uintptr_t hook, uintptr_t cfa)
{
	if (cfa < hook)
		return false;
	if (!agent_frozen)
		return !on_alternate_stack();
	return self->unwind && stack_is_home(&self->unwind->stacks, cfa) &&
	       stack_is_home(&self->unwind->stacks, hook);
}

/* glibc's allocator calls no hook. */
static bool calls_hooks(void)
{
	return !real_facts.glibc_malloc || real_facts.library_new || inner_is_used;
}

/* What a busy gate means for the hook at cfa; self is the calling thread's first. */
static enum chain_place busy_place(struct thread *self, uintptr_t gate, uintptr_t cfa)
{
	uintptr_t hook = gate & ~(uintptr_t)15;
	enum chain_place place = chain_place(self, hook, cfa, gate & GATE_REAL);

	if ((place == CHAIN_CUT || place == CHAIN_LOST) && is_above(self, hook, cfa))
		return CHAIN_LEFT;
	/* The agent itself calls no hook: another hook stands where a jump left this one. */
	if (place == CHAIN_CALLED && !(gate & GATE_REAL))
		return CHAIN_LEFT;
	return place;
}

static void abandoned_enter(struct thread *t, uintptr_t cfa)
{
	agent_count_loss(MGL_LOSS_ABANDONED, 1);
	op_close(t);
	gate_set(t, cfa | GATE_REAL);
}

/* The struct thread for handlers that interrupt t's hooks; NULL = none to be had. */
static struct thread *nested_of(struct thread *t, uint32_t level)
{
	if (t->nested || level > NESTED_MAX || agent_frozen)
		return t->nested;
	struct signals signals = signals_hold();

	if (!t->nested)
		t->nested = thread_make(t->agent, level);
	signals_release(&signals);
	return t->nested;
}

/* A hook of this thread is running, or was left. */
static struct thread *thread_nested(struct thread *self, uintptr_t gate, uintptr_t cfa)
{
	struct thread *t = self;

	for (uint32_t level = 1;; level++) {
		enum chain_place place = busy_place(self, gate, cfa);

		if (place == CHAIN_LEFT) {
			abandoned_enter(t, cfa);
			return t;
		}
		if (place == CHAIN_CALLED || place == CHAIN_WITHIN)
			return NULL;
		if ((gate & GATE_REAL) && place == CHAIN_CUT && calls_hooks())
			return NULL;
		if ((gate & GATE_REAL) && place != CHAIN_IN_AGENT)
			break;
		t = nested_of(t, level);
		if (!t)
			break;
		gate = atomic_load_explicit(gate_of(t), memory_order_relaxed);
		if (gate & GATE_OFF)
			return NULL;
		if (gate == 0 || gate == GATE_READY) {
			gate_set(t, cfa | GATE_REAL);
			return t;
		}
	}
	agent_count_loss(MGL_LOSS_NESTED_CALLS, 1);
	return NULL;
}

/* NULL: call the real function and record nothing. */
AGENT_COLD struct thread *thread_enter_slow(struct thread *t, uintptr_t cfa)
{
	uintptr_t gate = atomic_load_explicit(gate_of(t), memory_order_relaxed);

	if (!real_resolve())
		return NULL;
	/* A child of fork may have set its gate again, in the hook that its parent was in. */
	if (gate == 0 || !atomic_load_explicit(gate_own(t), memory_order_relaxed))
		return thread_first(cfa);
	if (gate & GATE_OFF)
		return NULL;
	return thread_nested(t, gate, cfa);
}

/* In a child whose parent's handler forked while t's hook was on its way in. */
AGENT_COLD struct thread *thread_enter_child(struct thread *t, uintptr_t cfa)
{
	gate_set(t, 0);
	return thread_enter_slow(t, cfa);
}

AGENT_COLD void thread_leave_parent(void)
{
	uint64_t all = ~UINT64_C(0), before = 0;

	if (agent_frozen)
		return;
	sys_sigprocmask(SIG_SETMASK, &all, &before);
	process_leave_parent();
	sys_sigprocmask(SIG_SETMASK, &before, NULL);
}

bool thread_in_hook(void)
{
	return atomic_load_explicit(gate_of(thread_own()), memory_order_relaxed) &
	       (GATE_AGENT | GATE_REAL);
}

struct thread *thread_enter(uintptr_t cfa)
{
	struct thread *t = hook_enter(cfa);

	if (t)
		gate_set(t, cfa | GATE_AGENT);
	return t;
}

void thread_leave(struct thread *t) { gate_set(t, t->idle); }

void thread_real_begin(struct thread *t)
{
	uintptr_t gate = atomic_load_explicit(gate_of(t), memory_order_relaxed);

	gate_set(t, (gate & ~(uintptr_t)15) | GATE_REAL);
}

void thread_real_end(struct thread *t)
{
	uintptr_t gate = atomic_load_explicit(gate_of(t), memory_order_relaxed);

	gate_set(t, (gate & ~(uintptr_t)15) | GATE_AGENT);
}
