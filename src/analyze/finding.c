#include "analyze/finding.h"

#include <stdlib.h>

#include "analyze/stacks.h"

/* What was allocated below a name. */
struct below {
	uint64_t peak_bytes;
	uint64_t titled_bytes; /* of sites called so */
	double distance;       /* from the allocation, in frames, times bytes */
	uint32_t seen;         /* the last site whose stack had it, + 1 */
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

static bool tells(const struct analyze_model *model, uint32_t name)
{
	return model->names[name].function && !analyze_name_is_root(model, name) &&
	       !analyze_name_is_wrapper(model, name);
}

static bool is_narrower(const struct below *a, const struct below *b)
{
	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes < b->peak_bytes;
	return a->distance < b->distance;
}

static uint32_t find(const struct analyze_model *model, const struct below *sums, uint64_t least)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i < model->name_count; i++)
		if (sums[i].peak_bytes >= least && tells(model, i) &&
		    (found == 0 || is_narrower(&sums[i], &sums[found])))
			found = i;
	return found;
}

struct error *analyze_finding_make(const struct analyze_model *model, uint32_t process,
				   struct analyze_finding *ret)
{
	uint64_t peak = model->processes[process].counts.peak_bytes;
	CLEANUP_FREE struct below *sums = calloc(model->name_count, sizeof(*sums));

	*ret = (struct analyze_finding){0};
	if (!sums)
		return error_no_memory();
	for (uint32_t i = 0; i < model->site_count; i++)
		if (model->sites[i].process == process && model->sites[i].counts.peak_bytes)
			add_site(model, &model->sites[i], i + 1, sums);
	if (peak == 0)
		return NULL;
	uint64_t most = peak - peak / 5;

	ret->name = find(model, sums, most);
	if (ret->name == 0)
		ret->name = find(model, sums, peak - peak / 2);
	ret->peak_bytes = sums[ret->name].peak_bytes;
	ret->is_title = sums[ret->name].titled_bytes >= ret->peak_bytes - ret->peak_bytes / 5;
	return NULL;
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

		if (site->process != process)
			continue;
		for (uint32_t f = site->frame; f; f = model->frames[f].parent) {
			uint32_t module = model->places[model->frames[f].place].module;

			if (seen[module] == i + 1)
				continue;
			seen[module] = i + 1;
			list[module].bytes += site->counts.allocated_bytes;
		}
	}
	for (uint32_t i = 1; i < model->module_count; i++)
		if (seen[i] && lacks(&model->modules[i]))
			list[count++] = (struct analyze_lack){i, list[i].bytes};
	qsort(list, count, sizeof(*list), compare_lacks);
	*ret = STEAL(list);
	*ret_count = count;
	return NULL;
}
