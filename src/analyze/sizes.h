/*
 * How sizes are distributed. A profile has sizes by class: exact below 16, then four steps
 * to a power of two. So buckets that are powers of two are exact, and others begin and end
 * where a class does.
 *
 * Owner: the caller, by the _free() of each. Errors: the profile's; no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_SIZES_H
#define MALLOGRAPH_ANALYZE_SIZES_H

#include "analyze/model.h"
#include "base/vector.h"

#define ANALYZE_CLASSES 256u

enum analyze_by {
	ANALYZE_BY_NOTHING, /* one distribution of all */
	ANALYZE_BY_SITE,    /* merged by title and caller */
	ANALYZE_BY_THREAD,  /* by name */
	ANALYZE_BY_MODULE,  /* of the title */
	ANALYZE_BY_FUNCTION,
	ANALYZE_BY_PROCESS,
	ANALYZE_BY_PROGRAM,
};

struct analyze_distribution {
	uint32_t title; /* by site: names */
	uint32_t caller;
	struct analyze_text thread; /* by thread: its name */
	uint32_t module;            /* by module; 0 = none */
	uint8_t api;                /* by function */
	uint32_t process;           /* by process: its place; by program: the largest's */
	bool is_others;             /* all that are not listed */
	size_t merged;              /* how many those are */
	uint64_t total;
	uint64_t values[ANALYZE_CLASSES];
};

struct analyze_distributions {
	struct analyze_distribution *items; /* the largest first, others last */
	size_t count;
};

struct analyze_distributions_options {
	uint32_t process; /* place, or ANALYZE_ALL_PROCESSES */
	enum analyze_by by;
	bool bytes;   /* allocated bytes, not allocations */
	size_t limit; /* how many are listed; the rest is summed */
};

struct error *analyze_distributions_make(struct analyze_model *model,
					 const struct analyze_distributions_options *options,
					 struct analyze_distributions *ret) ERROR_MUST_CHECK;
void analyze_distributions_free(struct analyze_distributions *distributions);

/* Sizes from low to below high; high UINT64_MAX = and all above. */
struct analyze_bucket {
	uint64_t low;
	uint64_t high;
	uint64_t value;
};

struct analyze_buckets {
	VECTOR(struct analyze_bucket) list;
	bool is_moved;  /* some bounds are not where they were asked for */
	bool has_below; /* the first bucket is all below the lowest bound */
};

/* Powers of two, from the one below the smallest size to the one above the largest; 0 has
 * its own. Nothing where there is nothing. */
struct error *analyze_quantize(const struct analyze_distribution *from,
			       struct analyze_buckets *ret) ERROR_MUST_CHECK;

#define ANALYZE_BUCKETS_MAX 10000u

struct analyze_linear {
	uint64_t low;
	uint64_t high;
	uint64_t step;
};

/* The first bucket is what is below low, if that is not 0; the last what is from high on. low < high,
 * 0 < step, at most ANALYZE_BUCKETS_MAX steps. */
struct error *analyze_lquantize(const struct analyze_distribution *from,
				const struct analyze_linear *linear,
				struct analyze_buckets *ret) ERROR_MUST_CHECK;
void analyze_buckets_free(struct analyze_buckets *buckets);

#endif
