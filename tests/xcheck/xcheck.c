/*
 * The seam and the comparison: see xcheck.h.
 */
#include "xcheck.h"

#include <string.h>

#include "agent/signals.h"
#include "agent/syscall.h"

struct unwind_site *__real_unwind_stack(struct thread *t, const struct unwind_regs *regs);
struct unwind_site *__wrap_unwind_stack(struct thread *t, const struct unwind_regs *regs);

#define TABLE 4096u

static _Atomic(struct xcheck *) table[TABLE];

/* --- one for each struct thread -------------------------------------------------------- */

static struct xcheck *xcheck_make(struct thread *t)
{
	size_t bytes = (sizeof(struct xcheck) + 4095) & ~(size_t)4095;
	char *p = agent_frozen ? NULL
			       : sys_mmap(NULL, bytes + XCHECK_STACK, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!p || sys_failed(p))
		return NULL;
	sys_madvise(p, bytes + XCHECK_STACK, MADV_DONTDUMP);
	struct xcheck *x = (struct xcheck *)(p + XCHECK_STACK);

	x->thread = t;
	return theirs_start(x) ? x : NULL;
}

static struct xcheck *xcheck_of(struct thread *t)
{
	uint64_t h = (uint64_t)(uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	for (uint32_t i = 0; i < TABLE; i++) {
		_Atomic(struct xcheck *) *slot = &table[(h + i) % TABLE];
		struct xcheck *x = atomic_load(slot);

		if (!x) {
			struct xcheck *made = xcheck_make(t);

			if (!made || atomic_compare_exchange_strong(slot, &x, made))
				return made;
		}
		if (x->thread == t)
			return x;
	}
	return NULL;
}

/* --- comparing -------------------------------------------------------------------------- */

static void ours_list(struct xcheck *x)
{
	uint32_t n = 0;

	for (uint32_t ref = x->node; ref && n < XCHECK_OURS; n++) {
		const struct mgl_node *node = record_at(x->thread, ref);

		if (!node)
			break;
		x->ours[n] = *node;
		ref = node->parent;
	}
	x->ours_count = n;
}

/* Two threads that grow the trie can make a node twice: the content counts. */
static bool is_same_stack(struct xcheck *x)
{
	uint32_t a = x->node, b = x->whole_node;

	while (a != b) {
		const struct mgl_node *m = record_at(x->thread, a), *n = record_at(x->thread, b);

		if (!m || !n || m->pc != n->pc || m->where != n->where)
			return false;
		a = m->parent;
		b = n->parent;
	}
	return true;
}

static uint32_t first_difference(const struct xcheck *x)
{
	uint32_t k = 0;

	while (k < x->ours_count && k < x->theirs_count && x->ours[k].pc == x->theirs[k].pc)
		k++;
	return k;
}

/* Past the mark of a cut inside come the outer frames; where the walk itself ended before
 * the root, another mark. */
static bool are_ends_same(const struct xcheck *x, uint32_t mark)
{
	uint32_t ours = x->ours_count, theirs = x->theirs_count;

	if (mark >= ours || x->ours[mark].where != MGL_NODE_CUT)
		return false;
	if (x->ours[ours - 1].where == MGL_NODE_CUT && theirs > UNWIND_WALK_MAX) {
		ours--;
		theirs = UNWIND_WALK_MAX;
	}
	if (ours <= mark + 1 || ours - mark - 1 > theirs - mark)
		return false;
	while (ours-- > mark + 1) {
		if (x->ours[ours].pc != x->theirs[--theirs].pc)
			return false;
	}
	return true;
}

/* Entered from the root in, as far as there was room. */
static bool is_outer_part(const struct xcheck *x)
{
	for (uint32_t i = 1; i <= x->ours_count; i++) {
		if (i > x->theirs_count ||
		    x->ours[x->ours_count - i].pc != x->theirs[x->theirs_count - i].pc)
			return false;
	}
	return true;
}

/* Whether what follows the frame before `parted` is anybody's guess. */
static bool is_guess(struct xcheck *x, uint32_t parted)
{
	const struct mgl_node *last = &x->ours[parted - 1];

	for (uint32_t k = 0; k < parted; k++) {
		if (x->ours[k].where & MGL_NODE_FP)
			return true;
	}
	return !theirs_has_cfi(x, last->pc - !(last->where & MGL_NODE_EXACT));
}

static enum xcheck_outcome compare(struct xcheck *x, uint32_t *parted)
{
	*parted = 0;
	if (!is_same_stack(x))
		return x->thread->agent->inert ? XCHECK_FULL : XCHECK_NODES;
	if (!theirs_walk(x))
		return XCHECK_BOTTOM;
	*parted = first_difference(x);
	tell_add(&xcheck_file->frames, *parted);
	if (*parted == x->ours_count && *parted == x->theirs_count)
		return XCHECK_EQUAL;
	if (are_ends_same(x, *parted))
		return XCHECK_ENDS;
	if (x->thread->agent->inert && is_outer_part(x))
		return XCHECK_FULL;
	if (*parted == 0 || !is_guess(x, *parted))
		return XCHECK_STACKS;
	return x->ours[x->ours_count - 1].where == MGL_NODE_CUT ? XCHECK_CUT : XCHECK_GUESSED;
}

static void count_rules(const struct unwind_state *u)
{
	uint32_t seen = 0;

	for (uint32_t k = 0; k < u->count; k++)
		seen |= 1u << rule_kind(u->frame[k].rule);
	for (uint32_t kind = 0; kind < 16; kind++) {
		if (seen & 1u << kind)
			tell_add(&xcheck_file->rules[kind], 1);
	}
}

static void check(struct xcheck *x)
{
	uint32_t parted;

	ours_list(x);
	enum xcheck_outcome outcome = compare(x, &parted);

	tell(x, outcome, parted);
	count_rules(x->whole);
}

/* f(x) on the stack that lies below x. */
static void on_own_stack(void (*f)(struct xcheck *), struct xcheck *x)
{
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %%rdi, %%rsp\n\t"
			 "call *%1\n\t"
			 "movq %%rbx, %%rsp"
			 : "+D"(x)
			 : "r"(f)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory",
			   "cc");
}

