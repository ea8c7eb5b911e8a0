/*
 * Which memory may be read as stack: see stackrange.h.
 *
 * The probe is rt_sigprocmask with a how that does not exist: the kernel copies the set
 * in before it looks at how, so an unreadable page is EFAULT and a readable one EINVAL.
 */
#include "agent/stackrange.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/core.h"
#include "agent/syscall.h"

#define PAGE           UINT64_C(4096)
#define EFAULT_RESULT  (-14L)
#define EINVAL_RESULT  (-22L)
#define KERNEL_ADDRESS (UINT64_C(1) << 63)
#define NO_SUCH_HOW    0x6d67 /* not SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK */

/* Largest frame on a stack not known yet: certain, and guessed. */
#define SURE_BYTES  (UINT64_C(64) << 20)
#define GUESS_BYTES (UINT64_C(1) << 20)
/* As far below home a walk looks whether it comes from home deeper than before. */
#define NEAR_BYTES (UINT64_C(64) << 10)
/* From a thread's outermost frame to its descriptor at most; less than the smallest stack. */
#define TOP_BYTES (UINT64_C(16) << 10)
/* Own stack that is taken for readable where no system call is allowed any more. */
#define FROZEN_BYTES (UINT64_C(256) << 10)

extern void *__libc_stack_end __attribute__((weak));

static uint64_t page_of(uint64_t at) { return at & ~(PAGE - 1); }

static long probe(uint64_t at)
{
	return sys_sigprocmask(NO_SUCH_HOW, (const uint64_t *)(uintptr_t)page_of(at), NULL);
}

bool stack_probe(uint64_t at)
{
	/* An emulator may look at how first; then nothing can be proven. */
	static _Atomic int works; /* 0 = not known, 1, -1 */
	int known = atomic_load_explicit(&works, memory_order_relaxed);

	if (agent_frozen || at < PAGE || at >> 47)
		return false;
	if (known == 0) {
		known = probe(KERNEL_ADDRESS) == EFAULT_RESULT ? 1 : -1;
		atomic_store_explicit(&works, known, memory_order_relaxed);
	}
	return known > 0 && probe(at) == EINVAL_RESULT;
}

/* The first thread's stack ends where the kernel put the arguments; glibc and musl put a
 * thread's descriptor at the top of its stack. */
void stack_reset(struct stack_map *m, bool main)
{
	uint64_t end = &__libc_stack_end ? (uint64_t)(uintptr_t)__libc_stack_end : 0;

	memset(m, 0, sizeof(*m));
	m->thread = stack_thread();
	m->home_high = main && end ? end : m->thread;
	m->home_low = page_of(m->home_high);
}

/* The run of proven pages from m->from up to `high` has come to home. */
static uint64_t join_home(struct stack_map *m)
{
	m->home_low = m->from;
	return m->home_high;
}

uint64_t stack_high(struct stack_map *m, uint64_t sp)
{
	if (AGENT_LIKELY(stack_is_home(m, sp)))
		return m->home_high;
	m->from = page_of(sp);
	if (agent_frozen)
		return sp < m->home_low && m->home_low - sp < FROZEN_BYTES ? join_home(m) : sp;
	return stack_probe(sp) ? m->from + PAGE : sp;
}

uint64_t stack_extend(struct stack_map *m, uint64_t high, uint64_t need, bool sure)
{
	if (high == m->home_high || need <= high || need - high > (sure ? SURE_BYTES : GUESS_BYTES))
		return high;
	for (;;) {
		if (high == m->home_low && sure)
			return join_home(m);
		if (high >= need || !stack_probe(high))
			return high;
		high = page_of(high) + PAGE;
	}
}

bool stack_reaches_home(const struct stack_map *m, uint64_t sp)
{
	uint64_t page = page_of(sp);

	if (page >= m->home_low || m->home_low - page > NEAR_BYTES)
		return false;
	while (page < m->home_low && stack_probe(page))
		page += PAGE;
	return page == m->home_low;
}

void stack_join_home(struct stack_map *m, uint64_t sp)
{
	if (page_of(sp) < m->home_low)
		m->home_low = page_of(sp);
}

/* Thread-local storage lies between: no less than a whole thread's stack is beyond it. */
void stack_join_top(struct stack_map *m, uint64_t sp)
{
	uint64_t page = page_of(sp - 8) + PAGE;

	if (m->home_low != page_of(m->home_high) || m->home_high - sp > TOP_BYTES)
		return;
	while (page < m->home_low && stack_probe(page))
		page += PAGE;
	if (page >= m->home_low && m->from < m->home_low)
		m->home_low = m->from;
}

bool stack_read(struct stack_map *m, uint64_t at, uint64_t *ret)
{
	uint64_t last = at + 7;

	if (last < at)
		return false;
	if (!stack_is_home(m, at) || !stack_is_home(m, last)) {
		if (m->proven != (page_of(at) | 1) && !stack_probe(at))
			return false;
		m->proven = page_of(at) | 1;
		if (page_of(last) != page_of(at) && !stack_probe(last))
			return false;
	}
	memcpy(ret, (const void *)(uintptr_t)at, 8);
	return true;
}
