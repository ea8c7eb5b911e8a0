/*
 * The walk: registers in, trie node out. See unwind.h.
 *
 * Rules are tried in this order: the cached simple rule, the full row, a step by frame
 * pointer. A walk never starts over; where nothing leads further out it ends, flagged.
 */
#include "agent/unwind.h"

#include <string.h>

#include "agent/core.h"
#include "agent/unwind_saved.h"

#define CACHE_LINE       64u
#define FIRST_ROOM       256u
#define RED_ZONE         128u
#define MADE_CODE_BYTES  (UINT64_C(256) << 20) /* a code cache */
#define MADE_FRAME_BYTES (UINT64_C(64) << 10)
#define STACKS_APART     (UINT64_C(64) << 20)
#define BRANCHES         8u /* followed, to a memo */

/* --- steps off the hot path ------------------------------------------------------------ */

/* Makes `bytes` from sp on readable, if they can be. */
static bool reach(struct unwind_state *u, struct unwind_cursor *c, uint64_t need)
{
	if (c->high < need)
		c->high = stack_extend(&u->stacks, c->high, need, !u->doubt);
	return c->high >= need;
}

static uint64_t rule_of(struct thread *t, struct unwind_state *u, struct rule_table *table,
			uint64_t address)
{
	uint64_t rule = 0;

	if (table && !(address >> 47))
		rule = rule_find(rule_place(table, u->generation), address + 1);
	return rule ? rule : unwind_rule(t, u, address, u->generation);
}

uint64_t unwind_rule_of(struct thread *t, struct unwind_state *u, const struct unwind_cursor *c)
{
	return rule_of(t, u, rules_table(), c->pc - !c->exact);
}

static enum unwind_step step_signal(struct unwind_state *u, struct unwind_cursor *c)
{
	uint64_t sp = c->sp;

	if (++u->signals > UNWIND_SIGNALS || !reach(u, c, sp + UNWIND_SIGNAL_BYTES) ||
	    !unwind_signal_register(&u->stacks, sp, CFI_RIP, &c->pc) ||
	    !unwind_signal_register(&u->stacks, sp, CFI_RSP, &c->sp) ||
	    !unwind_signal_register(&u->stacks, sp, CFI_RBP, &c->bp))
		return UNWIND_CUT;
	c->exact = true;
	c->flags = MGL_NODE_EXACT;
	/* Often another stack, which may lie anywhere. */
	c->high = stack_high(&u->stacks, c->sp);
	return UNWIND_ON;
}

static bool is_near_above(uint64_t next_bp, uint64_t bp)
{
	return next_bp > bp && next_bp % 8 == 0 && next_bp - bp < MADE_FRAME_BYTES;
}

/* Interpreters push return addresses and jump. Such a one is believed where it leads from
 * made code to made code near by, along a chain of frame pointers. */
static bool is_made_chain(const struct unwind_cursor *c, uint64_t pc, uint32_t where,
			  uint64_t next_bp)
{
	return !(where & MGL_NODE_MODULE_MASK) &&
	       pc - c->pc + MADE_CODE_BYTES < 2 * MADE_CODE_BYTES && is_near_above(next_bp, c->bp);
}

/* Go calls C on another stack, and there leaves rbp as it was: the frame record it points to
 * lies far below. It is believed where one module's code leads to the same one's. What is
 * saved of a stack ends at such a step, for its pages have to be proven each time. */
static enum unwind_step step_other_stack(struct thread *t, struct unwind_state *u,
					 struct unwind_cursor *c, uint32_t where)
{
	uint64_t bp = c->bp, pc, next_bp;

	if (!(where & MGL_NODE_MODULE_MASK) || c->sp - bp < STACKS_APART ||
	    stack_is_home(&u->stacks, bp) || !stack_read(&u->stacks, bp, &next_bp) ||
	    !stack_read(&u->stacks, bp + 8, &pc) || (next_bp && !is_near_above(next_bp, bp)))
		return UNWIND_CUT;
	uint32_t outer = rule_where(rule_of(t, u, rules_table(), pc - 1));

	if (!(outer & RULE_AFTER_CALL) || ((outer ^ where) & MGL_NODE_MODULE_MASK))
		return UNWIND_CUT;
	c->pc = pc;
	c->sp = bp + 16;
	c->bp = next_bp;
	c->high = stack_high(&u->stacks, c->sp);
	c->exact = false;
	c->flags = MGL_NODE_FP;
	return UNWIND_ON;
}

/* Code without CFI: the frame pointer, if rbp is one. From here on the walk is a guess. */
static enum unwind_step step_frame_pointer(struct thread *t, struct unwind_state *u,
					   struct unwind_cursor *c, uint32_t where)
{
	uint64_t bp = c->bp, pc;

