#include "analyze/groups.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/stacks.h"
#include "base/map.h"
#include "base/vector.h"

struct grouping {
	const struct analyze_model *model;
	VECTOR(struct analyze_group) list;
	struct map_index index;
	/* Functions are shown without parameters, and closures as what they are in: names that
	 * then read the same are one. */
	uint32_t *first; /* by name: the first met that reads so; 0 = not asked yet */
	VECTOR(uint32_t) readings;
	struct map_index by_reading;
};

struct reading {
	const struct grouping *grouping;
	uint32_t module;
	struct strbuf text;
};

static bool same_reading(void *context, uint32_t position)
{
	const struct reading *is = context;
	const struct analyze_model *model = is->grouping->model;
	uint32_t name = is->grouping->readings.items[position];
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (model->names[name].module != is->module)
		return false;
	analyze_name_plain(model, name, &text);
	return !text.failed && text.length == is->text.length &&
	       memcmp(text.text, is->text.text, text.length) == 0;
}

static struct error *read_name(struct grouping *grouping, struct reading *reading, uint32_t name)
{
	analyze_name_plain(grouping->model, name, &reading->text);
	TRY(strbuf_result(&reading->text));
	uint64_t hash = map_hash(map_hash_bytes(reading->text.text, reading->text.length) ^
				 reading->module);
	uint32_t at = map_index_find(&grouping->by_reading, hash, same_reading, reading);

	if (at == MAP_NONE) {
		at = (uint32_t)grouping->readings.count;
		TRY(vector_push(&grouping->readings, name));
		TRY(map_index_add(&grouping->by_reading, hash, at));
	}
	grouping->first[name] = grouping->readings.items[at];
	return NULL;
}

static struct error *first_of(struct grouping *grouping, uint32_t *name)
{
	const struct analyze_name *is = &grouping->model->names[*name];

	if (is->function == 0)
		return NULL;
	if (grouping->first[*name] == 0) {
		struct reading reading = {.grouping = grouping, .module = is->module};
		struct error *error = read_name(grouping, &reading, *name);

		strbuf_free(&reading.text);
		if (error)
			return error;
	}
	*name = grouping->first[*name];
	return NULL;
}

/* Beyond it there is nothing but what begins every program. */
static bool is_outermost(const struct analyze_model *model, uint32_t name)
{
	const struct analyze_name *is = &model->names[name];

	return model->modules[is->module].is_runtime && is->function &&
	       strncmp(model->texts[is->function].bytes, "__libc_start", 12) == 0;
}

/* Who called a site's title: the nearest function outside wrappers that has a name and reads
 * otherwise, else the nearest place; 0 = nobody. */
static struct error *caller_of(struct grouping *grouping, const struct analyze_site *site,
			       uint32_t title, uint32_t *ret)
{
	const struct analyze_model *model = grouping->model;
	struct analyze_walk walk = analyze_walk_after(model, site->title_frame, site->title_line);

	*ret = 0;
	if (site->title_frame == 0)
		return NULL;
	while (analyze_walk_next(&walk)) {
		uint32_t name = model->lines[walk.line].name;

		if (is_outermost(model, name))
			break;
		if (name == 0 || analyze_name_is_wrapper(model, name))
			continue;
		TRY(first_of(grouping, &name));
		/* Recursion is no caller. */
		if (name == title || (model->names[name].function == 0 && *ret))
			continue;
		*ret = name;
		if (model->names[name].function)
			break;
	}
	return NULL;
}

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
	};

	TRY(first_of(grouping, &key.title));
	TRY(caller_of(grouping, site, key.title, &key.caller));
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

