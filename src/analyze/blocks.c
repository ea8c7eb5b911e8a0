#include "analyze/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model_internal.h"

/* No more of one module are looked at for an address: a false profile has any number. */
#define MAPPINGS_MOST 1024u

struct analyze_listing {
	struct analyze_model *model;
	VECTOR(uint32_t) sites; /* by id: place + 1 */
	struct map_u64 sparse;  /* the same of ids too large for a list */
	struct map_u64 modules;
	VECTOR(struct analyze_mapping) mappings; /* by process and module */
	size_t mapping;                          /* the first that is not of an earlier process */
	struct store_cursor *cursor;             /* NULL = all were read */
	struct store_block row;                  /* the next one, if there is a cursor */
};

static uint64_t since(const struct analyze_listing *listing, uint32_t process, uint64_t time)
{
	uint64_t start = listing->model->processes[process].start_ns;

	if (time == STORE_UNKNOWN)
		return ANALYZE_UNKNOWN;
	return time > start ? time - start : 0;
}

/* Without gaps, as they are written, but whoever made the profile may have left some. */
static struct error *add_sites(struct analyze_listing *listing)
{
	const struct analyze_model *model = listing->model;
	size_t limit = 2 * model->site_count + 1;

	TRY(vector_reserve(&listing->sites, limit));
	memset(listing->sites.items, 0, limit * sizeof(*listing->sites.items));
	listing->sites.count = limit;
	for (size_t i = 0; i < model->site_count; i++) {
		uint64_t id = model->sites[i].id;

		if (id < limit)
			listing->sites.items[id] = (uint32_t)i + 1;
		else
			TRY(map_u64_set(&listing->sparse, id, i + 1));
	}
	return NULL;
}

static uint32_t find_site(const struct analyze_listing *listing, uint64_t id)
{
	const uint64_t *found;

	if (id < listing->sites.count)
		return listing->sites.items[id];
	found = map_u64_find(&listing->sparse, id);
	return found ? (uint32_t)*found : 0;
}

/* The store's ids of modules are not the model's. */
static struct error *add_module(void *context, const void *from)
{
	const struct store_module *row = from;
	struct analyze_listing *listing = context;

	return map_u64_set(&listing->modules, row->id, listing->modules.count + 1);
}

static struct error *add_mapping(void *context, const void *from)
{
	const struct store_mapping *row = from;
	struct analyze_listing *listing = context;
	const uint64_t *module = map_u64_find(&listing->modules, row->module);
	uint32_t process = row->process <= UINT32_MAX
				   ? analyze_process_find(listing->model, (uint32_t)row->process)
				   : ANALYZE_NO_PROCESS;

	if (!module || process == ANALYZE_NO_PROCESS)
		return NULL;
	return vector_push(&listing->mappings,
			   ((struct analyze_mapping){
				   .process = process,
				   .module = (uint32_t)*module,
				   .order = (uint32_t)listing->mappings.count,
				   .start = row->start,
				   .stop = row->stop,
				   .bias = row->start - row->file_offset,
				   .loaded_ns = since(listing, process, row->loaded),
				   .unloaded_ns = since(listing, process, row->unloaded),
			   }));
}

static int compare_mappings(const void *a, const void *b)
{
	const struct analyze_mapping *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* The next row, or none and the cursor closed. */
static struct error *step(struct analyze_listing *listing)
{
	if (store_next(listing->cursor, &listing->row))
		return NULL;
	return store_cursor_close(STEAL(listing->cursor));
}

static struct error *open_listing(struct analyze_listing *listing)
{
	struct store_reader *reader = listing->model->reader;
	struct store_module module;
	struct store_mapping mapping;

	TRY(add_sites(listing));
	TRY(analyze_each_row(reader, STORE_TABLE_MODULE, STORE_ALL, &module, add_module, listing));
	TRY(analyze_each_row(reader, STORE_TABLE_MAPPING, STORE_ALL, &mapping, add_mapping,
			     listing));
	if (listing->mappings.count)
		qsort(listing->mappings.items, listing->mappings.count,
		      sizeof(*listing->mappings.items), compare_mappings);
	TRY(store_cursor_open(reader, STORE_TABLE_BLOCK, STORE_ALL, &listing->cursor));
	return step(listing);
}

struct error *analyze_listing_open(struct analyze_model *model, struct analyze_listing **ret)
{
	struct analyze_listing *listing = calloc(1, sizeof(*listing));

	if (!listing)
		return error_no_memory();
	listing->model = model;
	struct error *error = open_listing(listing);

	if (error)
		analyze_listing_close(listing);
	else
		*ret = listing;
	return error;
}

void analyze_listing_close(struct analyze_listing *listing)
{
	if (!listing)
		return;
	if (listing->cursor)
		error_free(store_cursor_close(listing->cursor));
	vector_free(&listing->sites);
	vector_free(&listing->mappings);
	map_u64_free(&listing->sparse);
	map_u64_free(&listing->modules);
	free(listing);
}

struct key {
	uint64_t number;
	size_t place;
};

/* Stable, by one byte of the number. */
static void sort_by_byte(const struct key *from, struct key *to, size_t count, unsigned int shift)
{
	size_t starts[256] = {0}, sum = 0;

	for (size_t i = 0; i < count; i++)
		starts[from[i].number >> shift & 0xff]++;
	for (unsigned int i = 0; i < 256; i++) {
		size_t many = starts[i];

		starts[i] = sum;
		sum += many;
	}
	for (size_t i = 0; i < count; i++)
		to[starts[from[i].number >> shift & 0xff]++] = from[i];
}

/* Each to where it belongs, the one that stands there next: a second array of them would be
 * more memory than all else. */
static void place_blocks(struct analyze_block *blocks, struct key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct analyze_block first = blocks[i];
		size_t at = i;

		while (keys[at].place != i) {
			size_t from = keys[at].place;

			blocks[at] = blocks[from];
			keys[at].place = at;
			at = from;
		}
		blocks[at] = first;
		keys[at].place = at;
	}
}

