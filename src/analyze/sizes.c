/* Distributions, by what they are split. */
#include "analyze/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/groups.h"
#include "analyze/sections.h"
#include "analyze/stacks.h"
#include "analyze/model_internal.h"

/* What falls into one distribution: first its total alone, since there may be very many. */
struct share {
	uint64_t key;
	uint64_t total;
	uint32_t to; /* place of its distribution */
};

struct splitting {
	struct analyze_model *model;
	const struct analyze_distributions_options *options;
	struct analyze_groups groups;     /* by site */
	struct analyze_sections sections; /* by process or program */
	VECTOR(struct share) shares;
	struct map_u64 share_at;
	struct analyze_size *sizes; /* of all sites, and where each one's start, */
	size_t *first;              /* once they have been read */
	struct analyze_distribution *list;
	size_t count;
};

/* A part of the whole: a class of a site or of a thread. */
struct part {
	uint64_t key;
	uint32_t size_class;
	uint64_t value;
};

typedef struct error *take_part(struct splitting *splitting, const struct part *part);

static struct error *take_total(struct splitting *splitting, const struct part *part)
{
	const uint64_t *at = map_u64_find(&splitting->share_at, part->key);

	if (at && *at < splitting->shares.count) {
		splitting->shares.items[*at].total += part->value;
		return NULL;
	}
	TRY(map_u64_set(&splitting->share_at, part->key, splitting->shares.count));
	return vector_push(&splitting->shares,
			   ((struct share){.key = part->key, .total = part->value}));
}

static struct error *take_value(struct splitting *splitting, const struct part *part)
{
	const uint64_t *at = map_u64_find(&splitting->share_at, part->key);

	if (!at || *at >= splitting->shares.count)
		return error_create(ERROR_DAMAGED, "the profile changes while it is read");
	struct analyze_distribution *to = &splitting->list[splitting->shares.items[*at].to];

	to->values[part->size_class] += part->value;
	to->total += part->value;
	return NULL;
}

static uint64_t key_of(const struct splitting *splitting, size_t at)
{
	const struct analyze_model *model = splitting->model;
	const struct analyze_site *site = &model->sites[at];

	if (splitting->groups.by_site)
		return splitting->groups.by_site[at];
	if (splitting->sections.of)
		return splitting->sections.of[site->process];
	switch (splitting->options->by) {
	case ANALYZE_BY_MODULE:
		return model->names[analyze_site_title(model, site)].module;
	case ANALYZE_BY_FUNCTION:
		return site->api;
	default:
		return 0;
	}
}

static bool is_chosen(const struct splitting *splitting, uint32_t process)
{
	return splitting->options->process == ANALYZE_ALL_PROCESSES ||
	       splitting->options->process == process;
}

static struct error *each_site(struct splitting *splitting, take_part *take)
{
	struct analyze_model *model = splitting->model;

	if (!splitting->sizes)
		TRY(analyze_sizes_load(model, &splitting->sizes, &splitting->first));
	for (size_t i = 0; i < model->site_count; i++) {
		if (!is_chosen(splitting, model->sites[i].process))
			continue;
		for (size_t j = splitting->first[i]; j < splitting->first[i + 1]; j++) {
			const struct analyze_size *size = &splitting->sizes[j];
			struct part part = {
				.key = key_of(splitting, i),
				.size_class = size->size_class,
				.value =
					splitting->options->bytes ? size->bytes : size->allocations,
			};

			if (part.value)
				TRY(take(splitting, &part));
		}
	}
	return NULL;
}

struct threads {
	struct splitting *splitting;
	take_part *take;
	struct map_u64 names; /* by id: string */
};

/* Threads of one name are one, in whichever process. */
static struct error *add_thread(void *context, const void *from)
{
	const struct store_thread *row = from;
	struct threads *threads = context;

	return map_u64_set(&threads->names, row->id, row->name);
}

/* Some may have been left out. */
static bool has_process(const struct threads *threads, uint64_t id)
{
	const struct analyze_model *model = threads->splitting->model;

	return id <= UINT32_MAX && analyze_process_find(model, (uint32_t)id) != ANALYZE_NO_PROCESS;
}

static struct error *add_thread_size(void *context, const void *from)
{
	const struct store_thread_size *row = from;
	struct threads *threads = context;
	const uint64_t *name = map_u64_find(&threads->names, row->thread);
	struct part part = {
		.key = name ? *name : 0,
		.size_class = (uint32_t)row->class,
		.value = threads->splitting->options->bytes ? row->bytes : row->allocs,
	};

