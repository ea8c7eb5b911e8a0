/* Rows into sites, sizes and threads. */
#include "collect/finish_internal.h"

#include <string.h>

#define PLACED_ROWS 1024 /* between looks for new frames */

/* Sums by two small numbers, the key: site or thread << 32 | class or thread. A site has few
 * rows and there are many sites: what is of sites is summed once it is sorted. */
struct sum {
	uint64_t key;
	uint64_t allocs;
	uint64_t frees;
	uint64_t bytes;
};

struct sums {
	VECTOR(struct sum) list;
	struct map_u64 at; /* of threads' alone */
};

struct summing {
	struct finish_process *process;
	struct sums site_sizes;
	struct sums site_threads;
	struct sums thread_sizes;
	struct sums threads; /* by id << 32 */
};

static void sum_add(struct sum *sum, const struct sum *more)
{
	sum->allocs += more->allocs;
	sum->frees += more->frees;
	sum->bytes += more->bytes;
}

static struct sum sum_of(uint64_t major, uint64_t minor, const struct ledger_row *row)
{
	return (struct sum){
		.key = major << 32 | minor,
		.allocs = row->allocs,
		.frees = row->frees,
		.bytes = row->bytes_in,
	};
}

static struct error *sums_add(struct sums *sums, struct sum sum)
{
	const uint64_t *at = map_u64_find(&sums->at, sum.key);

	if (at) {
		sum_add(vector_at(&sums->list, *at), &sum);
		return NULL;
	}
	TRY(map_u64_set(&sums->at, sum.key, sums->list.count));
	return vector_push(&sums->list, sum);
}

static int compare_sums(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static void sums_sort(struct sums *sums)
{
	size_t kept = 0;

	if (sums->list.count == 0)
		return;
	qsort(sums->list.items, sums->list.count, sizeof(*sums->list.items), compare_sums);
	for (size_t i = 1; i < sums->list.count; i++) {
		if (sums->list.items[i].key == sums->list.items[kept].key)
			sum_add(&sums->list.items[kept], &sums->list.items[i]);
		else
			sums->list.items[++kept] = sums->list.items[i];
	}
	sums->list.count = kept + 1;
}

static void sums_deinit(struct sums *sums)
{
	vector_free(&sums->list);
	map_u64_free(&sums->at);
}

void collect_finish_counts_add(struct finish_counts *counts, const struct ledger_row *row)
{
	counts->allocs += row->allocs;
	counts->frees += row->frees;
	counts->bytes_in += row->bytes_in;
	counts->bytes_out += row->bytes_out;
	counts->temporaries += row->temporaries;
	counts->lifetime += row->lifetime;
	counts->moved += row->moved;
	counts->foreign_frees += row->foreign_frees;
	counts->peak_blocks += (uint64_t)row->peak_blocks;
	counts->peak_bytes += (uint64_t)row->peak_bytes;
	counts->live_blocks_low += row->allocs_low - row->frees_high;
	counts->live_bytes_low += row->bytes_in_low - row->bytes_out_high;
}

uint64_t collect_finish_clamp(struct finish_process *process, uint64_t value)
{
	if ((int64_t)value >= 0)
		return value;
	/* While calls are under way it is the reading that was late, not the ledger. */
	if (process->rows.exact)
		process->damage++;
	return 0;
}

struct site_key {
	const struct finishing *finishing;
	uint32_t serial;
	uint32_t frame;
	uint32_t api;
};

static bool same_site(void *context, uint32_t position)
{
	const struct site_key *key = context;
	const struct finish_site *is = &key->finishing->sites.items[position];

	return is->frame == key->frame && is->api == key->api && is->serial == key->serial;
}

static struct error *site_of(struct finish_process *process, uint32_t frame, uint32_t api,
			     uint32_t *ret)
{
	struct finishing *finishing = process->finishing;
	struct site_key key = {
		.finishing = finishing,
		.serial = process->from->serial,
		.frame = frame,
		.api = api,
	};
	uint64_t hash = map_hash(((uint64_t)frame << 8 | api) ^ map_hash(key.serial));
	uint32_t at = map_index_find(&finishing->site_index, hash, same_site, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)finishing->sites.count;
		TRY(vector_push(&finishing->sites, ((struct finish_site){
							   .serial = key.serial,
							   .frame = frame,
							   .api = api,
						   })));
		TRY(map_index_add(&finishing->site_index, hash, at));
	}
	*ret = at;
	return NULL;
}

