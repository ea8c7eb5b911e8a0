/*
 * The walk: registers in, trie node out. See unwind.h.
 *
 * Rules are tried in this order: the cached simple rule, the full row, a step by frame
 * pointer. A walk never starts over; where nothing leads further out it ends, flagged.
 */
#include "agent/unwind.h"

#include "agent/core.h"

#define RED_ZONE         128u
#define MADE_CODE_BYTES  (UINT64_C(256) << 20) /* a code cache */
#define MADE_FRAME_BYTES (UINT64_C(64) << 10)

static inline uint64_t load(uint64_t at) { return *(const uint64_t *)(uintptr_t)at; }

/* --- steps off the hot path ------------------------------------------------------------ */

/* Makes `bytes` from sp on readable, if they can be. */
static bool reach(struct unwind_state *u, struct unwind_cursor *c, uint64_t need)
{
	if (c->high < need)
		c->high = stack_extend(&u->stacks, c->high, need, !u->doubt);
	return c->high >= need;
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
	/* Often another stack, which may lie anywhere. */
	c->high = stack_high(&u->stacks, c->sp);
	return UNWIND_ON;
}

/* Interpreters push return addresses and jump. Such a one is believed where it leads from
 * made code to made code near by, along a chain of frame pointers. */
static bool is_made_chain(const struct unwind_cursor *c, uint64_t pc, uint32_t where,
			  uint64_t next_bp)
{
	return !(where & MGL_NODE_MODULE_MASK) &&
	       pc - c->pc + MADE_CODE_BYTES < 2 * MADE_CODE_BYTES && next_bp > c->bp &&
	       next_bp % 8 == 0 && next_bp - c->bp < MADE_FRAME_BYTES;
}

/* Code without CFI: the frame pointer, if rbp is one. From here on the walk is a guess. */
static enum unwind_step step_frame_pointer(struct thread *t, struct unwind_state *u,
					   struct unwind_cursor *c, uint32_t where,
					   uint32_t generation)
{
	uint64_t bp = c->bp, pc;
	struct rule_table *table = rules_table();

	/* The ABI's mark of an outermost frame. Code made at run time need not heed it. */
	if (bp == 0 && (where & MGL_NODE_MODULE_MASK))
		return UNWIND_END;
	u->doubt = true;
	if (bp % 8 || bp < c->sp || bp >> 47 || !reach(u, c, bp + 16))
		return UNWIND_CUT;
	pc = load(bp + 8);
	if (pc == 0)
		return UNWIND_END;
	uint64_t key = rule_key(pc - 1, generation);
	uint64_t rule = table && !(pc >> 47) ? rule_find(table, key) : 0;

	if (!rule)
		rule = unwind_rule(t, u, pc - 1, generation);
	if (rule_kind(rule) == RULE_NO_CODE ||
	    (!(rule_where(rule) & RULE_AFTER_CALL) &&
	     !is_made_chain(c, pc, where | rule_where(rule), load(bp))))
		return UNWIND_CUT;
	c->pc = pc;
	c->sp = bp + 16;
	c->bp = load(bp);
	c->exact = false;
	return UNWIND_ON;
}

static AGENT_COLD enum unwind_step step_other(struct thread *t, struct unwind_state *u,
					      struct unwind_cursor *c, uint64_t rule,
					      uint32_t generation)
{
	switch (rule_kind(rule)) {
	case RULE_END:
		return UNWIND_END;
	case RULE_SIGNAL:
		return step_signal(u, c);
	case RULE_FULL:
		return unwind_full(t, u, c);
	case RULE_NO_CFI:
		return step_frame_pointer(t, u, c, rule_where(rule), generation);
	default:
		return UNWIND_CUT;
	}
}

/* --- the walk ---------------------------------------------------------------------------- */

/* In an epilogue a saved register may lie below the stack pointer, in the red zone. */
static AGENT_COLD bool load_popped(struct unwind_state *u, struct unwind_cursor *c, uint64_t at)
{
	return c->exact && at < c->sp && c->sp - at <= RED_ZONE &&
	       stack_read(&u->stacks, at, &c->bp);
}

/* Out of a frame by a simple rule. false: something it would read is not stack. */
static inline bool step_simple(struct unwind_state *u, struct unwind_cursor *c, uint64_t rule)
{
	uint64_t base = rule_kind(rule) == RULE_SP ? c->sp : c->bp;
	uint64_t cfa = base + rule_cfa(rule);
	uint64_t origin = cfa;

	if (AGENT_UNLIKELY(rule_kind(rule) == RULE_DEREF)) {
		if (cfa < c->sp || cfa % 8 || !reach(u, c, cfa + 8))
			return false;
		origin = c->bp;
		cfa = load(cfa);
	}
	if (AGENT_UNLIKELY(cfa <= c->sp || cfa % 8 || cfa > c->high) &&
	    (cfa <= c->sp || cfa % 8 || !reach(u, c, cfa)))
		return false;
	if (rule_saves_bp(rule)) {
		uint64_t at = origin + rule_save(rule);

		if (AGENT_LIKELY(at >= c->sp && at <= c->high - 8))
			c->bp = load(at);
		else if (!load_popped(u, c, at))
			return false;
	}
	c->pc = load(cfa - 8);
	c->sp = cfa;
	return true;
}