	if (part.value == 0 || part.value == STORE_UNKNOWN || !has_process(threads, row->process))
		return NULL;
	return threads->take(threads->splitting, &part);
}

static struct error *each_thread(struct splitting *splitting, take_part *take)
{
	struct analyze_model *model = splitting->model;
	struct threads threads = {.splitting = splitting, .take = take};
	uint64_t only = splitting->options->process == ANALYZE_ALL_PROCESSES
				? STORE_ALL
				: model->processes[splitting->options->process].id;
	struct store_thread thread;
	struct store_thread_size size;
	struct error *error = analyze_each_row(model->reader, STORE_TABLE_THREAD, STORE_ALL,
					       &thread, add_thread, &threads);

	if (!error)
		error = analyze_each_row(model->reader, STORE_TABLE_THREAD_SIZE, only, &size,
					 add_thread_size, &threads);
	map_u64_free(&threads.names);
	return error;
}

static struct error *each(struct splitting *splitting, take_part *take)
{
	return splitting->options->by == ANALYZE_BY_THREAD ? each_thread(splitting, take)
							   : each_site(splitting, take);
}

static int by_total(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->key > y->key) - (x->key < y->key);
}

static struct error *set_label(const struct splitting *splitting, uint64_t key,
			       struct analyze_distribution *to)
{
	const struct analyze_group *group;
	struct store_text name;

	switch (splitting->options->by) {
	case ANALYZE_BY_SITE:
		group = &splitting->groups.items[key - 1];
		to->title = group->title;
		to->caller = group->caller;
		break;
	case ANALYZE_BY_MODULE:
		to->module = (uint32_t)key;
		break;
	case ANALYZE_BY_FUNCTION:
		to->api = (uint8_t)key;
		break;
	case ANALYZE_BY_PROCESS:
	case ANALYZE_BY_PROGRAM:
		to->process = splitting->sections.items[key].largest;
		break;
	case ANALYZE_BY_THREAD:
		TRY(store_string(splitting->model->reader, key, &name));
		to->thread = (struct analyze_text){name.bytes, name.length};
		break;
	default:
		break;
	}
	return NULL;
}

/* The largest each get one, the others one together. */
static struct error *choose(struct splitting *splitting)
{
	size_t count = splitting->shares.count;
	size_t listed = count < splitting->options->limit ? count : splitting->options->limit;

	if (count)
		qsort(splitting->shares.items, count, sizeof(struct share), by_total);
	splitting->list = calloc(listed + 1, sizeof(*splitting->list));
	if (!splitting->list)
		return error_no_memory();
	splitting->count = listed + (count > listed);
	for (size_t i = 0; i < count; i++) {
		struct share *share = &splitting->shares.items[i];

		share->to = (uint32_t)(i < listed ? i : listed);
		splitting->list[share->to].merged++;
		/* They are in another order now. */
		*map_u64_find(&splitting->share_at, share->key) = i;
		if (i < listed)
			TRY(set_label(splitting, share->key, &splitting->list[i]));
	}
	splitting->list[listed].is_others = true;
	return NULL;
}

static struct error *split(struct splitting *splitting)
{
	if (splitting->options->by == ANALYZE_BY_SITE)
		TRY(analyze_groups_make(splitting->model, splitting->options->process,
					ANALYZE_BY_ALLOCATIONS, &splitting->groups));
	if (splitting->options->by == ANALYZE_BY_PROCESS ||
	    splitting->options->by == ANALYZE_BY_PROGRAM)
		TRY(analyze_sections_make(splitting->model,
					  splitting->options->by == ANALYZE_BY_PROCESS
						  ? ANALYZE_SPLIT_PROCESS
						  : ANALYZE_SPLIT_PROGRAM,
					  &splitting->sections));
	TRY(each(splitting, take_total));
	TRY(choose(splitting));
	return each(splitting, take_value);
}

struct error *analyze_distributions_make(struct analyze_model *model,
					 const struct analyze_distributions_options *options,
					 struct analyze_distributions *ret)
{
	struct splitting splitting = {.model = model, .options = options};
	struct error *error = split(&splitting);

	free(splitting.sizes);
	free(splitting.first);
	analyze_groups_free(&splitting.groups);
	analyze_sections_free(&splitting.sections);
	vector_free(&splitting.shares);
	map_u64_free(&splitting.share_at);
	*ret = (struct analyze_distributions){splitting.list, splitting.count};
	if (error)
		analyze_distributions_free(ret);
	return error;
}

void analyze_distributions_free(struct analyze_distributions *distributions)
{
	free(distributions->items);
	*distributions = (struct analyze_distributions){0};
}