	/* The ABI's mark of an outermost frame. Code made at run time need not heed it. */
	if (bp == 0)
		return where & MGL_NODE_MODULE_MASK ? UNWIND_END : UNWIND_CUT;
	u->doubt = true;
	if (bp % 8 == 0 && bp < c->sp)
		return step_other_stack(t, u, c, where);
	if (bp % 8 || bp >> 47 || !reach(u, c, bp + 16))
		return UNWIND_CUT;
	pc = unwind_load(bp + 8);
	if (pc == 0)
		return UNWIND_END;
	uint64_t rule = rule_of(t, u, rules_table(), pc - 1);

	if (rule_kind(rule) == RULE_NO_CODE ||
	    (!(rule_where(rule) & RULE_AFTER_CALL) &&
	     !((rule_where(rule) & RULE_GOROUTINE) && unwind_load(bp) == 0) &&
	     !is_made_chain(c, pc, where | rule_where(rule), unwind_load(bp))))
		return UNWIND_CUT;
	c->pc = pc;
	c->sp = bp + 16;
	c->bp = unwind_load(bp);
	c->exact = false;
	c->flags = MGL_NODE_FP;
	return UNWIND_ON;
}

/* In an epilogue a saved register may lie below the stack pointer, in the red zone. */
static bool load_popped(struct unwind_state *u, struct unwind_cursor *c, uint64_t at)
{
	return c->exact && at < c->sp && c->sp - at <= RED_ZONE &&
	       stack_read(&u->stacks, at, &c->bp);
}

/* A simple rule where the hot path's checks fail: more stack must be proven readable, or
 * what it would read is no stack. */
static enum unwind_step step_simple(struct unwind_state *u, struct unwind_cursor *c, uint64_t rule)
{
	uint64_t base = rule_kind(rule) == RULE_SP ? c->sp : c->bp;
	uint64_t cfa = base + (uint64_t)rule_cfa(rule) * 8;
	uint64_t saved = cfa - rule_save(rule) * 8;

	if (rule_kind(rule) == RULE_DEREF) {
		if (cfa < c->sp || cfa % 8 || !reach(u, c, cfa + 8))
			return UNWIND_CUT;
		saved = c->bp + RULE_DEREF_ABOVE - rule_save(rule) * 8;
		cfa = unwind_load(cfa);
	}
	if (cfa <= c->sp || cfa % 8 || !reach(u, c, cfa))
		return UNWIND_CUT;
	if (rule_save(rule)) {
		if (saved >= c->sp && saved <= c->high - 8)
			c->bp = unwind_load(saved);
		else if (!load_popped(u, c, saved))
			return UNWIND_CUT;
	}
	c->pc = unwind_load(cfa - 8);
	c->sp = cfa;
	c->exact = false;
	return c->pc ? UNWIND_ON : UNWIND_END;
}

AGENT_COLD enum unwind_step unwind_step(struct thread *t, struct unwind_state *u,
					struct unwind_cursor *c, uint64_t rule)
{
	switch (rule_kind(rule)) {
	case RULE_SP:
	case RULE_BP:
	case RULE_DEREF:
		return step_simple(u, c, rule);
	case RULE_END:
		return UNWIND_END;
	case RULE_SIGNAL:
		return step_signal(u, c);
	case RULE_FULL:
		return unwind_full(t, u, c);
	case RULE_NO_CFI:
		return step_frame_pointer(t, u, c, rule_where(rule));
	default:
		return UNWIND_CUT;
	}
}

/* --- the walk ---------------------------------------------------------------------------- */

/* As many frames as simple rules lead through from *c, into [f, end), where all they read is
 * known readable. Returns past the last frame left; *c is the next one. An exact or guessed
 * frame is left to the caller. */
static inline struct unwind_frame *walk_simple(struct unwind_cursor *c, struct unwind_frame *f,
					       const struct unwind_frame *end,
					       struct rule_table *table, uint32_t generation)
{
	uint64_t pc = c->pc, sp = c->sp, bp = c->bp;
	uint64_t room = (c->high - sp) / 8; /* readable from sp on, in 8 bytes like all below */
	struct rule_place place = rule_place(table, generation);

