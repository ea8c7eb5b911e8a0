#include "agent/inherited.h"

#include "agent/agent.h"

#define RANGE_SHIFT 28u /* 256 MiB */

/* Of one range of addresses. */
struct range {
	struct range *next; /* constant once it is linked */
	uint64_t number;
	uint32_t words;
	_Atomic uint64_t bits[];
};

static _Atomic(struct range *) own;
static struct range *inherited; /* set before the process's first thread */

static struct range *find(struct range *r, uintptr_t block)
{
	while (r && r->number != block >> RANGE_SHIFT)
		r = r->next;
	return r;
}

/* A range of this process; a race may make two of a kind, of which one is found first. */
static struct range *range_make(uintptr_t block, uint32_t chunk_shift)
{
	uint32_t words = 1u << (RANGE_SHIFT - chunk_shift - 6);
	struct range *r = private_alloc(sizeof(*r) + words * sizeof(r->bits[0]));
	struct range *head = atomic_load(&own);

	if (!r)
		return NULL;
	r->number = block >> RANGE_SHIFT;
	r->words = words;
	do {
		r->next = head;
	} while (!atomic_compare_exchange_weak(&own, &head, r));
	return r;
}

static uint32_t bit_of(uintptr_t block, uint32_t chunk_shift)
{
	return (uint32_t)(block & ((1u << RANGE_SHIFT) - 1)) >> chunk_shift;
}

void inherited_mark(uintptr_t block, uint32_t chunk_shift)
{
	struct range *r = find(atomic_load(&own), block);
	uint32_t bit = bit_of(block, chunk_shift);

	if (!r)
		r = range_make(block, chunk_shift);
	if (r)
		atomic_fetch_or_explicit(&r->bits[bit / 64], UINT64_C(1) << bit % 64,
					 memory_order_relaxed);
}

bool inherited_has(uintptr_t block, uint32_t chunk_shift)
{
	uint32_t bit = bit_of(block, chunk_shift);

	for (struct range *r = find(inherited, block); r; r = find(r->next, block)) {
		if (LEDGER_GET(r->bits[bit / 64]) >> bit % 64 & 1)
			return true;
	}
	return false;
}

/* One range of each number, however long the line of forks is. */
static void adopt(struct range *r)
{
	struct range *known = find(inherited, r->number << RANGE_SHIFT);

	if (!known) {
		r->next = inherited;
		inherited = r;
		return;
	}
	for (uint32_t i = 0; i < r->words; i++) {
		uint64_t bits = LEDGER_GET(r->bits[i]);

		if (bits & ~LEDGER_GET(known->bits[i]))
			LEDGER_SET(known->bits[i], LEDGER_GET(known->bits[i]) | bits);
	}
}

void inherited_begin(void)
{
	struct range *r = atomic_exchange(&own, NULL), *next;

	for (; r; r = next) {
		next = r->next;
		adopt(r);
	}
}
