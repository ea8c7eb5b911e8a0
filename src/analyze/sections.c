#include "analyze/sections.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vector.h"

/* What a fork needs to go on as another program: arguments, an environment, paths. */
#define STEP_BYTES 65536u

static bool is_step(const struct analyze_process *process)
{
	return process->end == ANALYZE_EXECED && process->counts.peak_bytes <= STEP_BYTES &&
	       (process->how == ANALYZE_FORK || process->how == ANALYZE_VFORK ||
		process->how == ANALYZE_SPAWN);
}

struct error *analyze_steps_make(const struct analyze_model *model, uint32_t **ret)
{
	uint32_t *steps = calloc(model->process_count + 1, sizeof(*steps));

	if (!steps)
		return error_no_memory();
	for (uint32_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];
		uint32_t before = analyze_process_find(model, process->parent);

		steps[i] = i;
		if (process->how == ANALYZE_EXEC && before < i && steps[before] == before &&
		    is_step(&model->processes[before]))
			steps[before] = i;
	}
	*ret = steps;
	return NULL;
}

struct splitting {
	const struct analyze_model *model;
	enum analyze_split split;
	VECTOR(struct analyze_section) list;
	struct map_index index; /* by what they are split by */
};

/* What processes of one section have in common. */
struct trait {
	struct analyze_text text;
	uint64_t number;
};

static struct trait trait_of(const struct splitting *splitting, uint32_t process)
{
	static const struct analyze_source none = {.rank = ANALYZE_UNKNOWN};
	const struct analyze_model *model = splitting->model;
	const struct analyze_process *of = &model->processes[process];
	const struct analyze_source *source =
		model->source_count ? &model->sources[of->source] : &none;

	switch (splitting->split) {
	case ANALYZE_SPLIT_PROCESS:
		return (struct trait){.number = process};
	case ANALYZE_SPLIT_PROGRAM:
		return (struct trait){.text = of->exe};
	case ANALYZE_SPLIT_RANK:
		return (struct trait){.number = source->rank};
	case ANALYZE_SPLIT_FILE:
		return (struct trait){.number = source->id};
	case ANALYZE_SPLIT_HOST:
		return (struct trait){.text = source->host};
	case ANALYZE_SPLIT_NOTHING:
	default:
		return (struct trait){.number = 0};
	}
}

struct trait_key {
	const struct splitting *splitting;
	struct trait trait;
};

static bool same_trait(void *context, uint32_t position)
{
	const struct trait_key *key = context;
	const struct trait *trait = &key->trait;
	struct trait is = trait_of(key->splitting, key->splitting->list.items[position].largest);

	return is.number == trait->number && is.text.length == trait->text.length &&
	       (is.text.length == 0 ||
		memcmp(is.text.bytes, trait->text.bytes, is.text.length) == 0);
}

static struct error *open_section(struct splitting *splitting, uint32_t process, uint32_t *ret)
{
	struct trait_key key = {.splitting = splitting, .trait = trait_of(splitting, process)};
	const struct analyze_text *text = &key.trait.text;
	uint64_t hash = map_hash(key.trait.number ^
				 map_hash_bytes(text->bytes ? text->bytes : "", text->length));

	*ret = map_index_find(&splitting->index, hash, same_trait, &key);
	if (*ret != MAP_NONE)
		return NULL;
	*ret = (uint32_t)splitting->list.count;
	TRY(vector_push(&splitting->list, ((struct analyze_section){
						  .largest = process,
						  .tree_peak_bytes = ANALYZE_UNKNOWN,
					  })));
	return map_index_add(&splitting->index, hash, *ret);
}

/* as: the process it counts as, another one's place where it is a step. */
static void add(struct analyze_section *section, const struct analyze_model *model,
		uint32_t process, uint32_t as)
{
	const struct analyze_process *from = &model->processes[process];
	uint64_t peak = section->counts.peak_bytes, blocks = section->counts.peak_blocks;

	analyze_counts_add(&section->counts, &from->counts);
	section->counts.peak_bytes = peak;
	section->counts.peak_blocks = blocks;
	section->process_count += process == as;
	if (from->counts.peak_bytes > peak) {
		section->counts.peak_bytes = from->counts.peak_bytes;
		section->counts.peak_blocks = from->counts.peak_blocks;
		section->largest = as;
	}
	if (from->tree_peak_bytes == ANALYZE_UNKNOWN)
		return;
	if (section->tree_peak_bytes == ANALYZE_UNKNOWN)
		section->tree_peak_bytes = 0;
	section->tree_peak_bytes += from->tree_peak_bytes;
}

static struct error *split_all(struct splitting *splitting, const uint32_t *steps, uint32_t *of)
{
	const struct analyze_model *model = splitting->model;

	for (uint32_t i = 0; i < model->process_count; i++) {
		if (steps[i] != i)
			continue;
		TRY(open_section(splitting, i, &of[i]));
		add(&splitting->list.items[of[i]], model, i, i);
	}
	for (uint32_t i = 0; i < model->process_count; i++) {
		if (steps[i] == i)
			continue;
		of[i] = of[steps[i]];
		add(&splitting->list.items[of[i]], model, i, steps[i]);
	}
	return NULL;
}

struct error *analyze_sections_make(const struct analyze_model *model, enum analyze_split split,
				    struct analyze_sections *ret)
{
	struct splitting splitting = {.model = model, .split = split};
	CLEANUP_FREE uint32_t *steps = NULL;
	struct error *error = analyze_steps_make(model, &steps);

	*ret = (struct analyze_sections){.of = calloc(model->process_count + 1, sizeof(uint32_t))};
	if (!error)
		error = ret->of ? split_all(&splitting, steps, ret->of) : error_no_memory();
	ret->items = splitting.list.items;
	ret->count = splitting.list.count;
	map_index_free(&splitting.index);
	if (error)
		analyze_sections_free(ret);
	return error;
}

void analyze_sections_free(struct analyze_sections *sections)
{
	free(sections->items);
	free(sections->of);
	*sections = (struct analyze_sections){0};
}

struct ordered {
	uint64_t value;
	uint32_t section;
};

static int largest_first(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->section > y->section) - (x->section < y->section);
}

struct error *analyze_sections_order(const struct analyze_sections *sections,
				     enum analyze_order order, uint32_t **ret)
{
	CLEANUP_FREE struct ordered *list = calloc(sections->count + 1, sizeof(*list));
	uint32_t *places = calloc(sections->count + 1, sizeof(*places));

	if (!list || !places) {
		free(places);
		return error_no_memory();
	}
	for (uint32_t i = 0; i < sections->count; i++)
		list[i] = (struct ordered){
			.value = analyze_order_value(&sections->items[i].counts, order),
			.section = i,
		};
	qsort(list, sections->count, sizeof(*list), largest_first);
	for (size_t i = 0; i < sections->count; i++)
		places[i] = list[i].section;
	*ret = places;
	return NULL;
}
