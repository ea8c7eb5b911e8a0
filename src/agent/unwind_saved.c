/*
 * Converge, then verify: see unwind_saved.h.
 */
#include "agent/unwind_saved.h"

#include "agent/core.h"

struct saved_frame {
	uint64_t pc;
	uint64_t sp;
	uint64_t bp;
	uint64_t rule;
};

/* frame[0] is the outermost. */
struct unwind_saved {
	uint64_t thread; /* stack_map.thread of the stack they are of */
	uint32_t generation;
	uint32_t count;
	uint32_t capacity;
	uint32_t *node; /* of each frame */
	struct saved_frame frame[];
};

static inline uint64_t load(uint64_t at) { return *(const uint64_t *)(uintptr_t)at; }

static inline bool is_simple(uint64_t rule)
{
	return rule_kind(rule) == RULE_SP || rule_kind(rule) == RULE_BP;
}

/* --- saving ----------------------------------------------------------------------------- */

static struct unwind_saved *saved_make(struct unwind_state *u)
{
	uint32_t capacity = u->inner + u->ring;
	struct unwind_saved *s = private_alloc(sizeof(*s) + (size_t)capacity * sizeof(s->frame[0]));

	if (!s)
		return NULL;
	s->node = private_alloc((size_t)capacity * sizeof(s->node[0]));
	if (!s->node)
		return NULL;
	s->capacity = capacity;
	u->saved = s;
	return s;
}

/* Puts u's first n frames below the saved ones, into the trie all, and onto the saved stack
 * up to the first whose rule is not simple. */
static uint32_t append(struct thread *t, struct unwind_state *u, struct unwind_saved *s, uint32_t n)
{
	uint32_t count = s->count;
	uint32_t node = count ? s->node[count - 1] : 0;
	bool saving = true;

	s->count = 0; /* stays so if the trie is full */
	for (uint32_t k = n; k-- > 0;) {
		const struct unwind_frame *f = &u->frame[k];
		uint32_t where = rule_where(f->rule);

		if (AGENT_LIKELY(!(where & RULE_HIDDEN)))
			node = trie_child(t, node, f->pc, where & UNWIND_WHERE_FLAGS);
		if (AGENT_UNLIKELY(!node && !(where & RULE_HIDDEN)))
			return 0;
		saving = saving && count < s->capacity &&
			 (is_simple(f->rule) || (count == 0 && rule_kind(f->rule) == RULE_END)) &&
			 !(where & (MGL_NODE_EXACT | MGL_NODE_FP)) &&
			 stack_is_home(&u->stacks, f->sp);
		if (!saving)
			continue;
		s->frame[count] = (struct saved_frame){f->pc, f->sp, f->bp, f->rule};
		s->node[count++] = node;
	}
	s->count = count;
	return node;
}

uint32_t unwind_saved_enter(struct thread *t, struct unwind_state *u)
{
	struct unwind_saved *s = u->saved ? u->saved : saved_make(u);

	if (!s || u->count == 0 || u->count > u->inner + u->ring)
		return 0;
	s->count = 0;
	s->thread = u->stacks.thread;
	s->generation = u->generation;
	return append(t, u, s, u->count);
}

void unwind_saved_forget(struct unwind_state *u)
{
	if (u->saved)
		u->saved->count = 0;
}

/* --- converging ------------------------------------------------------------------------- */

/* rbp at frame k is bp now. Whether that changes nothing further out: it is reloaded before
 * a CFA is made of it. If so, bp is what the saved frames have from here on. */
static bool bp_is_dead(struct unwind_saved *s, uint32_t k, uint64_t bp)
{
	uint32_t i = k;

	while (i > 0 && rule_kind(s->frame[i].rule) == RULE_SP && !rule_save(s->frame[i].rule))
		i--;
	if (rule_kind(s->frame[i].rule) == RULE_BP)
		return false;
	for (; i <= k; i++)
		s->frame[i].bp = bp;
	return true;
}

