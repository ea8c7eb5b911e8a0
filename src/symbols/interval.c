#include "symbols/interval.h"

/* One range over everything makes each miss walk all the others. Only damaged files
 * nest this deep. */
#define MAX_STEPS 10000u

struct error *symbols_intervals_add(struct symbols_intervals *set, uint64_t low, uint64_t high,
				    uint32_t rank, uint32_t value)
{
	if (low >= high)
		return NULL;
	return vector_push(&set->all,
			   ((struct symbols_interval){
				   .low = low, .high = high, .rank = rank, .value = value}));
}

/* Outermost first, so that a walk backwards meets the innermost first. */
static int compare(const void *left, const void *right)
{
	const struct symbols_interval *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	if (a->high != b->high)
		return a->high > b->high ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	return a->value > b->value ? -1 : a->value < b->value;
}

void symbols_intervals_seal(struct symbols_intervals *set)
{
	uint64_t reach = 0;

	if (set->all.count > 0)
		qsort(set->all.items, set->all.count, sizeof(*set->all.items), compare);
	for (size_t i = 0; i < set->all.count; i++) {
		if (set->all.items[i].high > reach)
			reach = set->all.items[i].high;
		set->all.items[i].reach = reach;
	}
}

void symbols_intervals_free(struct symbols_intervals *set) { vector_free(&set->all); }

/* The number of ranges that start at or before address. */
static size_t started(const struct symbols_intervals *set, uint64_t address)
{
	size_t low = 0, high = set->all.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (set->all.items[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct symbols_interval *symbols_intervals_next(const struct symbols_intervals *set,
						      uint64_t address, size_t *position)
{
	size_t at = *position == SYMBOLS_INTERVALS_FIRST ? started(set, address) : *position;

	for (unsigned steps = 0; at > 0 && steps < MAX_STEPS; steps++) {
		const struct symbols_interval *interval = &set->all.items[--at];

		if (interval->reach <= address)
			break;
		if (interval->high > address) {
			*position = at;
			return interval;
		}
	}
	*position = 0;
	return NULL;
}