	while (f != end) {
		uint64_t rule = rule_find(place, pc);
		uint64_t base = rule & RULE_SP ? sp : bp, next_bp = bp;

		if (AGENT_UNLIKELY(rule_kind(rule) - RULE_SP > RULE_BP - RULE_SP))
			break;
		uint64_t cfa = base + (uint64_t)rule_cfa(rule) * 8;
		/* The frame's size, less one; huge where cfa <= sp or not aligned. */
		uint64_t size = (cfa - sp - 8) >> 3 | (cfa - sp - 8) << 61;
		uint64_t save = rule_save(rule);

		if (AGENT_UNLIKELY(size >= room))
			break;
		if (save) {
			if (AGENT_UNLIKELY(save - 1 > size))
				break;
			next_bp = unwind_load(cfa - save * 8);
		}
		*f++ = (struct unwind_frame){pc, sp, bp, rule};
		pc = unwind_load(cfa - 8);
		sp = cfa;
		bp = next_bp;
		room -= size + 1;
	}
	c->pc = pc;
	c->sp = sp;
	c->bp = bp;
	return f;
}

static bool walk(struct thread *t, struct unwind_state *u)
{
	struct unwind_cursor c = {.pc = u->entry.pc, .sp = u->entry.sp, .bp = u->entry.bp};
	enum unwind_step step = UNWIND_ON;

	c.high = stack_high(&u->stacks, c.sp);
	while (step == UNWIND_ON) {
		struct rule_table *table = rules_table();
		struct unwind_frame *f = u->frame + u->count;

		if (AGENT_LIKELY(table && !c.flags))
			f = walk_simple(&c, f, u->frame + u->room, table, u->generation);
		u->count = (uint32_t)(f - u->frame);
		if (c.pc == 0)
			return u->count > 0;
		if (u->count == u->room) {
			if (!unwind_room(u))
				return false;
			continue;
		}
		uint64_t rule = unwind_rule_of(t, u, &c);

		if (rule_kind(rule) == RULE_NO_CODE)
			return false;
		u->frame[u->count++] = unwind_frame_of(&c, rule);
		c.flags = 0;
		step = unwind_step(t, u, &c, rule);
	}
	return step == UNWIND_END;
}

/* --- into the trie ------------------------------------------------------------------------- */

bool unwind_enter(struct thread *t, const struct unwind_frame *first, uint32_t n, uint32_t *node)
{
	uint32_t parent = *node;

	for (const struct unwind_frame *f = first + n; f-- != first;) {
		uint32_t where = rule_where(f->rule);

		if (AGENT_UNLIKELY(where & RULE_HIDDEN))
			continue;
		uint32_t child = trie_child(t, parent, f->pc, where & UNWIND_WHERE_FLAGS);

		if (AGENT_UNLIKELY(!child)) {
			*node = parent;
			return false;
		}
		parent = child;
	}
	*node = parent;
	return true;
}

bool unwind_enter_cut(struct thread *t, uint32_t *node)
{
	uint32_t child = trie_child(t, *node, 0, MGL_NODE_CUT);

	if (!child)
		return false;
	*node = child;
	return true;
}

static uint32_t enter_all(struct thread *t, struct unwind_state *u, bool whole)
{
	uint32_t node = 0;
	bool gap = u->count > u->inner + u->outer;
	uint32_t inner = gap ? u->inner : u->count;
	bool fits = (whole || unwind_enter_cut(t, &node)) &&
		    (!gap || (unwind_enter(t, u->frame + u->count - u->outer, u->outer, &node) &&
			      unwind_enter_cut(t, &node))) &&
		    unwind_enter(t, u->frame, inner, &node);

	if (AGENT_UNLIKELY(!whole || gap || !fits))
		agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
	return node;
}

/* --- the interface ------------------------------------------------------------------------- */

bool unwind_room(struct unwind_state *u)
{
	uint32_t room = u->room ? u->room * 2 : FIRST_ROOM;

	if (u->room >= UNWIND_WALK_MAX)
		return false;
	struct unwind_frame *frame = private_alloc(room * sizeof(*frame));

	if (!frame)
		return false;
	if (u->count)
		memcpy(frame, u->frame, u->count * sizeof(*frame));
	u->frame = frame;
	u->room = room;
	return true;
}

static AGENT_COLD struct unwind_state *state_make(struct thread *t)
{
	uint32_t depth = atomic_load_explicit(&session_control()->max_depth, memory_order_relaxed);
	char *memory = private_alloc(sizeof(struct unwind_state) + CACHE_LINE);

	if (!memory)
		return NULL;
	struct unwind_state *u =
		(void *)(((uintptr_t)memory + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));

	if (!unwind_room(u))
		return NULL;
	if (depth == 0)
		depth = UNWIND_DEPTH;
	if (depth < UNWIND_DEPTH_MIN)
		depth = UNWIND_DEPTH_MIN;
	if (depth > UNWIND_DEPTH_MAX)
		depth = UNWIND_DEPTH_MAX;
	u->inner = depth / 2;
	u->outer = depth - depth / 2;
	u->hot.epoch = 1;
	u->hot.memo = u->hot.last = u->hot.next = u->memo_first;
	u->hot.hint = u->hint_first;
	u->hot.shift = 64 - (uint32_t)__builtin_ctz(UNWIND_MEMOS);
	u->memos = UNWIND_MEMOS;
	t->unwind = u;
	return u;
}

