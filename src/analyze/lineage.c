#include "analyze/lineage.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/alike.h"
#include "analyze/sections.h"
#include "base/map.h"
#include "base/vector.h"

#define ALIKE_LEAST 4u /* fewer have a line each */

struct tracing {
	const struct analyze_model *model;
	uint32_t *steps;   /* by process: analyze_steps_make() */
	uint32_t *began;   /* by process: the step it began as, or itself */
	uint32_t *parents; /* by process: place of the one it came from */
	uint32_t *depths;
	uint32_t *ordered; /* processes without steps, by depth */
	size_t ordered_count;
	uint32_t *kinds; /* by process: analyze_alike_make() */
	bool unfolds;    /* each has a line */
	uint32_t *lines; /* by process: its line */
	VECTOR(struct analyze_kin) list;
};

/* --- who came from whom ------------------------------------------------------------------ */

static void find_parents(struct tracing *tracing)
{
	const struct analyze_model *model = tracing->model;

	for (uint32_t i = 0; i < model->process_count; i++)
		tracing->began[i] = i;
	for (uint32_t i = 0; i < model->process_count; i++)
		tracing->began[tracing->steps[i]] = tracing->began[i];
	for (uint32_t i = 0; i < model->process_count; i++) {
		uint32_t began = tracing->began[i];
		uint32_t parent = analyze_process_find(model, model->processes[began].parent);

		/* One recorded later made nobody, whatever the profile says. */
		tracing->parents[i] = parent < began ? tracing->steps[parent] : ANALYZE_NO_PROCESS;
	}
}

/* Children of a step are its successor's, which began later than they may have: so a depth is
 * that of the process it began as. */
static struct error *find_depths(struct tracing *tracing)
{
	const struct analyze_model *model = tracing->model;
	size_t count = model->process_count;
	CLEANUP_FREE size_t *starts = calloc(count + 2, sizeof(*starts));

	if (!starts)
		return error_no_memory();
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = tracing->parents[i];

		if (tracing->began[i] != i)
			tracing->depths[i] = tracing->depths[tracing->began[i]];
		else if (parent != ANALYZE_NO_PROCESS)
			tracing->depths[i] = tracing->depths[tracing->began[parent]] + 1;
		if (tracing->steps[i] == i)
			starts[tracing->depths[i] + 1]++;
	}
	for (size_t i = 1; i <= count; i++)
		starts[i] += starts[i - 1];
	tracing->ordered_count = starts[count];
	for (uint32_t i = 0; i < count; i++)
		if (tracing->steps[i] == i)
			tracing->ordered[starts[tracing->depths[i]]++] = i;
	return NULL;
}

/* --- lines ------------------------------------------------------------------------------- */

static uint64_t key_of(const struct tracing *tracing, uint32_t process)
{
	uint32_t parent = tracing->parents[process];
	uint32_t line = parent == ANALYZE_NO_PROCESS ? 0 : tracing->lines[parent] + 1;

	return (uint64_t)line << 32 | tracing->kinds[process];
}

static bool has_failed(const struct analyze_process *process)
{
	return process->end == ANALYZE_SIGNALED ||
	       (process->end == ANALYZE_EXITED && process->end_code != ANALYZE_UNKNOWN &&
		process->end_code != 0);
}

static void add(const struct tracing *tracing, struct analyze_kin *line, uint32_t process)
{
	const struct analyze_process *from = &tracing->model->processes[process];
	const struct analyze_process *first = &tracing->model->processes[line->process];
	uint64_t start = tracing->model->processes[tracing->began[process]].start_ns;
	uint64_t duration = from->duration_ns;

	if (duration != ANALYZE_UNKNOWN && from->start_ns > start)
		duration += from->start_ns - start;
	if (line->count++ == 0)
		line->start_ns = start;
	line->start_ns = start < line->start_ns ? start : line->start_ns;
	line->failed += has_failed(from);
	line->ends_differ |= from->end != first->end || from->end_code != first->end_code;
	if (duration != ANALYZE_UNKNOWN &&
	    (line->duration_ns == ANALYZE_UNKNOWN || duration > line->duration_ns))
		line->duration_ns = duration;
	if (from->counts.peak_bytes > line->peak_bytes) {
		line->peak_bytes = from->counts.peak_bytes;
		line->process = process;
		line->step = tracing->began[process];
	}
}