static struct error *add_row(struct summing *summing, const struct ledger_row *row, uint32_t *ret)
{
	struct finish_process *process = summing->process;
	uint64_t thread =
		row->slot < process->from->slot_count ? process->slot_threads[row->slot] : 0;
	uint32_t frame, site;

	TRY(ledger_naming_frame(process->naming, row->node, &frame));
	TRY(site_of(process, frame, row->api, &site));
	*ret = site;
	collect_finish_counts_add(&process->finishing->sites.items[site].counts, row);
	collect_finish_counts_add(&process->counts, row);
	TRY(vector_push(&summing->site_sizes.list, sum_of(site, row->size_class, row)));
	if (thread == 0)
		return NULL;
	TRY(vector_push(&summing->site_threads.list, sum_of(site, thread, row)));
	TRY(sums_add(&summing->thread_sizes, sum_of(thread, row->size_class, row)));
	return sums_add(&summing->threads, sum_of(thread, 0, row));
}

static struct error *add_rows(struct summing *summing)
{
	struct finish_process *process = summing->process;

	process->row_sites = calloc(process->rows.count + 1, sizeof(*process->row_sites));
	if (!process->row_sites)
		return error_no_memory();
	for (size_t i = 0; i < process->rows.count; i++) {
		const struct ledger_row *row = &process->rows.items[i];

		if (i % PLACED_ROWS == 0)
			TRY(collect_finish_frames(process->finishing));
		if (row->allocs || row->frees)
			TRY(add_row(summing, row, &process->row_sites[i]));
		else
			process->row_sites[i] = UINT32_MAX;
	}
	return NULL;
}

/* A thread of the profile: those of one name. */
struct named {
	const struct ledger_slot *slot; /* the first of that name */
	uint64_t threads;
};

struct threads {
	VECTOR(struct named) list;
	struct map_index index;
};

static bool same_name(void *context, uint32_t position)
{
	const struct threads *threads = ((void **)context)[0];
	const char *name = ((void **)context)[1];

	return strcmp(threads->list.items[position].slot->name, name) == 0;
}

static struct error *thread_of(struct threads *threads, const struct ledger_slot *slot,
			       uint32_t *ret)
{
	void *context[] = {threads, (void *)(uintptr_t)slot->name};
	uint64_t hash = map_hash_bytes(slot->name, strlen(slot->name));
	uint32_t at = map_index_find(&threads->index, hash, same_name, context);

	if (at == MAP_NONE) {
		at = (uint32_t)threads->list.count;
		TRY(vector_push(&threads->list, ((struct named){.slot = slot})));
		TRY(map_index_add(&threads->index, hash, at));
	}
	threads->list.items[at].threads += slot->threads;
	*ret = at;
	return NULL;
}

static struct error *name_threads(struct finish_process *process, struct threads *threads)
{
	process->slot_threads = calloc(process->from->slot_count + 1, sizeof(uint64_t));
	if (!process->slot_threads)
		return error_no_memory();
	for (size_t i = 0; i < process->from->slot_count; i++) {
		uint32_t at;

		TRY(thread_of(threads, &process->from->slots[i], &at));
		process->slot_threads[i] = process->finishing->threads + at + 1;
	}
	return NULL;
}

static struct error *put_threads(struct summing *summing, const struct threads *threads)
{
	struct finish_process *process = summing->process;
	struct store_writer *writer = process->finishing->writer;
	uint64_t first = process->finishing->threads + 1;

