/*
 * A process's sites merged by what they and their callers are called in text: one line of a
 * table each.
 *
 * Owner: the caller, by analyze_groups_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_GROUPS_H
#define MALLOGRAPH_ANALYZE_GROUPS_H

#include "analyze/model.h"

struct analyze_group {
	uint32_t title;  /* name; 0 = the stack is not known */
	uint32_t caller; /* name; 0 = nobody */
	struct analyze_counts counts;
	size_t site_count;
};

struct analyze_groups {
	struct analyze_group *items;
	size_t count;
	uint32_t *by_site; /* by place of the model's sites, as they were sorted then: place + 1
			    * of its group, 0 where it is another process's */
};

/* process: its place, or ANALYZE_ALL_PROCESSES. The largest come first; the order of equals
 * is the same in every run. */
struct error *analyze_groups_make(const struct analyze_model *model, uint32_t process,
				  enum analyze_order order,
				  struct analyze_groups *ret) ERROR_MUST_CHECK;
/* Into another order. */
struct error *analyze_groups_sort(const struct analyze_model *model, struct analyze_groups *groups,
				  enum analyze_order order) ERROR_MUST_CHECK;
/* Which would come first in an order; NULL = there is none. */
const struct analyze_group *analyze_groups_leader(const struct analyze_model *model,
						  const struct analyze_groups *groups,
						  enum analyze_order order);
void analyze_groups_free(struct analyze_groups *groups);

#endif
