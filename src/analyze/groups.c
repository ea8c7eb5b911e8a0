#include "analyze/groups.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/stacks.h"
#include "base/map.h"
#include "base/vector.h"

struct grouping {
	const struct analyze_model *model;
	enum analyze_order order;
	VECTOR(struct analyze_group) list;
	struct map_index index;
};

struct group_key {
	const struct grouping *grouping;
	uint32_t title;
	uint32_t caller;
};

static bool same_group(void *context, uint32_t position)
{
	const struct group_key *key = context;
	const struct analyze_group *is = &key->grouping->list.items[position];

	return is->title == key->title && is->caller == key->caller;
}

static struct error *add_site(struct grouping *grouping, const struct analyze_site *site,
			      uint32_t *ret)
{
	struct group_key key = {
		.grouping = grouping,
		.title = analyze_site_title(grouping->model, site),
		.caller = analyze_site_caller(grouping->model, site),
	};
	uint64_t hash = map_hash((uint64_t)key.title << 32 | key.caller);
	uint32_t at = map_index_find(&grouping->index, hash, same_group, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)grouping->list.count;
		TRY(vector_push(&grouping->list, ((struct analyze_group){
							 .title = key.title,
							 .caller = key.caller,
						 })));
		TRY(map_index_add(&grouping->index, hash, at));
	}
	struct analyze_group *group = &grouping->list.items[at];

	analyze_counts_add(&group->counts, &site->counts);
	group->site_count++;
	*ret = at;
	return NULL;
}

static int compare_texts(const struct analyze_text *a, const struct analyze_text *b)
{
	if (!a->bytes || !b->bytes)
		return (a->bytes != NULL) - (b->bytes != NULL);
	return strcmp(a->bytes, b->bytes);
}

static int compare_names(const struct analyze_model *model, uint32_t a, uint32_t b)
{
	const struct analyze_name *x = &model->names[a], *y = &model->names[b];
	int order = compare_texts(&model->texts[x->function], &model->texts[y->function]);

	if (order == 0)
		order = compare_texts(&model->modules[x->module].path,
				      &model->modules[y->module].path);
	return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

struct numbered {
	const struct grouping *grouping;
	uint32_t at;
};

static int compare_groups(const void *a, const void *b)
{
	static const enum analyze_order next[] = {
		ANALYZE_BY_PEAK, ANALYZE_BY_BYTES,     ANALYZE_BY_ALLOCATIONS,
		ANALYZE_BY_LIVE, ANALYZE_BY_TEMPORARY,
	};
	const struct numbered *p = a, *q = b;
	const struct grouping *grouping = p->grouping;
	const struct analyze_group *x = &grouping->list.items[p->at];
	const struct analyze_group *y = &grouping->list.items[q->at];
	uint64_t left = analyze_order_value(&x->counts, grouping->order);
	uint64_t right = analyze_order_value(&y->counts, grouping->order);

	for (size_t i = 0; left == right && i < sizeof(next) / sizeof(next[0]); i++) {
		left = analyze_order_value(&x->counts, next[i]);
		right = analyze_order_value(&y->counts, next[i]);
	}
	if (left != right)
		return left < right ? 1 : -1;
	int order = compare_names(grouping->model, x->title, y->title);

	return order ? order : compare_names(grouping->model, x->caller, y->caller);
}

/* Into the order that is shown; by_site has places in the list. */
static struct error *sort(struct grouping *grouping, size_t site_count, uint32_t *by_site,
			  struct analyze_group **ret)
{
	size_t count = grouping->list.count;
	CLEANUP_FREE struct numbered *order = calloc(count + 1, sizeof(*order));
	CLEANUP_FREE uint32_t *places = calloc(count + 1, sizeof(*places));
	CLEANUP_FREE struct analyze_group *sorted = calloc(count + 1, sizeof(*sorted));

	if (!order || !places || !sorted)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		order[i] = (struct numbered){.grouping = grouping, .at = (uint32_t)i};
	if (count)
		qsort(order, count, sizeof(*order), compare_groups);
	for (size_t i = 0; i < count; i++) {
		sorted[i] = grouping->list.items[order[i].at];
		places[order[i].at] = (uint32_t)i;
	}
	for (size_t i = 0; i < site_count; i++)
		if (by_site[i])
			by_site[i] = places[by_site[i] - 1] + 1;
	*ret = STEAL(sorted);
	return NULL;
}

static struct error *make(struct grouping *grouping, uint32_t process, struct analyze_groups *ret)
{
	const struct analyze_model *model = grouping->model;
	CLEANUP_FREE uint32_t *by_site = calloc(model->site_count + 1, sizeof(*by_site));

	if (!by_site)
		return error_no_memory();
	for (size_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];

		if (process != ANALYZE_ALL_PROCESSES && site->process != process)
			continue;
		TRY(add_site(grouping, site, &by_site[i]));
		by_site[i]++;
	}
	TRY(sort(grouping, model->site_count, by_site, &ret->items));
	ret->count = grouping->list.count;
	ret->by_site = STEAL(by_site);
	return NULL;
}

struct error *analyze_groups_make(const struct analyze_model *model, uint32_t process,
				  enum analyze_order order, struct analyze_groups *ret)
{
	struct grouping grouping = {.model = model, .order = order};

	*ret = (struct analyze_groups){0};
	struct error *error = make(&grouping, process, ret);

	vector_free(&grouping.list);
	map_index_free(&grouping.index);
	return error;
}

void analyze_groups_free(struct analyze_groups *groups)
{
	free(groups->items);
	free(groups->by_site);
	*groups = (struct analyze_groups){0};
}