/* From frame k out: the first frame whose caller is not the one saved; 0 = none. */
static inline uint32_t verify(struct unwind_saved *s, uint32_t k)
{
	for (; k > 0; k--) {
		const struct saved_frame *outer = &s->frame[k - 1];
		uint64_t save = rule_save(s->frame[k].rule);

		if (AGENT_UNLIKELY(load(outer->sp - 8) != outer->pc))
			return k;
		if (!save)
			continue;
		uint64_t bp = load(outer->sp - save * 8);

		if (AGENT_UNLIKELY(bp != outer->bp) && !bp_is_dead(s, k - 1, bp))
			return k;
	}
	return 0;
}

/* Out of a frame by a simple rule. false: what it would read is not known to be stack. */
static inline bool step(struct unwind_cursor *c, uint64_t rule)
{
	uint64_t base = rule_kind(rule) == RULE_SP ? c->sp : c->bp;
	uint64_t cfa = base + (uint64_t)rule_cfa(rule) * 8;
	uint64_t save = rule_save(rule);

	if (AGENT_UNLIKELY(cfa <= c->sp || cfa % 8 || cfa > c->high))
		return false;
	if (save) {
		uint64_t at = cfa - save * 8;

		if (AGENT_UNLIKELY(at < c->sp || at > cfa - 8))
			return false;
		c->bp = load(at);
	}
	c->pc = load(cfa - 8);
	c->sp = cfa;
	return c->pc != 0;
}

/* The frame at c, newest of the walk, is left. */
static inline bool leave(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			 uint64_t rule)
{
	if (AGENT_UNLIKELY(u->count >= u->inner))
		return false;
	u->frame[u->count++] = (struct unwind_frame){c->pc, c->sp, c->bp,
						     rule | (uint64_t)c->flags << RULE_WHERE_SHIFT};
	c->flags = 0;
	if (AGENT_LIKELY(is_simple(rule) && !c->exact))
		return step(c, rule);
	return unwind_step(t, u, c, rule) == UNWIND_ON;
}

uint32_t unwind_saved_node(struct thread *t, struct unwind_state *u)
{
	struct unwind_saved *s = u->saved;
	struct unwind_cursor c = {.pc = u->entry.pc, .sp = u->entry.sp, .bp = u->entry.bp};
	struct rule_table *table = rules_table();

	if (!s || s->count == 0 || s->generation != u->generation ||
	    s->thread != u->stacks.thread || !stack_is_home(&u->stacks, c.sp) || !table)
		return 0;
	struct rule_place place = rule_place(table, u->generation);
	uint32_t j = s->count; /* frames of the saved stack that can still be met */

	c.high = u->stacks.home_high;
	for (;;) {
		uint64_t rule = 0;

		while (j > 0 && s->frame[j - 1].sp < c.sp)
			j--;
		if (AGENT_UNLIKELY(j == 0))
			return 0;
		const struct saved_frame *f = &s->frame[j - 1];

		if (f->sp == c.sp && f->pc == c.pc && !c.exact && !c.flags &&
		    (f->bp == c.bp || bp_is_dead(s, j - 1, c.bp))) {
			uint32_t wrong = verify(s, j - 1);

			if (AGENT_LIKELY(wrong == 0)) {
				/* Too deep to be kept whole: one site, whatever came before. */
				if (AGENT_UNLIKELY(j + u->count > s->capacity))
					return 0;
				s->count = j;
				return append(t, u, s, u->count);
			}
			/* Frames j − 1 … wrong are walked by what is known of them; the last
			 * leads to a caller that is new. */
			for (; j > wrong; j--) {
				f = &s->frame[j - 1];
				c = (struct unwind_cursor){f->pc, f->sp, f->bp, .high = c.high};
				if (!leave(t, u, &c, f->rule))
					return 0;
			}
			continue;
		}
		if (!c.exact && !c.flags)
			rule = rule_find(place, c.pc);
		if (AGENT_UNLIKELY(!rule))
			rule = unwind_rule_of(t, u, &c);
		if (!leave(t, u, &c, rule))
			return 0;
	}
}