static bool walk(struct thread *t, struct unwind_state *u)
{
	struct rule_table *table = rules_table();
	uint32_t generation = atomic_load_explicit(&rule_generation, memory_order_acquire);
	struct unwind_frame *f = u->frame, *end = f + u->inner + u->ring;
	struct unwind_cursor c = {.pc = u->entry.pc, .sp = u->entry.sp, .bp = u->entry.bp};
	uint32_t flags = 0;

	c.high = stack_high(&u->stacks, c.sp);
	for (uint32_t n = 1; n <= UNWIND_WALK_MAX; n++) {
		uint64_t address = c.pc - !c.exact;
		uint64_t rule = AGENT_LIKELY(table && !(address >> 47))
					? rule_find(table, rule_key(address, generation))
					: 0;

		if (AGENT_UNLIKELY(!rule)) {
			rule = unwind_rule(t, u, address, generation);
			table = rules_table();
			if (rule_kind(rule) == RULE_NO_CODE)
				return false;
		}
		f->pc = c.pc;
		f->sp = c.sp;
		f->bp = c.bp;
		f->where = rule_where(rule) | flags;
		f->kind = rule_kind(rule);
		u->count = n;
		if (++f == end)
			f = u->frame + u->inner;
		if (AGENT_LIKELY(rule_kind(rule) <= RULE_DEREF)) {
			if (!step_simple(u, &c, rule))
				return false;
			if (AGENT_UNLIKELY(c.pc == 0))
				return true;
			c.exact = false;
			flags = 0;
			continue;
		}
		enum unwind_step step = step_other(t, u, &c, rule, generation);

		if (step != UNWIND_ON)
			return step == UNWIND_END;
		flags = (c.exact ? MGL_NODE_EXACT : 0) |
			(rule_kind(rule) == RULE_NO_CFI ? MGL_NODE_FP : 0);
	}
	return false;
}

/* --- into the trie ------------------------------------------------------------------------- */

#define WHERE_FLAGS (MGL_NODE_MODULE_MASK | MGL_NODE_EXACT | MGL_NODE_FP)

/* Enters frames [from, to) of the walk, outermost first, below *node. */
static bool enter(struct thread *t, struct unwind_state *u, uint32_t from, uint32_t to,
		  uint32_t *node)
{
	for (uint32_t k = to; k-- > from;) {
		const struct unwind_frame *f = unwind_frame_at(u, k);

		if (f->where & RULE_HIDDEN)
			continue;
		uint32_t child = trie_child(t, *node, f->pc, f->where & WHERE_FLAGS);

		if (!child)
			return false;
		*node = child;
	}
	return true;
}

static bool enter_cut(struct thread *t, uint32_t *node)
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
	uint32_t inner = u->count < u->inner ? u->count : u->inner;
	uint32_t outer = u->count - inner < u->ring ? u->count - inner : u->ring;
	bool gap = inner + outer < u->count;
	bool fits = (whole || enter_cut(t, &node)) &&
		    enter(t, u, u->count - outer, u->count, &node) &&
		    (!gap || enter_cut(t, &node)) && enter(t, u, 0, inner, &node);

	if (!whole || gap || !fits)
		agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
	return node;
}

/* --- the interface ------------------------------------------------------------------------- */

static AGENT_COLD struct unwind_state *state_make(struct thread *t)
{
	uint32_t depth = atomic_load_explicit(&session_control()->max_depth, memory_order_relaxed);

	if (depth == 0)
		depth = UNWIND_DEPTH;
	if (depth < UNWIND_DEPTH_MIN)
		depth = UNWIND_DEPTH_MIN;
	if (depth > UNWIND_DEPTH_MAX)
		depth = UNWIND_DEPTH_MAX;
	struct unwind_state *u = private_alloc(sizeof(*u) + (size_t)depth * sizeof(u->frame[0]));

	if (!u)
		return NULL;
	u->inner = depth / 2;
	u->ring = depth - depth / 2;
	t->unwind = u;
	return u;
}

uint32_t unwind_stack(struct thread *t, const struct unwind_regs *regs)
{
	struct unwind_state *u = t->unwind;

	if (AGENT_UNLIKELY(!u)) {
		u = state_make(t);
		if (!u) {
			agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
			return trie_child(t, 0, 0, MGL_NODE_CUT);
		}
	}
	if (AGENT_UNLIKELY(u->stacks.thread != stack_thread()))
		stack_reset(&u->stacks, LEDGER_GET(t->slot->tid) == agent_process->pid);
	u->stacks.proven = 0;
	u->entry = *regs;
	u->entry_known = 0;
	u->count = 0;
	u->signals = 0;
	u->doubt = false;
	return enter_all(t, u, walk(t, u));
}