static int compare_groups(const struct analyze_model *model, enum analyze_order first,
			  const struct analyze_group *x, const struct analyze_group *y)
{
	static const enum analyze_order next[] = {
		ANALYZE_BY_PEAK, ANALYZE_BY_BYTES,     ANALYZE_BY_ALLOCATIONS,
		ANALYZE_BY_LIVE, ANALYZE_BY_TEMPORARY,
	};
	uint64_t left = analyze_order_value(&x->counts, first);
	uint64_t right = analyze_order_value(&y->counts, first);

	for (size_t i = 0; left == right && i < sizeof(next) / sizeof(next[0]); i++) {
		left = analyze_order_value(&x->counts, next[i]);
		right = analyze_order_value(&y->counts, next[i]);
	}
	if (left != right)
		return left < right ? 1 : -1;
	int order = compare_names(model, x->title, y->title);

	return order ? order : compare_names(model, x->caller, y->caller);
}

const struct analyze_group *analyze_groups_leader(const struct analyze_model *model,
						  const struct analyze_groups *groups,
						  enum analyze_order order)
{
	const struct analyze_group *leader = groups->count ? groups->items : NULL;

	for (size_t i = 1; i < groups->count; i++)
		if (compare_groups(model, order, &groups->items[i], leader) < 0)
			leader = &groups->items[i];
	return leader;
}

struct numbered {
	struct analyze_group group;
	uint32_t at; /* where it was */
};

struct sorting {
	const struct analyze_model *model;
	enum analyze_order order;
};

static int compare_numbered(const void *a, const void *b, void *context)
{
	const struct numbered *x = a, *y = b;
	const struct sorting *sorting = context;

	return compare_groups(sorting->model, sorting->order, &x->group, &y->group);
}

struct error *analyze_groups_sort(const struct analyze_model *model, struct analyze_groups *groups,
				  enum analyze_order order)
{
	struct sorting sorting = {model, order};
	CLEANUP_FREE struct numbered *list = calloc(groups->count + 1, sizeof(*list));
	CLEANUP_FREE uint32_t *places = calloc(groups->count + 1, sizeof(*places));

	if (!list || !places)
		return error_no_memory();
	for (size_t i = 0; i < groups->count; i++)
		list[i] = (struct numbered){groups->items[i], (uint32_t)i};
	qsort_r(list, groups->count, sizeof(*list), compare_numbered, &sorting);
	for (size_t i = 0; i < groups->count; i++) {
		groups->items[i] = list[i].group;
		places[list[i].at] = (uint32_t)i;
	}
	for (size_t i = 0; i < model->site_count; i++)
		if (groups->by_site[i])
			groups->by_site[i] = places[groups->by_site[i] - 1] + 1;
	return NULL;
}

static struct error *add_sites(struct grouping *grouping, uint32_t process, uint32_t *by_site)
{
	const struct analyze_model *model = grouping->model;

	for (size_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];

		if (process != ANALYZE_ALL_PROCESSES && site->process != process)
			continue;
		TRY(add_site(grouping, site, &by_site[i]));
		by_site[i]++;
	}
	return NULL;
}

struct error *analyze_groups_make(const struct analyze_model *model, uint32_t process,
				  enum analyze_order order, struct analyze_groups *ret)
{
	struct grouping grouping = {
		.model = model,
		.first = calloc(model->name_count, sizeof(uint32_t)),
	};
	struct error *error;

	*ret = (struct analyze_groups){.by_site = calloc(model->site_count + 1, sizeof(uint32_t))};
	error = ret->by_site && grouping.first ? add_sites(&grouping, process, ret->by_site)
					       : error_no_memory();
	ret->items = grouping.list.items;
	ret->count = grouping.list.count;
	map_index_free(&grouping.index);
	map_index_free(&grouping.by_reading);
	vector_free(&grouping.readings);
	free(grouping.first);
	if (!error)
		error = analyze_groups_sort(model, ret, order);
	if (error)
		analyze_groups_free(ret);
	return error;
}

void analyze_groups_free(struct analyze_groups *groups)
{
	free(groups->items);
	free(groups->by_site);
	*groups = (struct analyze_groups){0};
}