	for (size_t i = 0; i < threads->list.count; i++) {
		const struct named *named = &threads->list.items[i];
		const uint64_t *at = map_u64_find(&summing->threads.at, (first + i) << 32);
		struct sum none = {0};
		const struct sum *sum = at ? vector_at(&summing->threads.list, *at) : &none;
		struct store_thread row = {
			.id = first + i,
			.process = process->from->serial,
			/* Which of them had it says nothing where there were several. */
			.tid = named->threads > 1 || named->slot->tid <= 0
				       ? STORE_UNKNOWN
				       : (uint64_t)named->slot->tid,
			.merged = named->threads,
			.allocs = sum->allocs,
			.frees = sum->frees,
			.bytes = sum->bytes,
		};

		TRY(store_intern(writer, named->slot->name, strlen(named->slot->name), &row.name));
		TRY(store_put(writer, &row));
	}
	process->finishing->threads += threads->list.count;
	return NULL;
}

static struct error *put_sums(struct summing *summing)
{
	struct store_writer *writer = summing->process->finishing->writer;
	uint64_t serial = summing->process->from->serial;

	sums_sort(&summing->site_sizes);
	sums_sort(&summing->site_threads);
	sums_sort(&summing->thread_sizes);
	for (size_t i = 0; i < summing->site_sizes.list.count; i++) {
		const struct sum *sum = &summing->site_sizes.list.items[i];

		TRY(store_put(writer, &((struct store_site_size){
					      .site = collect_finish_site_id(
						      summing->process->finishing, sum->key >> 32),
					      .class = (uint32_t)sum->key,
					      .allocs = sum->allocs,
					      .live = collect_finish_clamp(
						      summing->process, sum->allocs - sum->frees),
					      .bytes = sum->bytes,
				      })));
	}
	for (size_t i = 0; i < summing->site_threads.list.count; i++) {
		const struct sum *sum = &summing->site_threads.list.items[i];

		TRY(store_put(writer, &((struct store_site_thread){
					      .site = collect_finish_site_id(
						      summing->process->finishing, sum->key >> 32),
					      .thread = (uint32_t)sum->key,
					      .allocs = sum->allocs,
					      .frees = sum->frees,
					      .bytes = sum->bytes,
				      })));
	}
	for (size_t i = 0; i < summing->thread_sizes.list.count; i++) {
		const struct sum *sum = &summing->thread_sizes.list.items[i];

		TRY(store_put(writer, &((struct store_thread_size){
					      .process = serial,
					      .thread = sum->key >> 32,
					      .class = (uint32_t)sum->key,
					      .allocs = sum->allocs,
					      .live = (int64_t)(sum->allocs - sum->frees),
					      .bytes = sum->bytes,
				      })));
	}
	return NULL;
}

static void move_site(struct sum *sum, uint64_t first, const uint32_t *places)
{
	sum->key = (first + places[(sum->key >> 32) - first]) << 32 | (uint32_t)sum->key;
}

/* Sites that are folded have other places. */
static struct error *fold(struct summing *summing)
{
	struct finish_process *process = summing->process;
	CLEANUP_FREE uint32_t *places = NULL;
	uint64_t first = process->first_site;

	TRY(collect_finish_fold(process, &places));
	if (!places)
		return NULL;
	for (size_t i = 0; i < process->rows.count; i++)
		if (process->row_sites[i] != UINT32_MAX)
			process->row_sites[i] =
				(uint32_t)first + places[process->row_sites[i] - first];
	for (size_t i = 0; i < summing->site_sizes.list.count; i++)
		move_site(&summing->site_sizes.list.items[i], first, places);
	for (size_t i = 0; i < summing->site_threads.list.count; i++)
		move_site(&summing->site_threads.list.items[i], first, places);
	return NULL;
}

static struct error *sum_up(struct summing *summing, struct threads *threads)
{
	TRY(name_threads(summing->process, threads));
	TRY(add_rows(summing));
	TRY(fold(summing));
	TRY(put_threads(summing, threads));
	return put_sums(summing);
}

struct error *collect_finish_rows(struct finish_process *process)
{
	struct summing summing = {.process = process};
	struct threads threads = {0};
	struct error *error = sum_up(&summing, &threads);

	sums_deinit(&summing.site_sizes);
	sums_deinit(&summing.site_threads);
	sums_deinit(&summing.thread_sizes);
	sums_deinit(&summing.threads);
	vector_free(&threads.list);
	map_index_free(&threads.index);
	/* Nobody looks for a site of this process again, and places may have changed. */
	map_index_free(&process->finishing->site_index);
	process->damage += process->naming->damage;
	return error;
}
