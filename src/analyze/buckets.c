/* Classes of sizes, summed into the buckets of a histogram. */
#include "analyze/sizes.h"

#include "ledger/layout.h"

uint64_t analyze_class_low(uint32_t size_class)
{
	return size_class < ANALYZE_CLASSES ? mgl_class_low(size_class) : UINT64_MAX;
}

/* A power of two's bucket: 0 of size 0, else 1 + its exponent. */
static unsigned int power_of(uint64_t size)
{
	return size ? 64 - (unsigned int)__builtin_clzll(size) : 0;
}

static uint64_t power_low(unsigned int power) { return power ? UINT64_C(1) << (power - 1) : 0; }

struct error *analyze_quantize(const struct analyze_distribution *from, struct analyze_buckets *ret)
{
	uint64_t values[65] = {0};
	unsigned int first = 64, last = 0;

	*ret = (struct analyze_buckets){0};
	for (uint32_t i = 0; i < ANALYZE_CLASSES; i++) {
		unsigned int power = power_of(analyze_class_low(i));

		if (from->values[i] == 0)
			continue;
		values[power] += from->values[i];
		first = power < first ? power : first;
		last = power > last ? power : last;
	}
	if (from->total == 0)
		return NULL;
	first -= first > 0;
	last += last < 64;
	for (unsigned int i = first; i <= last; i++)
		TRY(vector_push(&ret->list, ((struct analyze_bucket){
						    .low = power_low(i),
						    .high = i < 64 ? power_low(i + 1) : UINT64_MAX,
						    .value = values[i],
					    })));
	return NULL;
}

/* The bound of classes nearest to a size. */
static uint64_t snap(uint64_t size)
{
	uint32_t size_class = mgl_size_class(size);
	uint64_t low = analyze_class_low(size_class), high = analyze_class_low(size_class + 1);

	return size - low <= high - size ? low : high;
}

static struct error *put_bound(struct analyze_buckets *buckets, uint64_t size)
{
	uint64_t bound = snap(size);
	struct analyze_bucket *last =
		buckets->list.count ? &buckets->list.items[buckets->list.count - 1] : NULL;

	buckets->is_moved |= bound != size;
	if (last && last->low == bound)
		return NULL;
	if (last)
		last->high = bound;
	return vector_push(&buckets->list,
			   ((struct analyze_bucket){.low = bound, .high = UINT64_MAX}));
}

/* The bucket a size is in; they ascend without gaps, from 0. */
static struct analyze_bucket *bucket_of(struct analyze_buckets *buckets, uint64_t size)
{
	size_t low = 0, high = buckets->list.count - 1;

	while (low < high) {
		size_t middle = low + (high - low + 1) / 2;

		if (buckets->list.items[middle].low <= size)
			low = middle;
		else
			high = middle - 1;
	}
	return &buckets->list.items[low];
}

struct error *analyze_lquantize(const struct analyze_distribution *from,
				const struct analyze_linear *linear, struct analyze_buckets *ret)
{
	*ret = (struct analyze_buckets){0};
	TRY(vector_push(&ret->list, ((struct analyze_bucket){.high = UINT64_MAX})));
	for (uint64_t at = linear->low; at < linear->high; at += linear->step) {
		TRY(put_bound(ret, at));
		if (linear->high - at <= linear->step)
			break;
	}
	TRY(put_bound(ret, linear->high));
	ret->has_below = snap(linear->low) > 0;
	for (uint32_t i = 0; i < ANALYZE_CLASSES; i++)
		if (from->values[i])
			bucket_of(ret, analyze_class_low(i))->value += from->values[i];
	return NULL;
}

void analyze_buckets_free(struct analyze_buckets *buckets) { vector_free(&buckets->list); }
