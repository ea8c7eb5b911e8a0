#include "analyze/together.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model_internal.h"
#include "base/overlap.h"

/* Others are worth telling from this part of the main process's peak on. */
#define OTHERS_PART 8u

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* --- at most what could live at once -------------------------------------------------- */

static uint64_t end_of(const struct analyze_process *process)
{
	return process->duration_ns == ANALYZE_UNKNOWN
		       ? UINT64_MAX
		       : add_capped(process->start_ns, process->duration_ns);
}

static struct error *most_at_once(const struct analyze_model *model, uint64_t *ret)
{
	CLEANUP_FREE struct overlap *items = calloc(model->process_count + 1, sizeof(*items));

	if (!items)
		return error_no_memory();
	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];

		items[i] = (struct overlap){
			.start = process->start_ns,
			.end = end_of(process),
			.weight = add_capped(process->counts.peak_bytes, process->peak_error),
		};
		/* One of no length is there at its time all the same. */
		if (items[i].end == items[i].start)
			items[i].end++;
	}
	return overlap_most(items, model->process_count, ret);
}

/* --- what was seen ---------------------------------------------------------------------- */

static const struct analyze_snap *highest(const struct analyze_timeline *timeline)
{
	const struct analyze_snap *found = NULL;

	for (size_t i = 0; i < timeline->count; i++)
		if (!found || timeline->snaps[i].live_bytes > found->live_bytes ||
		    (timeline->snaps[i].live_bytes == found->live_bytes &&
		     timeline->snaps[i].is_peak && !found->is_peak))
			found = &timeline->snaps[i];
	return found;
}

static uint32_t largest_process(const struct analyze_model *model)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < model->process_count; i++)
		if (model->processes[i].counts.peak_bytes >
		    model->processes[largest].counts.peak_bytes)
			largest = i;
	return largest;
}

/* At the instant of the peak; of a merged profile, of that source's. */
static uint32_t largest_share(const struct analyze_model *model, uint32_t source,
			      uint32_t otherwise)
{
	uint32_t found = otherwise;
	uint64_t most = 0;

	for (uint32_t i = 0; i < model->process_count; i++) {
		uint64_t bytes = model->processes[i].tree_peak_bytes;

		if (bytes != ANALYZE_UNKNOWN && bytes > most &&
		    (model->source_count == 0 || model->processes[i].source == source)) {
			most = bytes;
			found = i;
		}
	}
	return found;
}

/* Clocks of several hosts do not tell what lived at once. */
static bool has_one_host(const struct analyze_model *model)
{
	const struct analyze_text *first = &model->sources[0].host;

	for (size_t i = 0; i < model->source_count; i++) {
		const struct analyze_text *host = &model->sources[i].host;

		if (host->length == 0 || host->length != first->length ||
		    memcmp(host->bytes, first->bytes, first->length) != 0)
			return false;
	}
	return true;
}

/* At most, of a source: what was seen and could be missed, or all its processes' peaks. */
static struct error *sources_at_most(const struct analyze_model *model, uint64_t *ret)
{
	CLEANUP_FREE uint64_t *sums = calloc(model->source_count + 1, sizeof(*sums));

	if (!sums)
		return error_no_memory();
	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];
		uint64_t *sum = &sums[process->source];

		*sum = add_capped(*sum,
				  add_capped(process->counts.peak_bytes, process->peak_error));
	}
	*ret = 0;
	for (size_t i = 0; i < model->source_count; i++) {
		const struct analyze_source *source = &model->sources[i];
		uint64_t seen =
			source->tree_peak_bytes == ANALYZE_UNKNOWN ||
					source->tree_peak_error == ANALYZE_UNKNOWN
				? UINT64_MAX
				: add_capped(source->tree_peak_bytes, source->tree_peak_error);

		*ret = add_capped(*ret, seen < sums[i] ? seen : sums[i]);
	}
	return NULL;
}

static struct error *find_merged_peak(const struct analyze_model *model,
				      struct analyze_together *ret)
{
	uint64_t most = 0;

	TRY(sources_at_most(model, &most));
	if (!has_one_host(model) || most < ret->peak_high)
		ret->peak_high = most;
	for (uint32_t i = 0; i < model->source_count && model->left_out == 0; i++) {
		const struct analyze_source *source = &model->sources[i];

		if (source->tree_peak_bytes == ANALYZE_UNKNOWN ||
		    source->tree_peak_bytes <= ret->peak_low)
			continue;
		ret->peak_low = source->tree_peak_bytes;
		ret->peak_ns = source->tree_peak_ns;
		ret->peak_source = source;
		ret->leader = largest_share(model, i, ret->leader);
	}
	return NULL;
}

