/*
 * Keeping stacks: see unwind_saved.h.
 */
#include "agent/unwind_saved.h"

#include <string.h>

#include "agent/core.h"

#define FIRST_ROOM  256u
#define MEMO_GROWTH 4u
#define FRAME_PAIRS 3u
#define OWN         0u /* index of the thread's own stack */

/* A fiber's stack is at most so large, for what is kept of it to be looked at. */
#define FIBER_BYTES (UINT64_C(1) << 20)

/* --- memory ------------------------------------------------------------------------------ */

static const uint64_t never_differs;

/* Makes room for this many frames. false: there is none, s is as before. */
static bool saved_room(struct unwind_saved *s, uint32_t frames)
{
	uint32_t room = s->room ? s->room : FIRST_ROOM;

	if (AGENT_LIKELY(frames <= s->room))
		return true;
	while (room < frames)
		room *= 2;
	struct saved_frame *frame = private_alloc((1 + (size_t)room) * sizeof(*frame));
	struct unwind_pair *pair =
		private_alloc((UNWIND_PAD + FRAME_PAIRS * (size_t)room) * sizeof(*pair));

	if (!frame || !pair)
		return false;
	*frame++ = (struct saved_frame){.sp = UINT64_MAX};
	for (uint32_t i = 0; i < UNWIND_PAD; i++)
		*pair++ = (struct unwind_pair){(uint64_t)(uintptr_t)&never_differs, 0};
	if (s->count) {
		memcpy(frame, s->frame, s->count * sizeof(*frame));
		memcpy(pair, s->pair, s->frame[s->count - 1].pairs * sizeof(*pair));
	}
	s->frame = frame;
	s->pair = pair;
	s->room = room;
	return true;
}

/* --- which ------------------------------------------------------------------------------- */

struct unwind_saved *unwind_saved_at(struct unwind_state *u, uint64_t sp)
{
	struct unwind_saved *best = NULL;
	uint64_t distance = FIBER_BYTES;

	if (AGENT_LIKELY(stack_is_home(&u->stacks, sp)))
		return u->saved[OWN] && u->saved[OWN]->count ? u->saved[OWN] : NULL;
	for (uint32_t i = OWN + 1; i < UNWIND_SAVED; i++) {
		struct unwind_saved *s = u->saved[i];

		if (s && s->count && s->frame[0].sp - sp < distance) {
			distance = s->frame[0].sp - sp;
			best = s;
		}
	}
	return best;
}

/* The index for a fiber whose root is at sp: its own, or a free one, or another's. */
static uint32_t index_for_fiber(struct unwind_state *u, uint64_t sp)
{
	uint32_t spare = 0;

	for (uint32_t i = OWN + 1; i < UNWIND_SAVED; i++) {
		const struct unwind_saved *s = u->saved[i];

		if (s && s->count && s->frame[0].sp == sp)
			return i;
		if (!s || !s->count)
			spare = i;
	}
	return spare ? spare : OWN + 1 + u->saved_next++ % (UNWIND_SAVED - 1);
}

/* Where a stack with this root is saved, empty; NULL = no memory. */
static struct unwind_saved *saved_for_root(struct unwind_state *u, uint64_t sp)
{
	uint32_t i = stack_is_home(&u->stacks, sp) ? OWN : index_for_fiber(u, sp);

	if (!u->saved[i])
		u->saved[i] = private_alloc(sizeof(*u->saved[i]));
	if (u->saved[i])
		u->saved[i]->count = 0;
	return u->saved[i];
}

static inline uint32_t index_of(const struct unwind_state *u, const struct unwind_saved *s)
{
	uint32_t i = 0;

	while (u->saved[i] != s)
		i++;
	return i;
}

void unwind_saved_forget(struct unwind_state *u)
{
	u->hot.site.node = 0;
	u->hot.epoch++;
	for (uint32_t i = 0; i < UNWIND_SAVED; i++) {
		if (u->saved[i])
			u->saved[i]->count = 0;
	}
	atomic_signal_fence(memory_order_seq_cst);
}

/* --- pairs ------------------------------------------------------------------------------- */

/* rbp matters at a frame of this rule; `outer`: it does at the caller's. */
static inline bool bp_matters(uint64_t rule, bool outer)
{
	switch (rule_kind(rule)) {
	case RULE_SP:
		return outer && !rule_save(rule);
	case RULE_BP:
	case RULE_DEREF:
	case RULE_NO_CFI:
		return true;
	default:
		return false;
	}
}

