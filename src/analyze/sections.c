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
	struct map_index programs;
};

static bool same_program(void *context, uint32_t position)
{
	void **pair = context;
	const struct splitting *splitting = pair[0];
	const struct analyze_text *exe = pair[1];
	const struct analyze_text *is =
		&splitting->model->processes[splitting->list.items[position].largest].exe;

	return is->length == exe->length &&
	       (exe->length == 0 || memcmp(is->bytes, exe->bytes, exe->length) == 0);
}

/* The place of the section a process belongs in, or MAP_NONE. */
static uint32_t find(struct splitting *splitting, uint32_t process, uint64_t *hash)
{
	const struct analyze_text *exe = &splitting->model->processes[process].exe;
	void *pair[] = {splitting, (void *)(uintptr_t)exe};

	switch (splitting->split) {
	case ANALYZE_SPLIT_PROGRAM:
		*hash = map_hash_bytes(exe->bytes ? exe->bytes : "", exe->length);
		return map_index_find(&splitting->programs, *hash, same_program, pair);
	case ANALYZE_SPLIT_PROCESS:
		return MAP_NONE;
	case ANALYZE_SPLIT_NOTHING:
	default:
		return splitting->list.count ? 0 : MAP_NONE;
	}
}

static struct error *open_section(struct splitting *splitting, uint32_t process, uint32_t *ret)
{
	uint64_t hash = 0;

	*ret = find(splitting, process, &hash);
	if (*ret != MAP_NONE)
		return NULL;
	*ret = (uint32_t)splitting->list.count;
	TRY(vector_push(&splitting->list, ((struct analyze_section){
						  .largest = process,
						  .tree_peak_bytes = ANALYZE_UNKNOWN,
					  })));
	return splitting->split == ANALYZE_SPLIT_PROGRAM
		       ? map_index_add(&splitting->programs, hash, *ret)
		       : NULL;
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
	map_index_free(&splitting.programs);
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