void unwind_forget(struct thread *t)
{
	if (!t->unwind)
		return;
	stack_forget(&t->unwind->stacks);
	unwind_saved_forget(t->unwind);
}

static void walk_begin(struct unwind_state *u)
{
	u->stacks.proven = 0;
	u->entry_known = 0;
	u->count = 0;
	u->signals = 0;
	u->doubt = false;
}

static struct unwind_site *site_new(struct thread *t, uint32_t node)
{
	t->site = (struct unwind_site){.node = node};
	return &t->site;
}

static AGENT_COLD struct unwind_site *no_state(struct thread *t)
{
	agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
	return site_new(t, trie_child(t, 0, 0, MGL_NODE_CUT));
}

/* The hint at a key; 0 = there is none. */
static inline uint64_t hint_find(const struct unwind_state *u, uint64_t key)
{
	const uint64_t *hint = unwind_hints(u, key);

	for (uint32_t i = 0; i < UNWIND_HINTS; i++) {
		if (AGENT_LIKELY((hint[i] ^ key) <= UNWIND_HINT_MASK))
			return hint[i];
	}
	return 0;
}

/* Where branches lead from pc and sp: the key there, and the memo that may be this stack's;
 * NULL = there is none. */
static inline struct unwind_memo *memo_guess(const struct unwind_state *u,
					     const struct unwind_regs *regs, uint64_t *key)
{
	*key = unwind_memo_key(regs->pc, regs->sp);
	for (uint32_t n = 0; n < BRANCHES; n++) {
		uint64_t hint = hint_find(u, *key);
		uint64_t at = regs->sp + (hint & UNWIND_HINT_MASK & ~UNWIND_BRANCH) * 8;

		if (AGENT_UNLIKELY(!hint))
			return NULL;
		if (!(hint & UNWIND_BRANCH))
			return &u->hot.memo[hint & UNWIND_HINT_MASK];
		if (AGENT_UNLIKELY(regs->sp < u->stacks.home_low || at >= u->stacks.home_high))
			return NULL;
		*key = unwind_memo_key(*key, unwind_load(at));
	}
	return NULL;
}

/* The stack at sp differs in this word from e, the memo of *key, which goes to a key of its
 * own, as the one to be made of the stack does. */
static AGENT_COLD void branch_make(struct unwind_state *u, struct unwind_memo *e, uint64_t sp,
				   const struct unwind_words *w, uint32_t i, uint64_t *key)
{
	uint64_t at = sp + w->at[i] * 8, moved = unwind_memo_key(*key, w->value[i]);

	if (sp < u->stacks.home_low || at >= u->stacks.home_high)
		return;
	unwind_hint_set(u, *key, UNWIND_BRANCH | w->at[i]);
	e->key = unwind_key_part(moved);
	unwind_hint_set(u, moved, (uint64_t)(e - u->hot.memo));
	*key = unwind_memo_key(*key, unwind_load(at));
	u->memo_old = NULL;
}

static inline bool memo_is_of(const struct unwind_memo *e, const struct unwind_regs *regs,
			      uint32_t epoch)
{
	return e->pc == regs->pc && e->sp == regs->sp && e->epoch == epoch &&
	       !(e->bp_matters && e->sp + e->site.bp != regs->bp);
}

#define DIFFERS(i) AGENT_UNLIKELY(unwind_load(sp + (uint64_t)w->at[i] * 8) != w->value[i])

static inline bool words_same(const struct unwind_memo *e, uint64_t sp)
{
	for (const struct unwind_words *w = e->words, *end = w + e->groups; w < end; w++) {
		if (DIFFERS(0) || DIFFERS(1) || DIFFERS(2))
			return false;
	}
	return true;
}