static inline bool is_simple(uint64_t rule)
{
	return rule_kind(rule) - RULE_SP <= RULE_BP - RULE_SP;
}

/* The words by which f is left for `outer`, the one to be compared first last; outer_bp:
 * what rbp holds there matters. Past the last; NULL = not to be told by a few words. */
static AGENT_COLD struct unwind_pair *pairs_of(struct unwind_pair *p, const struct unwind_frame *f,
					       const struct unwind_frame *outer, bool outer_bp)
{
	uint64_t save = rule_save(f->rule) * 8;

	switch (rule_kind(f->rule)) {
	case RULE_SP:
	case RULE_BP:
		if (save && outer_bp)
			*p++ = (struct unwind_pair){outer->sp - save, outer->bp};
		*p++ = (struct unwind_pair){outer->sp - 8, outer->pc};
		return p;
	case RULE_DEREF:
		if (save && outer_bp)
			*p++ = (struct unwind_pair){f->bp + RULE_DEREF_ABOVE - save, outer->bp};
		*p++ = (struct unwind_pair){outer->sp - 8, outer->pc};
		*p++ = (struct unwind_pair){f->bp + (uint64_t)rule_cfa(f->rule) * 8, outer->sp};
		return p;
	case RULE_NO_CFI:
		if (outer->sp <= f->sp) /* another stack: not known to be there still */
			return NULL;
		*p++ = (struct unwind_pair){f->bp, outer->bp};
		*p++ = (struct unwind_pair){f->bp + 8, outer->pc};
		return p;
	case RULE_SIGNAL:
		if (outer_bp)
			*p++ = unwind_signal_pair(f->sp, CFI_RBP, outer->bp);
		*p++ = unwind_signal_pair(f->sp, CFI_RIP, outer->pc);
		*p++ = unwind_signal_pair(f->sp, CFI_RSP, outer->sp);
		return p;
	default:
		return NULL;
	}
}

/* The same for the outermost frame. */
static struct unwind_pair *pairs_of_root(struct unwind_pair *p, const struct unwind_frame *f)
{
	uint64_t base = rule_kind(f->rule) == RULE_SP ? f->sp : f->bp;
	struct unwind_frame none = {.sp = base + (uint64_t)rule_cfa(f->rule) * 8};

	switch (rule_kind(f->rule)) {
	case RULE_END:
		return p;
	case RULE_SP:
	case RULE_BP:
		return pairs_of(p, f, &none, false);
	case RULE_NO_CFI:
		if (f->bp)
			*p++ = (struct unwind_pair){f->bp + 8, 0};
		return p;
	default:
		return NULL;
	}
}

/* --- saving ------------------------------------------------------------------------------ */

static void hot_set(struct unwind_state *u, const struct unwind_saved *s,
		    const struct saved_frame *f)
{
	u->hot.site.node = 0;
	atomic_signal_fence(memory_order_seq_cst);
	u->hot.pc = u->entry.pc;
	u->hot.sp = u->entry.sp;
	u->hot.bp = u->entry.bp;
	u->hot.bp_mask = f->bp_mask;
	u->hot.pair = s->pair + f->pairs;
	u->hot.first = s->pair;
	atomic_signal_fence(memory_order_seq_cst);
	u->hot.site = (struct unwind_site){.node = f->node};
}

/* Makes room for more memos, if it can be had. */
static AGENT_COLD void memos_grow(struct unwind_state *u)
{
	struct unwind_memo *old = u->hot.memo, *memo = NULL;
	uint64_t *hint = u->hot.hint, size = u->memos * MEMO_GROWTH;
	size_t bytes = sizeof(*memo) + UNWIND_HINTS * sizeof(*hint);

	if (size <= UNWIND_MEMOS_MOST)
		memo = private_pages_kept(size * bytes);
	if (!memo)
		return;
	memcpy(memo, old, u->memos * sizeof(*memo));
	/* A hook that is left between these has every index in the larger tables. */
	u->hot.memo = u->hot.last = u->hot.next = memo;
	u->hot.hint = (uint64_t *)(memo + size);
	atomic_signal_fence(memory_order_seq_cst);
	u->hot.shift = 64 - (uint32_t)__builtin_ctzll(size);
	for (uint32_t i = u->memos * UNWIND_HINTS; i-- > 0;) {
		if (hint[i])
			unwind_hint_set(u, hint[i], hint[i] & UNWIND_HINT_MASK);
	}
	u->memos_set = u->memos;
	if (old != u->memo_first)
		private_pages_free(old, u->memos * bytes);
	u->memos = (uint32_t)size;
}

