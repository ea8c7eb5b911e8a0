/*
 * The chain of callers of a hook: see chain.h.
 *
 * A hook's frame is known by its CFA and by lying in the agent. The CFA alone would not do:
 * what called the hook may call something else later, with the same stack pointer.
 */
#include "agent/chain.h"

#include <string.h>

#include "agent/core.h"
#include "agent/signals.h"
#include "agent/unwind.h"

#define FRAMES 64u
#define KEPT   32u

/* A call of a hook by a real function: from where, and how far below its own hook. */
struct call {
	uint64_t pc;
	uint64_t below;
};
#define CALL_BITS 6u

/* A thread in name only: it has no slot and owns what the walk itself records. */
struct chain {
	struct call call[1u << CALL_BITS]; /* an allocator makes the same few again and again */
	struct thread thread;
	struct unwind_cursor cursor;
	struct unwind_state unwind;
	struct unwind_frame frame[FRAMES];
};

static struct chain *chain_make(struct thread *t)
{
	struct chain *c = private_alloc(sizeof(*c));

	if (!c)
		return NULL;
	c->thread.agent = t->agent;
	c->thread.process = t->process;
	c->thread.units = t->units;
	c->thread.unwind = &c->unwind;
	c->unwind.frame = c->frame;
	c->unwind.room = FRAMES;
	t->chain = c;
	return c;
}

void chain_forget(struct thread *t)
{
	if (t->chain)
		t->chain->unwind.stacks.thread = 0;
}

/* The frames next to the newest stay, for one whose rule needs a register that an inner one
 * saved; what registers there were at the start is out of reach then. */
static void frame_add(struct unwind_state *u, struct unwind_frame f)
{
	if (u->count == u->room) {
		u->count = KEPT;
		memcpy(u->frame, u->frame + u->room - KEPT, KEPT * sizeof(f));
		u->entry_known = 1u << CFI_RSP;
	}
	u->frame[u->count++] = f;
}

static void walk_begin(struct unwind_state *u, const struct unwind_regs *regs)
{
	if (u->stacks.thread != stack_thread())
		stack_reset(&u->stacks, sys_gettid() == agent_process->pid);
	u->stacks.proven = 0;
	u->entry = *regs;
	u->entry_known = 0;
	u->generation = atomic_load_explicit(&rule_generation, memory_order_acquire);
	u->count = 0;
	u->signals = 0;
	u->doubt = false;
}

/* The walk has met the hook's frame. in_agent: what the signal crossed last interrupted;
 * within: there is another hook this side of all signals. */
static enum chain_place place_of(const struct unwind_state *u, bool in_agent, bool within)
{
	if (u->signals == 0)
		return CHAIN_CALLED;
	if (within)
		return CHAIN_WITHIN;
	return in_agent ? CHAIN_IN_AGENT : CHAIN_IN_REAL;
}

static enum chain_place walk(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			     uint64_t hook)
{
	enum unwind_step step = UNWIND_ON;
	uint32_t signals = 0;
	bool in_agent = false, within = false, guessed = false;

	c->high = stack_high(&u->stacks, c->sp);
	for (uint32_t n = 0; step == UNWIND_ON && c->pc && n < UNWIND_WALK_MAX; n++) {
		uint64_t rule = unwind_rule_of(t, u, c);
		bool hidden = rule_where(rule) & RULE_HIDDEN;

		if (rule_kind(rule) == RULE_NO_CODE)
			break;
		guessed |= rule_kind(rule) == RULE_NO_CFI;
		if (u->signals != signals)
			in_agent = hidden;
		signals = u->signals;
		frame_add(u, unwind_frame_of(c, rule));
		c->flags = 0;
		step = unwind_step(t, u, c, rule);
		if (step == UNWIND_ON && hidden && c->sp == hook)
			return place_of(u, in_agent, within);
		within |= hidden && signals == 0;
	}
	if (!guessed && (step == UNWIND_END || c->pc == 0))
		return CHAIN_LEFT;
	return u->signals ? CHAIN_LOST : CHAIN_CUT;
}

static enum chain_place place_by_walk(struct chain *chain, const struct unwind_regs *regs,
				      uint64_t hook)
{
	chain->cursor = (struct unwind_cursor){.pc = regs->pc, .sp = regs->sp, .bp = regs->bp};
	walk_begin(&chain->unwind, regs);
	return walk(&chain->thread, &chain->unwind, &chain->cursor, hook);
}

static bool is_call(const struct call *call, const struct unwind_regs *regs, uint64_t below)
{
	return call->pc == regs->pc && call->below == below;
}

enum chain_place chain_place(struct thread *t, uintptr_t hook, uintptr_t cfa, bool calls)
{
	struct unwind_regs regs = {.sp = cfa};

	memcpy(&regs.pc, (const void *)(cfa - sizeof(regs.pc)), sizeof(regs.pc));
	/* The caller's still: the agent has no rbp of its own. */
	__asm__("mov %%rbp, %0" : "=r"(regs.bp));
	uint64_t below = hook - cfa;
	uint32_t at = (uint32_t)((regs.pc ^ below << 32) * RULE_MIX >> (64 - CALL_BITS));

	if (calls && t->chain &&
	    (is_call(&t->chain->call[at], &regs, below) ||
	     is_call(&t->chain->call[at ^ 1], &regs, below)))
		return CHAIN_CALLED;
	struct signals signals = signals_hold();
	enum chain_place place = CHAIN_CUT;

	if (signals.held && (t->chain || chain_make(t)))
		place = place_by_walk(t->chain, &regs, hook);
	signals_release(&signals);
	if (calls && place == CHAIN_CALLED) {
		/* Two that share a place, as an allocator's may, do not drive each other out. */
		t->chain->call[at ^ 1] = t->chain->call[at];
		t->chain->call[at] = (struct call){regs.pc, below};
	}
	return place;
}
