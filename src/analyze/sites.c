/* Sites: a process's rows summed by stack, function called and size class. */
#include "analyze/model_internal.h"

#include <string.h>

struct loading {
	struct builder *builder;
	size_t process;
	size_t first; /* the process's sites begin here */
	struct site_sums total;
	bool exact;
	uint64_t damage;
};

struct site_key {
	const struct builder *builder;
	uint32_t process;
	uint32_t frame;
	uint8_t api;
};

static bool same_site(void *context, uint32_t position)
{
	const struct site_key *key = context;
	const struct analyze_site *is = &key->builder->sites.items[position];

	return is->frame == key->frame && is->api == key->api && is->process == key->process;
}

static struct error *site_of(struct loading *loading, uint32_t frame, uint8_t api, uint32_t *ret)
{
	struct builder *builder = loading->builder;
	struct site_key key = {
		.builder = builder,
		.process = (uint32_t)loading->process,
		.frame = frame,
		.api = api,
	};
	uint64_t hash = map_hash(((uint64_t)frame << 8 | api) ^ map_hash(key.process));
	uint32_t at = map_index_find(&builder->site_index, hash, same_site, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)builder->sites.count;
		TRY(vector_push(&builder->sites, ((struct analyze_site){
							 .process = key.process,
							 .frame = frame,
							 .api = api,
						 })));
		TRY(vector_push(&builder->sums, (struct site_sums){0}));
		TRY(map_index_add(&builder->site_index, hash, at));
	}
	*ret = at;
	return NULL;
}

struct size_key {
	const struct builder *builder;
	uint32_t site;
	uint32_t size_class;
};

static bool same_size(void *context, uint32_t position)
{
	const struct size_key *key = context;
	const struct site_size *is = &key->builder->sizes.items[position];

	return is->site == key->site && is->size_class == key->size_class;
}

static struct error *add_size(struct builder *builder, uint32_t site, uint32_t size_class,
			      uint64_t allocations)
{
	struct size_key key = {.builder = builder, .site = site, .size_class = size_class};
	uint64_t hash = map_hash((uint64_t)site << 8 | size_class);
	uint32_t at;

	if (allocations == 0)
		return NULL;
	at = map_index_find(&builder->size_index, hash, same_size, &key);
	if (at != MAP_NONE) {
		builder->sizes.items[at].allocations += allocations;
		return NULL;
	}
	TRY(vector_push(&builder->sizes, ((struct site_size){
						 .site = site,
						 .size_class = size_class,
						 .allocations = allocations,
					 })));
	return map_index_add(&builder->size_index, hash, (uint32_t)builder->sizes.count - 1);
}

/* Sums wrap rather than overflow: what a damaged file adds up to is nobody's truth. */
static void add_signed(int64_t *sum, uint64_t value) { *sum = (int64_t)((uint64_t)*sum + value); }

static void add_row(struct analyze_counts *counts, struct site_sums *sums,
		    const struct ledger_row *row)
{
	counts->allocations += row->allocs;
	counts->frees += row->frees;
	counts->allocated_bytes += row->bytes_in;
	counts->temporary += row->temporaries;
	counts->lifetime += row->lifetime;
	counts->moved += row->moved;
	counts->foreign_frees += row->foreign_frees;
	add_signed(&sums->live_blocks, row->allocs - row->frees);
	add_signed(&sums->live_bytes, row->bytes_in - row->bytes_out);
	add_signed(&sums->live_blocks_low, row->allocs_low - row->frees_high);
	add_signed(&sums->live_bytes_low, row->bytes_in_low - row->bytes_out_high);
	add_signed(&sums->peak_blocks, (uint64_t)row->peak_blocks);
	add_signed(&sums->peak_bytes, (uint64_t)row->peak_bytes);
}

static uint64_t clamp(struct loading *loading, int64_t value)
{
	if (value >= 0)
		return (uint64_t)value;
	/* While calls are under way it is the reading that was late, not the ledger. */
	if (loading->exact)
		loading->damage++;
	return 0;
}

static void settle(struct loading *loading, struct analyze_counts *counts,
		   const struct site_sums *sums)
{
	counts->live_blocks = clamp(loading, sums->live_blocks);
	counts->live_bytes = clamp(loading, sums->live_bytes);
	counts->live_blocks_low = sums->live_blocks_low < 0 ? 0 : (uint64_t)sums->live_blocks_low;
	counts->live_bytes_low = sums->live_bytes_low < 0 ? 0 : (uint64_t)sums->live_bytes_low;
	counts->peak_blocks = clamp(loading, sums->peak_blocks);
	counts->peak_bytes = clamp(loading, sums->peak_bytes);
}

static struct error *load_rows(struct loading *loading, struct ledger_naming *naming,
			       const struct ledger_rows *rows)
{
	struct builder *builder = loading->builder;
	struct analyze_counts *total = &builder->processes[loading->process].counts;

	loading->exact = rows->exact;
	for (size_t i = 0; i < rows->count; i++) {
		const struct ledger_row *row = &rows->items[i];
		uint32_t frame, site;

		if (row->allocs == 0 && row->frees == 0)
			continue;
		TRY(ledger_naming_frame(naming, row->node, &frame));
		TRY(site_of(loading, frame, row->api, &site));
		TRY(add_size(builder, site, row->size_class, row->allocs));
		add_row(&builder->sites.items[site].counts, &builder->sums.items[site], row);
		add_row(total, &loading->total, row);
	}
	for (size_t i = loading->first; i < builder->sites.count; i++)
		settle(loading, &builder->sites.items[i].counts, &builder->sums.items[i]);
	settle(loading, total, &loading->total);
	return NULL;
}

struct error *analyze_sites_load(struct builder *builder, size_t process, uint64_t *damage)
{
	struct loading loading = {
		.builder = builder,
		.process = process,
		.first = builder->sites.count,
	};
	struct ledger_rows rows;
	struct ledger_naming naming;

	TRY(ledger_rows_read(builder->reader, process, &rows));
	struct error *error = ledger_naming_init(&naming, &builder->stacks, process);

	if (!error)
		error = load_rows(&loading, &naming, &rows);
	*damage = loading.damage + naming.damage;
	ledger_naming_deinit(&naming);
	ledger_rows_free(&rows);
	return error;
}

static int compare_sizes(const void *a, const void *b)
{
	const struct site_size *x = a, *y = b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return x->size_class < y->size_class ? -1 : x->size_class > y->size_class;
}

struct error *analyze_sites_finish(struct builder *builder, struct analyze_model *model)
{
	struct site_size *from = builder->sizes.items;
	size_t count = builder->sizes.count;

	model->sizes = calloc(count + 1, sizeof(*model->sizes));
	if (!model->sizes)
		return error_no_memory();
	if (count)
		qsort(from, count, sizeof(*from), compare_sizes);
	for (size_t i = 0; i < count; i++) {
		struct analyze_site *site = &builder->sites.items[from[i].site];
		uint64_t low = mgl_class_low(from[i].size_class);
		uint64_t width = mgl_class_width(from[i].size_class);

		if (site->size_count++ == 0)
			site->sizes = i;
		model->sizes[i] = (struct analyze_size){
			.low = low,
			.high = low > UINT64_MAX - width ? UINT64_MAX : low + width,
			.allocations = from[i].allocations,
		};
	}
	model->size_count = count;
	return NULL;
}