/* The words of pair .. end, the innermost last. false: too many, or too far apart. */
static bool words_of(struct unwind_memo *e, const struct unwind_pair *pair,
		     const struct unwind_pair *end)
{
	uint32_t n = (uint32_t)(end - pair);

	e->groups = (n + UNWIND_MEMO_WORDS - 1) / UNWIND_MEMO_WORDS;
	for (uint32_t i = 0; i < e->groups * UNWIND_MEMO_WORDS; i++) {
		const struct unwind_pair *p = end - 1 - (i < n ? i : n - 1);
		struct unwind_words *w = &e->words[i / UNWIND_MEMO_WORDS];
		uint64_t off = p->at - e->sp;

		if (off % 8 || off / 8 > UINT16_MAX)
			return false;
		w->value[i % UNWIND_MEMO_WORDS] = p->value;
		w->at[i % UNWIND_MEMO_WORDS] = (uint16_t)(off / 8);
	}
	return true;
}

/* pair .. end, the innermost last, lead from the hook to the frame `base` of s. */
static void memo_set(struct unwind_state *u, const struct unwind_saved *s, uint32_t base,
		     const struct unwind_pair *pair, const struct unwind_pair *end,
		     uint64_t bp_mask, uint32_t node, uint32_t epoch)
{
	const struct saved_frame *f = s->frame + base;
	struct unwind_memo *e = u->memo_old;
	uint64_t sp = u->entry.sp;

	if ((size_t)(end - pair) > UNWIND_MEMO_GROUPS * UNWIND_MEMO_WORDS || base > UINT16_MAX ||
	    (f->sp - sp) >> 32 || ((f->bp - sp) & f->bp_mask) >> 32 ||
	    ((u->entry.bp - sp) & bp_mask) >> 32)
		return;
	if (!e) {
		if (AGENT_UNLIKELY(u->memos_set == u->memos))
			memos_grow(u);
		e = &u->hot.memo[u->memos_set++ % u->memos];
		unwind_hint_set(u, u->memo_key, (uint64_t)(e - u->hot.memo));
		e->key = unwind_key_part(u->memo_key);
	}
	e->epoch = 0;
	atomic_signal_fence(memory_order_seq_cst);
	e->pc = u->entry.pc;
	e->sp = sp;
	if (e->site.node != node)
		e->site = (struct unwind_site){.node = node};
	e->site.bp = (uint32_t)(u->entry.bp - sp);
	e->bp_matters = bp_mask != 0;
	e->base_sp = (uint32_t)(f->sp - sp);
	e->base_bp = (uint32_t)(f->bp - sp);
	e->base_node = f->node;
	e->base = (uint16_t)base;
	e->saved = (uint8_t)index_of(u, s);
	if (!words_of(e, pair, end))
		return;
	atomic_signal_fence(memory_order_seq_cst);
	e->epoch = epoch;
	u->site = &e->site;
	u->hot.last->next = (uint16_t)(e - u->hot.memo);
	unwind_memo_used(u, e);
}

/* The node of a stack too deep, of frames 0 … kept − 1 of s and then the walk's: its outermost
 * ones lead to `node`. 0 = no room. */
static uint32_t node_of_deep(struct thread *t, struct unwind_state *u, const struct unwind_saved *s,
			     uint32_t kept, uint32_t node)
{
	uint32_t first = kept + u->count - u->inner; /* of the innermost ones */

	if (!unwind_enter_cut(t, &node))
		return 0;
	for (; first < kept; first++) {
		const struct saved_frame *f = &s->frame[first];
		struct unwind_frame one = {.pc = f->key & ((UINT64_C(1) << 48) - 1),
					   .rule = f->rule};

		if (!unwind_enter(t, &one, 1, &node))
			return 0;
	}
	return unwind_enter(t, u->frame, kept + u->count - first, &node) ? node : 0;
}

