#include "analyze/finding.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/stacks.h"

/* What was allocated below a name. */
struct below {
	uint64_t peak_bytes;
	uint64_t titled_bytes; /* of sites called so */
	double distance;       /* from the allocation, in frames, times bytes */
	uint32_t seen;         /* the last site whose stack had it, + 1 */
	enum { NOT_ASKED, TELLS, TELLS_NOTHING } tells;
};

static void add_site(const struct analyze_model *model, const struct analyze_site *site,
		     uint32_t turn, struct below *sums)
{
	struct analyze_walk walk = ANALYZE_WALK(model, site->frame);
	uint64_t bytes = site->counts.peak_bytes;
	unsigned int distance = 0;

	while (analyze_walk_next(&walk)) {
		struct below *sum = &sums[model->lines[walk.line].name];

		distance++;
		if (sum->seen == turn)
			continue;
		sum->seen = turn;
		sum->peak_bytes += bytes;
		sum->distance += (double)distance * (double)bytes;
	}
	sums[analyze_site_title(model, site)].titled_bytes += bytes;
}

static bool tells(const struct analyze_model *model, struct below *sums, uint32_t name)
{
	if (sums[name].tells == NOT_ASKED)
		sums[name].tells = model->names[name].function &&
						   !analyze_name_is_root(model, name) &&
						   !analyze_name_is_wrapper(model, name)
					   ? TELLS
					   : TELLS_NOTHING;
	return sums[name].tells == TELLS;
}

/* Even main tells something where it allocates by itself, or a helper that it called. */
static bool allocates(const struct analyze_model *model, const struct below *sum, uint32_t name)
{
	return model->names[name].function && sum->titled_bytes &&
	       sum->titled_bytes >= sum->peak_bytes / 2 &&
	       !model->modules[model->names[name].module].is_runtime;
}

static bool is_narrower(const struct below *a, const struct below *b)
{
	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes < b->peak_bytes;
	return a->distance < b->distance;
}

static uint32_t find(const struct analyze_model *model, struct below *sums, uint64_t least)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i < model->name_count; i++)
		if (sums[i].peak_bytes >= least &&
		    (tells(model, sums, i) || allocates(model, &sums[i], i)) &&
		    (found == 0 || is_narrower(&sums[i], &sums[found])))
			found = i;
	return found;
}

static struct analyze_share share_of(const struct below *sums, uint32_t name)
{
	const struct below *sum = &sums[name];
	bool is_title = name && sum->titled_bytes >= sum->peak_bytes - sum->peak_bytes / 5;

	return (struct analyze_share){
		.name = name,
		.peak_bytes = is_title ? sum->titled_bytes : sum->peak_bytes,
		.is_title = is_title,
	};
}

static void find_most(const struct analyze_model *model, struct below *sums, uint64_t peak,
		      struct analyze_finding *ret)
{
	uint32_t most = find(model, sums, peak - peak / 5);
	uint32_t half = find(model, sums, peak - peak / 2);

	if (most == 0 || sums[half].peak_bytes >= sums[most].peak_bytes - sums[most].peak_bytes / 5)
		most = half;
	ret->most = share_of(sums, most);
	if (half != most)
		ret->narrower = share_of(sums, half);
}

/* Of a stack that ends in a frame: whether a function is on it, and what that called first that
 * tells anything. */
struct path {
	bool has_function;
	uint32_t called; /* 0 = nothing */
};

/* Of every frame; parents come before. */
static void follow(const struct analyze_model *model, struct below *sums, uint32_t function,
		   struct path *paths)
{
	for (uint32_t i = 1; i < model->frame_count; i++) {
		const struct analyze_place *place = &model->places[model->frames[i].place];
		struct path path = paths[model->frames[i].parent];

		for (uint32_t line = place->line_count; line--;) {
			uint32_t name = model->lines[place->first_line + line].name;

			if (name == function)
				path = (struct path){.has_function = true};
			else if (path.has_function && !path.called && tells(model, sums, name))
				path.called = name;
		}
		paths[i] = path;
	}
}

/* A process's bytes at the peak by what a function called, where that did not allocate itself. */
static void sum_called(const struct analyze_model *model, uint32_t process,
		       const struct path *paths, uint64_t *bytes)
{
	memset(bytes, 0, model->name_count * sizeof(*bytes));
	for (uint32_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];
		uint32_t called = paths[site->frame].called;

		if (site->process == process && called != analyze_site_title(model, site))
			bytes[called] += site->counts.peak_bytes;
	}
	bytes[0] = 0;
}

static uint32_t largest_of(const struct analyze_model *model, const uint64_t *bytes)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < model->name_count; i++)
		largest = bytes[i] > bytes[largest] ? i : largest;
	return largest;
}

