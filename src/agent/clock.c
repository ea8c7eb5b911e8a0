/*
 * Allocation numbers and the time table.
 *
 * A thread takes numbers in batches, so the shared counter is touched once in up to 64
 * allocations, and looks at the clock and the control page only then. The batch shrinks
 * where allocations are rare, so that the time noted for one is never far from its own:
 * aim is a batch that lasts 50 µs at most (a refill costs about 30 ns).
 */
#include <time.h>

#include "agent/core.h"
#include "agent/signals.h"

#define BATCH_LARGEST 64u
#define BATCH_NS      50000u
#define BIRTH_EXACT   (UINT64_C(1) << 20) /* numbers below are their births */
#define BIRTH_SCALES  30u

uint64_t clock_ns(int clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Where the clock stands for good, or 0 while it runs. */
static _Atomic uint64_t stopped;

uint64_t agent_now(void)
{
	uint64_t at = LEDGER_GET(stopped);

	return at ? at : clock_ns(CLOCK_MONOTONIC);
}

bool clock_stop(void)
{
	uint64_t runs = 0;

	return atomic_compare_exchange_strong(&stopped, &runs, agent_now());
}

void clock_resume(void) { LEDGER_SET(stopped, 0); }

/* The scale of a number's birth (layout.h, mgl_birth), and where the next one starts. */
static uint32_t birth_scale(uint64_t number, uint64_t *next)
{
	uint32_t scale = number < BIRTH_EXACT ? 0 : 44u - (uint32_t)__builtin_clzll(number);

	*next = scale <= BIRTH_SCALES ? BIRTH_EXACT << scale : UINT64_MAX;
	return scale;
}

/* Takes numbers whose births have one scale, so that a birth is a shift and a sum. */
static void batch_take(struct thread *t, struct mgl_process *p)
{
	uint64_t next, numbers = LEDGER_GET(p->next_number);

	birth_scale(numbers, &next);
	numbers = next - numbers < t->batch ? next - numbers : t->batch;
	t->number = atomic_fetch_add_explicit(&p->next_number, numbers, memory_order_relaxed);
	uint32_t scale = birth_scale(t->number, &next);

	/* Another thread may have come between: the numbers past the scale are nobody's. */
	if (numbers > next - t->number)
		numbers = next - t->number;
	*gate_number_stop(t) = t->number + numbers;
	t->birth_shift = scale <= BIRTH_SCALES ? scale : 63;
	t->birth_base = scale <= BIRTH_SCALES ? scale << 19 : 0xffffff;
}

bool number_refill(struct thread *t)
{
	const struct mgl_control *control = session_control();
	struct mgl_process *p = t->agent->process;
	uint64_t now = agent_now();

	if (LEDGER_GET(control->off))
		return false;
	if (t->agent->inert) {
		t->idle = GATE_OFF;
		return false;
	}
	if (now - t->refill_ns > BATCH_NS)
		t->batch = t->batch > 1 ? t->batch / 2 : 1;
	else
		t->batch = t->batch < BATCH_LARGEST ? t->batch * 2 : BATCH_LARGEST;
	t->refill_ns = now;
	batch_take(t, p);
	LEDGER_SET(t->slot->number, t->number);
	if (now - LEDGER_GET(t->agent->time_last) >= LEDGER_GET(p->time_gap))
		time_note(t, t->number, now);
	return true;
}

/* --- the time table -------------------------------------------------------------- */

static struct mgl_time *entry_at(struct thread *t, uint32_t i)
{
	uint32_t which = mgl_time_block(i);
	struct mgl_time *block = record_at(t, t->agent->process->time_blocks[which]);

	return block ? &block[i - mgl_time_before(which)] : NULL;
}

/* Drops every second entry; readers see an odd time_seq meanwhile. */
static void time_thin(struct thread *t)
{
	struct mgl_process *p = t->agent->process;
	struct mgl_time *first = entry_at(t, 0);
	struct mgl_time *last = entry_at(t, MGL_TIME_MAX - 1);

	if (!first || !last)
		return;
	LEDGER_ADD(p->time_seq, 1);
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = 1; i < MGL_TIME_MAX / 2; i++) {
		struct mgl_time *to = entry_at(t, i), *from = entry_at(t, 2 * i);

		LEDGER_SET(to->number, LEDGER_GET(from->number));
		LEDGER_SET(to->ns, LEDGER_GET(from->ns));
	}
	LEDGER_SET(p->time_gap,
		   (LEDGER_GET(last->ns) - LEDGER_GET(first->ns)) / (MGL_TIME_MAX / 2));
	LEDGER_SET(p->time_count, MGL_TIME_MAX / 2);
	atomic_store_explicit(&p->time_seq, LEDGER_GET(p->time_seq) + 1, memory_order_release);
}

/* Appends unless another thread's entry is already later. */
static void time_append(struct thread *t, uint64_t number, uint64_t ns)
{
	struct mgl_process *p = t->agent->process;
	uint32_t n = LEDGER_GET(p->time_count);

	if (n == MGL_TIME_MAX) {
		time_thin(t);
		n = LEDGER_GET(p->time_count);
	}
	if (n >= MGL_TIME_MAX)
		return;
	uint32_t which = mgl_time_block(n), ref;

	if (!p->time_blocks[which]) {
		if (!record_alloc(t, mgl_time_entries(which) * sizeof(struct mgl_time), &ref))
			return;
		p->time_blocks[which] = ref;
	}
	struct mgl_time *before = n ? entry_at(t, n - 1) : NULL;
	struct mgl_time *entry = entry_at(t, n);

	if (!entry ||
	    (before && (LEDGER_GET(before->number) >= number || LEDGER_GET(before->ns) > ns)))
		return;
	LEDGER_SET(entry->number, number);
	LEDGER_SET(entry->ns, ns);
	LEDGER_SET(t->agent->time_last, ns);
	atomic_store_explicit(&p->time_count, n + 1, memory_order_release);
}

void time_note(struct thread *t, uint64_t number, uint64_t ns)
{
	struct agent *a = t->agent;
	struct signals signals = signals_hold();

	if (!atomic_exchange_explicit(&a->time_busy, true, memory_order_acquire)) {
		time_append(t, number, ns);
		atomic_store_explicit(&a->time_busy, false, memory_order_release);
	}
	signals_release(&signals);
}