static struct error *place(struct tracing *tracing, uint32_t process, struct map_u64 *sizes,
			   struct map_u64 *together)
{
	uint64_t key = key_of(tracing, process);
	const uint64_t *size = map_u64_find(sizes, key);
	bool is_many = size && *size >= ALIKE_LEAST && !tracing->unfolds;
	const uint64_t *known = is_many ? map_u64_find(together, key) : NULL;
	uint32_t parent = tracing->parents[process];

	tracing->lines[process] = known ? (uint32_t)*known : (uint32_t)tracing->list.count;
	if (!known) {
		struct analyze_kin line = {
			.process = process,
			.step = tracing->began[process],
			.parent = ANALYZE_NO_PROCESS,
			.duration_ns = ANALYZE_UNKNOWN,
		};

		if (parent != ANALYZE_NO_PROCESS) {
			line.parent = tracing->lines[parent];
			line.depth = tracing->list.items[line.parent].depth +
				     (tracing->model->processes[line.step].how != ANALYZE_EXEC);
		}
		if (is_many)
			TRY(map_u64_set(together, key, tracing->list.count));
		TRY(vector_push(&tracing->list, line));
	}
	add(tracing, &tracing->list.items[tracing->lines[process]], process);
	return NULL;
}

/* All of one depth: their parents have lines. */
static struct error *place_level(struct tracing *tracing, size_t first, size_t end)
{
	struct map_u64 sizes = {0}, together = {0};
	struct error *error = NULL;

	for (size_t i = first; i < end && !error; i++) {
		uint64_t key = key_of(tracing, tracing->ordered[i]);
		const uint64_t *size = map_u64_find(&sizes, key);

		error = map_u64_set(&sizes, key, size ? *size + 1 : 1);
	}
	for (size_t i = first; i < end && !error; i++)
		error = place(tracing, tracing->ordered[i], &sizes, &together);
	map_u64_free(&sizes);
	map_u64_free(&together);
	return error;
}

static struct error *make_lines(struct tracing *tracing)
{
	size_t first = 0;

	while (first < tracing->ordered_count) {
		uint32_t depth = tracing->depths[tracing->ordered[first]];
		size_t end = first;

		while (end < tracing->ordered_count &&
		       tracing->depths[tracing->ordered[end]] == depth)
			end++;
		TRY(place_level(tracing, first, end));
		first = end;
	}
	return NULL;
}

/* --- those that are kept, in their order --------------------------------------------------- */

static int largest_first(const void *a, const void *b, void *context)
{
	const struct analyze_kin *lines = context;
	const uint32_t *x = a, *y = b;

	if (lines[*x].peak_bytes != lines[*y].peak_bytes)
		return lines[*x].peak_bytes < lines[*y].peak_bytes ? 1 : -1;
	return (*x > *y) - (*x < *y);
}

/* The root, the largest, and, as far as there is room, where they came from. */
static struct error *keep(struct tracing *tracing, size_t limit, bool *kept)
{
	size_t count = tracing->list.count, used = 0;
	CLEANUP_FREE uint32_t *order = calloc(count + 1, sizeof(*order));

	if (!order)
		return error_no_memory();
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	if (count > 1)
		qsort_r(order + 1, count - 1, sizeof(*order), largest_first, tracing->list.items);
	for (size_t i = 0; i < count && used < limit; i++)
		for (uint32_t line = order[i];
		     line != ANALYZE_NO_PROCESS && !kept[line] && used < limit;
		     line = tracing->list.items[line].parent) {
			kept[line] = true;
			used++;
		}
	return NULL;
}

struct family {
	uint32_t *first_child; /* by line, + 1; 0 = none; [count] = of no parent */
	uint32_t *sibling;
};

