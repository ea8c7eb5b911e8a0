/* Sites of one stack in several processes as one. */
#include "analyze/sections.h"
#include "base/map.h"

struct merging {
	struct analyze_model *model;
	const uint32_t *sections; /* by process */
	const struct analyze_site *site;
	uint32_t section;
};

static bool same_site(void *context, uint32_t position)
{
	const struct merging *merging = context;
	const struct analyze_site *is = &merging->model->sites[position];

	return is->frame == merging->site->frame && is->api == merging->site->api &&
	       merging->sections[is->process] == merging->section;
}

/* Shares of the peaks of different processes do not add up: the largest stands for them. */
static void add(struct analyze_site *to, const struct analyze_site *from)
{
	struct analyze_counts counts = to->counts;
	bool larger = from->counts.peak_bytes > counts.peak_bytes;

	analyze_counts_add(&counts, &from->counts);
	counts.peak_bytes = larger ? from->counts.peak_bytes : to->counts.peak_bytes;
	counts.peak_blocks = larger ? from->counts.peak_blocks : to->counts.peak_blocks;
	to->counts = counts;
	to->process = larger ? from->process : to->process;
	to->process_count += from->process_count;
}

struct error *analyze_sites_merge(struct analyze_model *model,
				  const struct analyze_sections *sections)
{
	struct merging merging = {.model = model, .sections = sections->of};
	struct map_index index = {0};
	struct error *error = NULL;
	size_t count = 0;

	for (size_t i = 0; i < model->site_count && !error; i++) {
		struct analyze_site *site = &model->sites[i];

		merging.site = site;
		merging.section = sections->of[site->process];
		uint64_t hash = map_hash((uint64_t)site->frame << 8 ^ site->api ^
					 map_hash(merging.section));
		uint32_t at = map_index_find(&index, hash, same_site, &merging);

		if (at != MAP_NONE) {
			add(&model->sites[at], site);
			continue;
		}
		error = map_index_add(&index, hash, (uint32_t)count);
		model->sites[count++] = *site;
	}
	map_index_free(&index);
	if (!error)
		model->site_count = count;
	return error;
}