/* One that has nearly all is no branch, but where to look for them. */
static struct error *find_branches(const struct analyze_model *model, struct below *sums,
				   uint32_t process, uint64_t peak, struct analyze_finding *ret)
{
	bool has_narrower = ret->narrower.name != 0;
	struct analyze_share from = has_narrower ? ret->narrower : ret->most;
	CLEANUP_FREE uint64_t *bytes = calloc(model->name_count, sizeof(*bytes));
	CLEANUP_FREE struct path *paths = calloc(model->frame_count, sizeof(*paths));
	uint64_t nearly_all = from.peak_bytes - from.peak_bytes / 5;
	uint32_t largest;

	if (!bytes || !paths)
		return error_no_memory();
	for (;;) {
		if (from.is_title)
			return NULL;
		follow(model, sums, from.name, paths);
		sum_called(model, process, paths, bytes);
		largest = largest_of(model, bytes);
		if (largest == 0 || bytes[largest] < nearly_all)
			break;
		if (!is_narrower(&sums[largest], &sums[from.name]))
			return NULL;
		from = share_of(sums, largest);
	}
	for (; ret->branch_count < ANALYZE_BRANCHES; largest = largest_of(model, bytes)) {
		if (largest == 0 || bytes[largest] < peak / 10)
			break;
		ret->branches[ret->branch_count++] =
			(struct analyze_share){.name = largest, .peak_bytes = bytes[largest]};
		bytes[largest] = 0;
	}
	if (ret->branch_count && has_narrower)
		ret->narrower = from;
	else if (ret->branch_count)
		ret->most = from;
	return NULL;
}

static bool is_program(const struct analyze_model *model, uint32_t process, uint32_t module)
{
	const struct analyze_text *path = &model->modules[module].path;
	const struct analyze_text *exe = &model->processes[process].exe;

	return path->length == exe->length && path->bytes &&
	       memcmp(path->bytes, exe->bytes, exe->length) == 0;
}

static struct error *find_module(const struct analyze_model *model, uint32_t process, uint64_t peak,
				 struct analyze_finding *ret)
{
	CLEANUP_FREE uint64_t *bytes = calloc(model->module_count, sizeof(*bytes));

	if (!bytes)
		return error_no_memory();
	for (uint32_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];
		uint32_t module = model->names[analyze_site_title(model, site)].module;

		if (site->process == process)
			bytes[module] += site->counts.peak_bytes;
	}
	for (uint32_t i = 1; i < model->module_count; i++)
		if (bytes[i] >= peak - peak / 5 && model->modules[i].is_file &&
		    !is_program(model, process, i)) {
			ret->module = i;
			ret->module_bytes = bytes[i];
		}
	return NULL;
}

struct error *analyze_finding_make(const struct analyze_model *model, uint32_t process,
				   struct analyze_finding *ret)
{
	uint64_t peak = model->processes[process].counts.peak_bytes;
	CLEANUP_FREE struct below *sums = calloc(model->name_count, sizeof(*sums));

	*ret = (struct analyze_finding){0};
	if (!sums)
		return error_no_memory();
	if (peak == 0)
		return NULL;
	for (uint32_t i = 0; i < model->site_count; i++)
		if (model->sites[i].process == process && model->sites[i].counts.peak_bytes)
			add_site(model, &model->sites[i], i + 1, sums);
	find_most(model, sums, peak, ret);
	if (ret->most.name == 0)
		return find_module(model, process, peak, ret);
	return find_branches(model, sums, process, peak, ret);
}

/* --- symbols ------------------------------------------------------------------------ */

static int compare_lacks(const void *a, const void *b)
{
	const struct analyze_lack *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->module > y->module) - (x->module < y->module);
}

static bool lacks(const struct analyze_module *module)
{
	return module->is_file && !module->is_runtime && module->symbols != ANALYZE_SYMBOLS_FULL &&
	       module->symbols != ANALYZE_SYMBOLS_LINES;
}

struct error *analyze_lacks_make(const struct analyze_model *model, uint32_t process,
				 struct analyze_lack **ret, size_t *ret_count)
{
	CLEANUP_FREE struct analyze_lack *list = calloc(model->module_count, sizeof(*list));
	CLEANUP_FREE uint32_t *seen = calloc(model->module_count, sizeof(*seen));
	size_t count = 0;

	if (!list || !seen)
		return error_no_memory();
	for (uint32_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];

		if (process != ANALYZE_ALL_PROCESSES && site->process != process)
			continue;
		for (uint32_t f = site->frame; f; f = model->frames[f].parent) {
			const struct analyze_place *place = &model->places[model->frames[f].place];
			uint32_t module = place->module;

			if (!model->names[model->lines[place->first_line].name].function)
				list[module].has_nameless = true;
			if (seen[module] == i + 1)
				continue;
			seen[module] = i + 1;
			list[module].bytes += site->counts.allocated_bytes;
		}
	}
	for (uint32_t i = 1; i < model->module_count; i++)
		if (seen[i] && lacks(&model->modules[i]))
			list[count++] =
				(struct analyze_lack){i, list[i].bytes, list[i].has_nameless};
	qsort(list, count, sizeof(*list), compare_lacks);
	*ret = STEAL(list);
	*ret_count = count;
	return NULL;
}