/* Lines came by depth; a line's own shall follow it. */
static struct error *arrange(struct tracing *tracing, const bool *kept, struct family *family,
			     struct analyze_lineage *ret)
{
	const struct analyze_kin *lines = tracing->list.items;
	uint32_t count = (uint32_t)tracing->list.count;
	CLEANUP_FREE uint32_t *stack = calloc(count + 1, sizeof(*stack));
	CLEANUP_FREE uint32_t *places = calloc(count + 1, sizeof(*places));
	size_t depth = 0;

	ret->items = calloc(count + 1, sizeof(*ret->items));
	if (!stack || !places || !ret->items)
		return error_no_memory();
	for (uint32_t i = count; i-- > 0;) {
		uint32_t parent = lines[i].parent == ANALYZE_NO_PROCESS ? count : lines[i].parent;

		family->sibling[i] = family->first_child[parent];
		family->first_child[parent] = i + 1;
	}
	stack[depth++] = family->first_child[count];
	while (depth) {
		uint32_t line = stack[--depth];

		if (line-- == 0)
			continue;
		stack[depth++] = family->sibling[line];
		stack[depth++] = family->first_child[line];
		if (kept[line]) {
			struct analyze_kin *to = &ret->items[ret->count];

			*to = lines[line];
			places[line] = (uint32_t)ret->count++;
			if (to->parent != ANALYZE_NO_PROCESS)
				to->parent =
					kept[to->parent] ? places[to->parent] : ANALYZE_NO_PROCESS;
		} else {
			ret->others += lines[line].count;
			if (lines[line].peak_bytes > ret->others_peak_bytes)
				ret->others_peak_bytes = lines[line].peak_bytes;
		}
	}
	return NULL;
}

static struct error *choose(struct tracing *tracing, size_t limit, struct analyze_lineage *ret)
{
	size_t count = tracing->list.count;
	CLEANUP_FREE bool *kept = calloc(count + 1, sizeof(*kept));
	CLEANUP_FREE uint32_t *first_child = calloc(count + 1, sizeof(*first_child));
	CLEANUP_FREE uint32_t *sibling = calloc(count + 1, sizeof(*sibling));
	struct family family = {first_child, sibling};

	if (!kept || !first_child || !sibling)
		return error_no_memory();
	TRY(keep(tracing, limit, kept));
	return arrange(tracing, kept, &family, ret);
}

static struct error *trace(struct tracing *tracing, size_t limit, struct analyze_lineage *ret)
{
	struct analyze_sections programs;

	TRY(analyze_sections_make(tracing->model, ANALYZE_SPLIT_PROGRAM, &programs));
	struct error *error = analyze_alike_make(tracing->model, &programs, &tracing->kinds);

	analyze_sections_free(&programs);
	if (error)
		return error;
	tracing->unfolds = limit == SIZE_MAX;
	TRY(analyze_steps_make(tracing->model, &tracing->steps));
	find_parents(tracing);
	TRY(find_depths(tracing));
	TRY(make_lines(tracing));
	return choose(tracing, limit, ret);
}

struct error *analyze_lineage_make(const struct analyze_model *model, size_t limit,
				   struct analyze_lineage *ret)
{
	size_t count = model->process_count + 1;
	CLEANUP_FREE uint32_t *began = calloc(count, sizeof(*began));
	CLEANUP_FREE uint32_t *parents = calloc(count, sizeof(*parents));
	CLEANUP_FREE uint32_t *depths = calloc(count, sizeof(*depths));
	CLEANUP_FREE uint32_t *ordered = calloc(count, sizeof(*ordered));
	CLEANUP_FREE uint32_t *lines = calloc(count, sizeof(*lines));
	struct tracing tracing = {
		.model = model,
		.began = began,
		.parents = parents,
		.depths = depths,
		.ordered = ordered,
		.lines = lines,
	};

	*ret = (struct analyze_lineage){0};
	if (!began || !parents || !depths || !ordered || !lines)
		return error_no_memory();
	struct error *error = trace(&tracing, limit, ret);

	free(tracing.steps);
	free(tracing.kinds);
	vector_free(&tracing.list);
	if (error)
		analyze_lineage_free(ret);
	return error;
}

void analyze_lineage_free(struct analyze_lineage *lineage)
{
	free(lineage->items);
	*lineage = (struct analyze_lineage){0};
}