/* By number, and those of one number by address, as they come. There may be millions: byte by
 * byte takes a third of the time that comparing does. */
static struct error *sort_blocks(struct analyze_block *blocks, size_t count)
{
	CLEANUP_FREE struct key *first = malloc((count + 1) * sizeof(*first));
	CLEANUP_FREE struct key *second = malloc((count + 1) * sizeof(*second));
	struct key *keys = first, *spare = second;
	uint64_t differ = 0;

	if (!first || !second)
		return error_no_memory();
	for (size_t i = 0; i < count; i++) {
		keys[i] = (struct key){blocks[i].number, i};
		differ |= blocks[i].number ^ blocks[0].number;
	}
	for (unsigned int shift = 0; shift < 64; shift += 8) {
		struct key *from = keys;

		if (!(differ >> shift & 0xff))
			continue;
		sort_by_byte(from, spare, count, shift);
		keys = spare;
		spare = from;
	}
	place_blocks(blocks, keys, count);
	return NULL;
}

typedef VECTOR(struct analyze_block) block_list;

static struct error *take_blocks(struct analyze_listing *listing, uint32_t process,
				 block_list *blocks)
{
	uint64_t id = listing->model->processes[process].id;

	while (listing->cursor && listing->row.process <= id) {
		const struct store_block *row = &listing->row;

		/* One of a process that is not shown, or of none. */
		if (row->process == id)
			TRY(vector_push(blocks,
					((struct analyze_block){
						.address = row->address,
						.size = row->size == STORE_UNKNOWN ? 0 : row->size,
						.number = row->number,
						.born_ns = since(listing, process, row->born),
						.site = find_site(listing, row->site),
					})));
		TRY(step(listing));
	}
	return blocks->count ? sort_blocks(blocks->items, blocks->count) : NULL;
}

static void take_mappings(struct analyze_listing *listing, uint32_t process,
			  struct analyze_blocks *ret)
{
	const struct analyze_mapping *mappings = listing->mappings.items;
	size_t at = listing->mapping, count = listing->mappings.count;

	while (at < count && mappings[at].process < process)
		at++;
	ret->mappings = at < count ? mappings + at : NULL;
	for (listing->mapping = at; at < count && mappings[at].process == process; at++)
		ret->mapping_count++;
}

struct error *analyze_listing_next(struct analyze_listing *listing, uint32_t process,
				   struct analyze_blocks *ret)
{
	block_list blocks = VECTOR_EMPTY;
	struct error *error = take_blocks(listing, process, &blocks);

	*ret = (struct analyze_blocks){.items = blocks.items, .count = blocks.count};
	take_mappings(listing, process, ret);
	if (error)
		analyze_blocks_free(ret);
	return error;
}

void analyze_blocks_free(struct analyze_blocks *blocks)
{
	free(blocks->items);
	*blocks = (struct analyze_blocks){0};
}

/* The first mapping of a module, or of a later one. */
static size_t first_mapping(const struct analyze_blocks *blocks, uint32_t module)
{
	size_t low = 0, high = blocks->mapping_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (blocks->mappings[middle].module < module)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool analyze_place_address(const struct analyze_model *model, const struct analyze_blocks *blocks,
			   uint32_t place, uint64_t ns, uint64_t *ret)
{
	const struct analyze_place *at = &model->places[place];
	bool found = false;

	*ret = at->offset;
	if (place == 0)
		return false;
	if (model->modules[at->module].is_made)
		return true;
	size_t first = first_mapping(blocks, at->module);

	for (size_t i = first; i < blocks->mapping_count && i - first < MAPPINGS_MOST; i++) {
		const struct analyze_mapping *mapping = &blocks->mappings[i];
		uint64_t address = at->offset + mapping->bias;

		if (mapping->module != at->module)
			break;
		if (address < mapping->start || address > mapping->stop)
			continue;
		/* It may have been here and there in turn: where it was then, else anywhere. */
		bool then = ns != ANALYZE_UNKNOWN && mapping->loaded_ns <= ns &&
			    ns <= mapping->unloaded_ns;

		if (found && !then)
			continue;
		*ret = address;
		found = true;
	}
	return found;
}
