/* Live blocks: by age in cohorts, and one by one as many as there is room for. */
#include "collect/finish_internal.h"

struct block {
	uint64_t address;
	uint64_t size;
	uint64_t number;
	uint32_t row; /* place in the rows */
};

/* Blocks of a site born in one interval between snapshots. */
struct cohort {
	uint64_t key; /* site << 32 | place of the snapshot */
	uint64_t blocks;
	uint64_t bytes;
};

struct walking {
	struct finish_process *process;
	uint64_t *last_numbers; /* by snapshot: newest allocation it could have seen */
	bool list_all;
	uint64_t seen;
	VECTOR(struct block) listed;
	struct block *oldest; /* by site, from the process's first; number 0 = none */
	struct block *largest;
	VECTOR(struct cohort) cohorts;
	struct map_u64 cohort_at;
};

/* The newest number taken at a time or before it. */
static uint64_t number_at(const struct finish_process *process, uint64_t time)
{
	uint64_t low = 0, high = process->from->next_number;

	while (low < high) {                               /* low was taken by then, or is 0 */
		uint64_t middle = high - (high - low) / 2; /* above low, however high */

		if (collect_finish_time(process->finishing,
					ledger_time_of(process->from, middle)) <= time)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static struct error *find_numbers(struct walking *walking)
{
	struct finish_process *process = walking->process;

	walking->last_numbers = calloc(process->snap_count, sizeof(*walking->last_numbers));
	if (!walking->last_numbers)
		return error_no_memory();
	for (size_t i = 0; i < process->snap_count; i++)
		walking->last_numbers[i] = number_at(process, process->snaps[i].time);
	return NULL;
}

/* Place of the first snapshot that was not before the block. */
static size_t interval_of(const struct walking *walking, uint64_t number)
{
	size_t low = 0, high = walking->process->snap_count - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (number <= walking->last_numbers[middle])
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct error *add_cohort(struct walking *walking, uint64_t site, const struct block *block)
{
	uint64_t key = site << 32 | interval_of(walking, block->number);
	const uint64_t *at = map_u64_find(&walking->cohort_at, key);
	struct cohort *cohort;

	if (at) {
		cohort = &walking->cohorts.items[*at];
	} else {
		TRY(map_u64_set(&walking->cohort_at, key, walking->cohorts.count));
		TRY(vector_push(&walking->cohorts, (struct cohort){.key = key}));
		cohort = &walking->cohorts.items[walking->cohorts.count - 1];
	}
	cohort->blocks++;
	cohort->bytes += block->size;
	return NULL;
}

static void choose(struct walking *walking, uint64_t site, const struct block *block)
{
	size_t at = site - walking->process->first_site;
	struct block *oldest = &walking->oldest[at], *largest = &walking->largest[at];

	if (oldest->address == 0 || block->number < oldest->number)
		*oldest = *block;
	if (largest->address == 0 || block->size > largest->size)
		*largest = *block;
}

static struct error *visit(void *context, const struct ledger_block *from)
{
	struct walking *walking = context;
	struct finish_process *process = walking->process;
	const struct ledger_row *row = ledger_rows_find(&process->rows, from->row);
	size_t at = row ? (size_t)(row - process->rows.items) : 0;

	/* A row made since the rows were read; or, of a process that is over, damage. */
	if (!row || process->row_sites[at] == UINT32_MAX) {
		process->damage += process->member->end != LEDGER_END_RUNNING;
		return NULL;
	}
	uint64_t site = process->row_sites[at];
	struct block block = {
		.address = from->address,
		.size = from->size,
		.number = from->number,
		.row = (uint32_t)at,
	};

	walking->seen++;
	TRY(add_cohort(walking, site, &block));
	if (walking->list_all)
		return vector_push(&walking->listed, block);
	choose(walking, site, &block);
	return NULL;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int compare_cohorts(const void *a, const void *b)
{
	const struct cohort *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static struct error *put_cohorts(struct walking *walking)
{
	const struct finish_process *process = walking->process;
	struct cohort *cohorts = walking->cohorts.items;

	if (walking->cohorts.count)
		qsort(cohorts, walking->cohorts.count, sizeof(*cohorts), compare_cohorts);
	for (size_t i = 0; i < walking->cohorts.count; i++)
		TRY(store_put(process->finishing->writer,
			      &((struct store_cohort){
				      .snap = process->snaps[process->snap_count - 1].id,
				      .site = collect_finish_site_id(process->finishing,
								     cohorts[i].key >> 32),
				      .born = process->snaps[(uint32_t)cohorts[i].key].id,
				      .blocks = cohorts[i].blocks,
				      .bytes = cohorts[i].bytes,
			      })));
	return NULL;
}

static struct error *list_chosen(struct walking *walking)
{
	size_t sites = walking->process->finishing->sites.count - walking->process->first_site;

	for (size_t i = 0; i < sites; i++) {
		if (walking->oldest[i].address == 0)
			continue;
		TRY(vector_push(&walking->listed, walking->oldest[i]));
		if (walking->largest[i].address != walking->oldest[i].address)
			TRY(vector_push(&walking->listed, walking->largest[i]));
	}
	return NULL;
}

static struct error *put_blocks(struct walking *walking)
{
	struct finish_process *process = walking->process;
	const struct finishing *finishing = process->finishing;

	if (walking->listed.count)
		qsort(walking->listed.items, walking->listed.count, sizeof(struct block),
		      compare_blocks);
	for (size_t i = 0; i < walking->listed.count; i++) {
		const struct block *block = &walking->listed.items[i];
		uint32_t slot = process->rows.items[block->row].slot;

		/* Of two words that lead to one address, one is damage. */
		if (i && walking->listed.items[i - 1].address == block->address) {
			process->damage++;
			continue;
		}
		TRY(store_put(
			finishing->writer,
			&((struct store_block){
				.process = process->from->serial,
				.address = block->address,
				.site = collect_finish_site_id(finishing,
							       process->row_sites[block->row]),
				.size = block->size,
				.number = block->number,
				.born = collect_finish_time(
					finishing, ledger_time_of(process->from, block->number)),
				.thread = slot < process->from->slot_count
						  ? process->slot_threads[slot]
						  : 0,
			})));
	}
	return NULL;
}

static struct error *walk(struct walking *walking)
{
	struct finish_process *process = walking->process;
	size_t sites = process->finishing->sites.count - process->first_site;

	TRY(find_numbers(walking));
	walking->oldest = calloc(sites + 1, sizeof(*walking->oldest));
	walking->largest = calloc(sites + 1, sizeof(*walking->largest));
	if (!walking->oldest || !walking->largest)
		return error_no_memory();
	TRY(ledger_blocks_walk(process->finishing->reader, process->place, visit, walking));
	TRY(put_cohorts(walking));
	if (!walking->list_all)
		TRY(list_chosen(walking));
	TRY(put_blocks(walking));
	if (walking->list_all || walking->seen == walking->listed.count)
		return NULL;
	return ledger_member_add_missing(process->member, "blocks_not_listed",
					 walking->seen - walking->listed.count, NULL);
}

struct error *collect_finish_blocks(struct finish_process *process)
{
	struct finishing *finishing = process->finishing;
	uint64_t live = process->counts.allocs - process->counts.frees;
	struct walking walking = {
		.process = process,
		.list_all = finishing->options->all_blocks || live <= finishing->blocks_left,
	};

	if (walking.list_all && !finishing->options->all_blocks)
		finishing->blocks_left -= live;

	struct error *error = walk(&walking);

	free(walking.last_numbers);
	free(walking.oldest);
	free(walking.largest);
	vector_free(&walking.listed);
	vector_free(&walking.cohorts);
	map_u64_free(&walking.cohort_at);
	return error;
}