/* The walk's frames further in than the first `kept` of s, which are verified; rbp there. */
static uint32_t append(struct thread *t, struct unwind_state *u, struct unwind_saved *s,
		       uint32_t kept, uint64_t bp)
{
	uint32_t limit = u->inner + u->outer, at = kept, cut_node = 0;
	struct saved_frame *to = s->frame + kept;
	const struct unwind_frame *f = u->frame + u->count;
	struct unwind_frame outer = {
		.pc = kept ? to[-1].key & ((UINT64_C(1) << 48) - 1) : 0, .sp = to[-1].sp, .bp = bp};
	uint32_t node = to[-1].node;
	uint64_t mask = to[-1].bp_mask;
	struct unwind_pair *pair = s->pair + to[-1].pairs, *first = pair;
	bool own = s == u->saved[OWN], saving = true;

	if (kept >= u->outer)
		cut_node = s->frame[u->outer - 1].node;
	u->hot.site.node = 0;
	s->count = kept;
	atomic_signal_fence(memory_order_seq_cst);
	while (f-- != u->frame) {
		uint32_t where = rule_where(f->rule);

		if (at < limit) {
			if (AGENT_LIKELY(!(where & RULE_HIDDEN)))
				node = trie_child(t, node, f->pc, where & UNWIND_WHERE_FLAGS);
			if (AGENT_UNLIKELY(!node && !(where & RULE_HIDDEN)))
				return 0;
		} else {
			node = ++u->frames_deep;
		}
		if (++at == u->outer)
			cut_node = node;
		if (AGENT_LIKELY(pair && is_simple(f->rule) && to != s->frame)) {
			uint64_t save = rule_save(f->rule);

			if (save && mask)
				*pair++ = (struct unwind_pair){outer.sp - save * 8, outer.bp};
			*pair++ = (struct unwind_pair){outer.sp - 8, outer.pc};
			mask = f->rule & RULE_SP ? save ? 0 : mask : ~UINT64_C(0);
		} else {
			if (pair)
				pair = to == s->frame ? pairs_of_root(pair, f)
						      : pairs_of(pair, f, &outer, mask != 0);
			mask = bp_matters(f->rule, mask != 0) ? ~UINT64_C(0) : 0;
		}
		saving = saving && pair && f->sp < outer.sp &&
			 (!own || stack_is_home(&u->stacks, f->sp));
		if (AGENT_LIKELY(saving))
			*to++ = (struct saved_frame){
				unwind_key(f->pc, where),  f->sp, f->bp, mask, f->rule, node,
				(uint32_t)(pair - s->pair)};
		outer.pc = f->pc;
		outer.sp = f->sp;
		outer.bp = f->bp;
	}
	uint32_t epoch = u->hot.epoch;

	if (AGENT_UNLIKELY(at > limit)) {
		node = node_of_deep(t, u, s, kept, cut_node);
		if (!node)
			return 0;
		epoch |= UNWIND_DEEP;
		agent_count_loss(MGL_LOSS_CUT_STACKS, 1);
	}
	atomic_signal_fence(memory_order_seq_cst);
	s->count = (uint32_t)(to - s->frame);
	if (s->count == 0)
		return node;
	if (saving && at <= limit)
		hot_set(u, s, to - 1);
	if (kept && pair)
		memo_set(u, s, kept - 1, first, pair, mask, node, epoch);
	return node;
}

uint32_t unwind_saved_join(struct thread *t, struct unwind_state *u, struct unwind_saved *s,
			   struct saved_frame *base, uint64_t bp)
{
	uint32_t kept = (uint32_t)(base - s->frame) + 1;

	if (kept + u->count > UNWIND_WALK_MAX || !saved_room(s, kept + u->count))
		return 0;
	base = s->frame + kept - 1;
	if (u->count || kept > u->inner + u->outer)
		return append(t, u, s, kept, bp);
	hot_set(u, s, base);
	memo_set(u, s, kept - 1, s->pair, s->pair, base->bp_mask, base->node, u->hot.epoch);
	return base->node;
}

uint32_t unwind_saved_enter(struct thread *t, struct unwind_state *u)
{
	if (u->count == 0)
		return 0;
	uint64_t root = u->frame[u->count - 1].sp;

	if (!stack_is_home(&u->stacks, root) && !u->doubt && !u->signals)
		stack_join_top(&u->stacks, root);
	struct unwind_saved *s = saved_for_root(u, root);

	return s && saved_room(s, u->count) ? append(t, u, s, 0, 0) : 0;
}