/* By key; NULL as memo_find(). */
static inline struct unwind_memo *
memo_look_up(struct unwind_state *u, const struct unwind_regs *regs, uint64_t *key, uint32_t epoch)
{
	struct unwind_memo *e = memo_guess(u, regs, key);
	uint64_t sp = regs->sp;

	u->memo_old = NULL;
	if (AGENT_UNLIKELY(!e || e->key != unwind_key_part(*key)))
		return NULL;
	u->memo_old = e;
	if (AGENT_UNLIKELY(!memo_is_of(e, regs, epoch)))
		return NULL;
	for (const struct unwind_words *w = e->words, *end = w + e->groups; w < end; w++) {
		uint32_t i = DIFFERS(0) ? 0 : DIFFERS(1) ? 1 : DIFFERS(2) ? 2 : 3;

		if (AGENT_UNLIKELY(i < 3)) {
			branch_make(u, e, sp, w, i, key);
			return NULL;
		}
	}
	u->hot.last->next = (uint16_t)(e - u->hot.memo);
	return e;
}

#undef DIFFERS

/* The memo of this stack, if all is as it was. NULL = there is none, and *key and u->memo_old say
 * where it is to be. The one that followed the last one before is tried first: it is known
 * before the hook is called. */
static inline struct unwind_memo *memo_find(struct unwind_state *u, const struct unwind_regs *regs,
					    uint64_t *key, uint32_t epoch)
{
	struct unwind_memo *e = u->hot.next;

	if (!memo_is_of(e, regs, epoch) || !words_same(e, regs->sp))
		e = memo_look_up(u, regs, key, epoch);
	if (AGENT_UNLIKELY(!e))
		return NULL;
	const struct unwind_saved *s = u->saved[e->saved];
	const struct saved_frame *f = s->frame + e->base;

	if (AGENT_UNLIKELY(e->base >= s->count || f->sp != e->sp + e->base_sp ||
			   f->node != e->base_node ||
			   ((f->bp ^ (e->sp + e->base_bp)) & f->bp_mask) ||
			   unwind_verify(s->pair + f->pairs, s->pair))) {
		u->memo_old = e;
		return NULL;
	}
	unwind_memo_used(u, e);
	return e;
}

/* Of a stack unknown so far, or one whose words are not as they were. looked: for a memo, key
 * is of the one to make. */
static __attribute__((noinline)) struct unwind_site *
stack_new(struct thread *t, const struct unwind_regs *regs, bool looked, uint64_t key)
{
	struct unwind_state *u = t->unwind ? t->unwind : state_make(t);

	if (AGENT_UNLIKELY(!u))
		return no_state(t);
	if (AGENT_UNLIKELY(u->stacks.thread != stack_thread())) {
		unwind_saved_forget(u);
		stack_reset(&u->stacks, LEDGER_GET(t->slot->tid) == agent_process->pid);
	}
	u->entry = *regs;
	u->generation = atomic_load_explicit(&rule_generation, memory_order_acquire);
	if (AGENT_UNLIKELY(u->hot.generation != u->generation)) {
		unwind_saved_forget(u);
		u->hot.generation = u->generation;
	}
	if (!looked || (u->memo_old && (u->memo_old->epoch & UNWIND_DEEP))) {
		struct unwind_memo *e = memo_find(u, regs, &key, u->hot.epoch | UNWIND_DEEP);

		if (AGENT_UNLIKELY(e)) {
			agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
			return &e->site;
		}
	}
	u->memo_key = key;
	u->site = NULL;
	walk_begin(u);
	uint32_t node = unwind_converge(t, u);

	if (AGENT_UNLIKELY(!node)) {
		walk_begin(u);
		bool whole = walk(t, u);

		node = whole ? unwind_saved_enter(t, u) : 0;
		if (!node)
			node = enter_all(t, u, whole);
	}
	return u->site ? u->site : site_new(t, node);
}

/* On its own, so that the shorter way saves no registers. */
static __attribute__((noinline)) struct unwind_site *stack_other(struct thread *t,
								 const struct unwind_regs *regs)
{
	struct unwind_state *u = t->unwind;
	uint64_t key = 0;
	struct unwind_memo *e = memo_find(u, regs, &key, u->hot.epoch);

	return AGENT_LIKELY(e) ? &e->site : stack_new(t, regs, true, key);
}

struct unwind_site *unwind_stack(struct thread *t, const struct unwind_regs *regs)
{
	struct unwind_state *u = t->unwind;

	if (AGENT_UNLIKELY(!u || u->hot.generation != atomic_load_explicit(&rule_generation,
									   memory_order_relaxed)))
		return stack_new(t, regs, false, 0);
	if (u->hot.sp == regs->sp && u->hot.pc == regs->pc &&
	    !((u->hot.bp ^ regs->bp) & u->hot.bp_mask) &&
	    AGENT_LIKELY(!unwind_verify(u->hot.pair, u->hot.first)) &&
	    AGENT_LIKELY(u->hot.site.node))
		return &u->hot.site;
	return stack_other(t, regs);
}
