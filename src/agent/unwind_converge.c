/*
 * Converge, then verify: see unwind_saved.h.
 */
#include "agent/unwind_saved.h"

static inline bool is_met(const struct saved_frame *f, uint64_t key, uint64_t sp, uint64_t bp)
{
	return f->sp == sp && f->key == key && !((f->bp ^ bp) & f->bp_mask);
}

/* Leaves frames by simple rules until *saved is the one at the cursor (true), or no such rule
 * leads on within what is known readable. *saved is where to look from. */
static inline bool approach(struct unwind_state *u, struct unwind_cursor *c,
			    struct saved_frame **saved, struct rule_place place)
{
	struct unwind_frame *out = u->frame + u->count, *end = u->frame + u->room;
	struct saved_frame *f = *saved;
	uint64_t pc = c->pc, sp = c->sp, bp = c->bp;
	uint64_t room = c->high > sp ? (c->high - sp) / 8 : 0;
	bool met = false;

	for (;;) {
		while (f->sp < sp)
			f--;
		met = is_met(f, pc, sp, bp);
		if (met || out == end)
			break;
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
		*out++ = (struct unwind_frame){pc, sp, bp, rule};
		pc = unwind_load(cfa - 8);
		sp = cfa;
		bp = next_bp;
		room -= size + 1;
	}
	u->count = (uint32_t)(out - u->frame);
	c->pc = pc;
	c->sp = sp;
	c->bp = bp;
	*saved = f;
	return met;
}

/* Leaves the frame at the cursor by this rule. false: there the saved stacks are of no use. */
static inline bool leave(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			 uint64_t rule)
{
	if (AGENT_UNLIKELY(u->count == u->room) && !unwind_room(u))
		return false;
	u->frame[u->count++] = unwind_frame_of(c, rule);
	c->flags = 0;
	uint64_t base = rule & RULE_SP ? c->sp : c->bp;
	uint64_t cfa = base + (uint64_t)rule_cfa(rule) * 8;
	uint64_t at = cfa - rule_save(rule) * 8;

	if (AGENT_UNLIKELY(rule_kind(rule) - RULE_SP > RULE_BP - RULE_SP || c->exact ||
			   cfa <= c->sp || cfa % 8 || cfa > c->high || at < c->sp || at > cfa))
		return unwind_step(t, u, c, rule) == UNWIND_ON;
	if (at != cfa)
		c->bp = unwind_load(at);
	c->pc = unwind_load(cfa - 8);
	c->sp = cfa;
	return c->pc != 0;
}

/* Leaves the verified frames from *saved on, up to the one that `wrong` is of: who called it
 * is new. *saved is then the next one out. */
static bool leave_known(struct thread *t, struct unwind_state *u, struct unwind_cursor *c,
			const struct unwind_saved *s, struct saved_frame **saved,
			const struct unwind_pair *wrong)
{
	struct saved_frame *f = *saved;
	bool more = true;

	while (more) {
		more = wrong < s->pair + f[-1].pairs;
		if (!leave(t, u, c, f->rule))
			return false;
		f--;
	}
	*saved = f;
	return true;
}

/* The saved stack to meet from the cursor on, and its innermost frame. */
static struct unwind_saved *choose(struct unwind_state *u, struct unwind_cursor *c,
				   struct saved_frame **f)
{
	struct unwind_saved *s = unwind_saved_at(u, c->sp);

	*f = s ? &s->frame[s->count - 1] : NULL;
	return s;
}

uint32_t unwind_converge(struct thread *t, struct unwind_state *u)
{
	struct unwind_cursor c = {.pc = u->entry.pc, .sp = u->entry.sp, .bp = u->entry.bp};
	struct saved_frame *f;
	struct unwind_saved *s = choose(u, &c, &f);
	struct rule_table *table = rules_table();
	bool below = false; /* on the thread's own stack, deeper than ever before */

	if (!table || (!s && (!u->saved[0] || !u->saved[0]->count)))
		return 0;
	struct rule_place place = rule_place(table, u->generation);

	c.high = stack_high(&u->stacks, c.sp);
	if (AGENT_UNLIKELY(!s && stack_reaches_home(&u->stacks, c.sp))) {
		below = true;
		s = u->saved[0];
		f = &s->frame[s->count - 1];
		c.high = u->stacks.home_high;
	}
	for (;;) {
		bool met = false;

		if (AGENT_LIKELY(s && !c.flags)) {
			met = approach(u, &c, &f, place);
		} else if (s) {
			while (f->sp < c.sp)
				f--;
			met = is_met(f, unwind_key(c.pc, c.flags), c.sp, c.bp);
		}
		if (AGENT_UNLIKELY(s && f < s->frame))
			return 0;
		if (!met) {
			uint64_t rule = unwind_rule_of(t, u, &c);

			if (!leave(t, u, &c, rule))
				return 0;
			if (!s || rule_kind(rule) == RULE_SIGNAL || rule_kind(rule) == RULE_FULL)
				s = choose(u, &c, &f);
			continue;
		}
		if (u->count)
			trie_ahead(t, f->node);
		const struct unwind_pair *wrong = unwind_verify(s->pair + f->pairs, s->pair);

		if (AGENT_LIKELY(!wrong)) {
			if (AGENT_UNLIKELY(below && s == u->saved[0] && !u->doubt && !u->signals))
				stack_join_home(&u->stacks, u->entry.sp);
			return unwind_saved_join(t, u, s, f, c.bp);
		}
		if (!leave_known(t, u, &c, s, &f, wrong))
			return 0;
	}
}
