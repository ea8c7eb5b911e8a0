#include "analyze/ranks.h"

#include <stdlib.h>

#include "base/vector.h"

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* values ascend; zeros of them come before these. */
static uint64_t value_at(const uint64_t *values, size_t zeros, size_t at)
{
	return at < zeros ? 0 : values[at - zeros];
}

static uint64_t median_of(const uint64_t *values, size_t zeros, size_t count)
{
	uint64_t low = value_at(values, zeros, (count - 1) / 2);
	uint64_t high = value_at(values, zeros, count / 2);

	return low + (high - low) / 2;
}

/* --- sections ----------------------------------------------------------------------------- */

struct error *analyze_ranks_spread(const struct analyze_ranks *ranks, enum analyze_order order,
				   struct analyze_spread *ret)
{
	const struct analyze_sections *sections = &ranks->sections;
	CLEANUP_FREE uint64_t *values = calloc(sections->count + 1, sizeof(*values));

	*ret = (struct analyze_spread){0};
	if (!values)
		return error_no_memory();
	for (uint32_t i = 0; i < sections->count; i++) {
		values[i] = analyze_order_value(&sections->items[i].counts, order);
		if (values[i] > ret->most) {
			ret->most = values[i];
			ret->section = i;
		}
	}
	if (sections->count == 0)
		return NULL;
	qsort(values, sections->count, sizeof(*values), compare_numbers);
	ret->least = values[0];
	ret->median = median_of(values, 0, sections->count);
	return NULL;
}

/* Processes of one profile together may have had more than the largest. */
static void raise_peaks(const struct analyze_model *model, struct analyze_sections *sections)
{
	for (size_t i = 0; i < model->process_count && model->source_count && !model->left_out;
	     i++) {
		uint64_t peak = model->sources[model->processes[i].source].tree_peak_bytes;
		struct analyze_counts *counts = &sections->items[sections->of[i]].counts;

		if (peak != ANALYZE_UNKNOWN && peak > counts->peak_bytes)
			counts->peak_bytes = peak;
	}
}

/* --- sites -------------------------------------------------------------------------------- */

/* What a process has of a group. */
struct part {
	uint32_t group;
	uint32_t section;
	uint32_t process;
	uint64_t value;
};

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return (x->process > y->process) - (x->process < y->process);
}

struct ranking {
	const struct analyze_model *model;
	struct analyze_ranks *ranks;
	enum analyze_order order;
	struct part *parts;
	size_t count;
	uint64_t *values; /* of a group, by section */
	VECTOR(struct analyze_ranked_site) sites;
};

static struct error *find_parts(struct ranking *ranking)
{
	const struct analyze_model *model = ranking->model;

	ranking->parts = calloc(model->site_count + 1, sizeof(*ranking->parts));
	if (!ranking->parts)
		return error_no_memory();
	for (size_t i = 0; i < model->site_count; i++) {
		const struct analyze_site *site = &model->sites[i];
		uint64_t value = analyze_order_value(&site->counts, ranking->order);

		if (value && ranking->ranks->groups.by_site[i])
			ranking->parts[ranking->count++] = (struct part){
				.group = ranking->ranks->groups.by_site[i] - 1,
				.section = ranking->ranks->sections.of[site->process],
				.process = site->process,
				.value = value,
			};
	}
	if (ranking->count)
		qsort(ranking->parts, ranking->count, sizeof(*ranking->parts), compare_parts);
	return NULL;
}

/* A section's value, from *at on, which is moved behind it. A process's shares of its peak add
 * up, those of several do not. */
static uint64_t take_section(const struct ranking *ranking, size_t *at)
{
	const struct part *first = &ranking->parts[*at];
	uint32_t process = first->process;
	uint64_t value = 0, own = 0;

	for (; *at < ranking->count; ++*at) {
		const struct part *part = &ranking->parts[*at];

		if (part->group != first->group || part->section != first->section)
			break;
		if (ranking->order == ANALYZE_BY_PEAK && part->process != process) {
			value = own > value ? own : value;
			own = 0;
			process = part->process;
		}
		own += part->value;
	}
	return own > value ? own : value;
}

static struct error *take_group(struct ranking *ranking, size_t *at)
{
	size_t all = ranking->ranks->sections.count, count = 0;
	struct analyze_ranked_site site = {.group = ranking->parts[*at].group};

	while (*at < ranking->count && ranking->parts[*at].group == site.group) {
		uint32_t section = ranking->parts[*at].section;
		uint64_t value = take_section(ranking, at);

		if (value > site.spread.most) {
			site.spread.most = value;
			site.spread.section = section;
		}
		ranking->values[count++] = value;
	}
	site.sections = count;
	qsort(ranking->values, count, sizeof(*ranking->values), compare_numbers);
	site.spread.least = value_at(ranking->values, all - count, 0);
	site.spread.median = median_of(ranking->values, all - count, all);
	return vector_push(&ranking->sites, site);
}

static int largest_first(const void *a, const void *b)
{
	const struct analyze_ranked_site *x = a, *y = b;

	if (x->spread.most != y->spread.most)
		return x->spread.most < y->spread.most ? 1 : -1;
	return (x->group > y->group) - (x->group < y->group);
}

static struct error *rank(struct ranking *ranking)
{
	size_t at = 0;

	TRY(find_parts(ranking));
	ranking->values = calloc(ranking->ranks->sections.count + 1, sizeof(*ranking->values));
	if (!ranking->values)
		return error_no_memory();
	while (at < ranking->count)
		TRY(take_group(ranking, &at));
	if (ranking->sites.count)
		qsort(ranking->sites.items, ranking->sites.count, sizeof(*ranking->sites.items),
		      largest_first);
	return NULL;
}

struct error *analyze_ranks_make(const struct analyze_model *model, enum analyze_split split,
				 enum analyze_order order, struct analyze_ranks *ret)
{
	struct ranking ranking = {.model = model, .ranks = ret, .order = order};

	*ret = (struct analyze_ranks){0};
	struct error *error = analyze_sections_make(model, split, &ret->sections);

	if (!error) {
		raise_peaks(model, &ret->sections);
		error = analyze_groups_make(model, ANALYZE_ALL_PROCESSES, order, &ret->groups);
	}
	if (!error)
		error = rank(&ranking);
	free(ranking.parts);
	free(ranking.values);
	ret->sites = ranking.sites.items;
	ret->site_count = ranking.sites.count;
	if (error)
		analyze_ranks_free(ret);
	return error;
}

void analyze_ranks_free(struct analyze_ranks *ranks)
{
	analyze_sections_free(&ranks->sections);
	analyze_groups_free(&ranks->groups);
	free(ranks->sites);
	*ranks = (struct analyze_ranks){0};
}