/* --- the seam ----------------------------------------------------------------------------- */

static uint32_t walk_whole(struct xcheck *x, struct thread *t, const struct unwind_regs *regs)
{
	struct unwind_state *own = t->unwind;

	t->unwind = x->whole;
	unwind_forget(t);
	uint32_t node = __real_unwind_stack(t, regs)->node;

	x->whole = t->unwind;
	t->unwind = own;
	return node;
}

static void capture(struct xcheck *x, const struct unwind_regs *regs)
{
	x->regs = regs;
	x->known = 1u << CFI_RBX | 1u << CFI_RBP | 1u << CFI_RSP | 1u << CFI_R12 | 1u << CFI_R13 |
		   1u << CFI_R14 | 1u << CFI_R15 | 1u << CFI_RIP;
}

__attribute__((noinline)) struct unwind_site *__wrap_unwind_stack(struct thread *t,
								  const struct unwind_regs *regs)
{
	struct unwind_site *site = __real_unwind_stack(t, regs);

	if (!tell_start())
		return site;
	if (!atomic_load(gate_own(t))) {
		tell_add(&xcheck_file->outcome[XCHECK_CHILD], 1);
		return site;
	}
	struct signals signals = signals_hold();
	struct xcheck *x = signals.held ? xcheck_of(t) : NULL;

	if (!x) {
		tell_add(&xcheck_file->outcome[signals.held ? XCHECK_MEMORY : XCHECK_FROZEN], 1);
	} else {
		x->node = site->node;
		x->whole_node = walk_whole(x, t, regs);
		capture(x, regs);
		__asm__ volatile("movq %%rbx, 24(%0)\n\t"
				 "movq %%rbp, 48(%0)\n\t"
				 "movq %%rsp, 56(%0)\n\t"
				 "movq %%r12, 96(%0)\n\t"
				 "movq %%r13, 104(%0)\n\t"
				 "movq %%r14, 112(%0)\n\t"
				 "movq %%r15, 120(%0)\n\t"
				 "leaq 1f(%%rip), %%rax\n\t"
				 "1: movq %%rax, 128(%0)"
				 :
				 : "r"(x->reg)
				 : "rax", "memory");
		on_own_stack(check, x);
	}
	signals_release(&signals);
	return site;
}