static struct error *find_peak(struct analyze_model *model, struct analyze_together *ret)
{
	const struct analyze_snap *seen = highest(&ret->timeline);
	const struct analyze_process *largest;
	uint64_t error;
	bool found;

	ret->leader = largest_process(model);
	largest = &model->processes[ret->leader];
	ret->peak_low = largest->counts.peak_bytes;
	ret->peak_ns = largest->peak_time_ns == ANALYZE_UNKNOWN
			       ? ANALYZE_UNKNOWN
			       : add_capped(largest->start_ns, largest->peak_time_ns);
	TRY(most_at_once(model, &ret->peak_high));
	if (seen && seen->live_bytes >= ret->peak_low) {
		ret->peak_low = seen->live_bytes;
		ret->peak_ns = seen->ns;
		ret->is_instant = true;
		ret->leader = largest_share(model, 0, ret->leader);
	}
	TRY(store_meta_number(model->reader, "tree_peak_error", &error, &found));
	if (seen && found) {
		uint64_t most = add_capped(seen->live_bytes, error);

		ret->peak_high = most < ret->peak_high ? most : ret->peak_high;
	}
	if (model->source_count)
		TRY(find_merged_peak(model, ret));
	if (ret->peak_high < ret->peak_low)
		ret->peak_high = ret->peak_low;
	return NULL;
}

/* --- the whole -------------------------------------------------------------------------- */

size_t analyze_process_count(const struct analyze_model *model)
{
	size_t count = 0;

	for (size_t i = 0; i < model->process_count; i++)
		count += model->processes[i].how != ANALYZE_EXEC ||
			 analyze_process_find(model, model->processes[i].parent) >= i;
	return count;
}

static void add_all(const struct analyze_model *model, struct analyze_together *ret)
{
	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];
		uint64_t end = end_of(process);

		analyze_counts_add(&ret->counts, &process->counts);
		ret->failed += process->failed;
		if (process->end == ANALYZE_RUNNING) {
			ret->running++;
			ret->running_bytes += process->counts.live_bytes;
			ret->running_blocks += process->counts.live_blocks;
		}
		ret->process_count += process->how != ANALYZE_EXEC ||
				      analyze_process_find(model, process->parent) >= i;
		if (end != UINT64_MAX && end > ret->end_ns)
			ret->end_ns = end;
	}
	ret->process_count = analyze_process_count(model);
	ret->counts.peak_bytes = ret->counts.peak_blocks = 0;
}

static bool others_matter(const struct analyze_model *model,
			  const struct analyze_together *together)
{
	const struct analyze_process *main = analyze_main_process(model);
	uint64_t peak = main->counts.peak_bytes;

	if (together->peak_low > add_capped(peak, peak / OTHERS_PART) ||
	    together->counts.allocations - main->counts.allocations > main->counts.allocations)
		return true;
	for (size_t i = 0; i < model->process_count; i++)
		if (&model->processes[i] != main &&
		    model->processes[i].counts.peak_bytes > peak / OTHERS_PART)
			return true;
	return false;
}

static struct error *make(struct analyze_model *model, struct analyze_together *ret)
{
	TRY(analyze_sections_make(model, ANALYZE_SPLIT_PROGRAM, &ret->programs));
	if (model->process_count == 0)
		return NULL;
	/* Of those left out, too, it would tell. */
	if (model->left_out == 0)
		TRY(analyze_timeline_load(model, ANALYZE_ALL_PROCESSES, &ret->timeline));
	add_all(model, ret);
	TRY(find_peak(model, ret));
	ret->matters =
		model->process_count > 1 && (model->source_count > 1 || others_matter(model, ret));
	return NULL;
}

struct error *analyze_together_make(struct analyze_model *model, struct analyze_together *ret)
{
	*ret = (struct analyze_together){.peak_ns = ANALYZE_UNKNOWN};
	struct error *error = make(model, ret);

	if (error)
		analyze_together_free(ret);
	return error;
}

void analyze_together_free(struct analyze_together *together)
{
	analyze_sections_free(&together->programs);
	analyze_timeline_free(&together->timeline);
	*together = (struct analyze_together){0};
}
