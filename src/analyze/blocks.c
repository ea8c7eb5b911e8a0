#include "analyze/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model_internal.h"

struct listing {
	struct analyze_model *model;
	const struct analyze_process *process;
	VECTOR(uint32_t) sites; /* by id: place + 1 */
	struct map_u64 sparse;  /* the same of ids too large for a list */
	struct map_u64 modules;
	VECTOR(struct analyze_block) blocks;
	VECTOR(struct analyze_mapping) mappings;
};

static uint64_t since(const struct listing *listing, uint64_t time)
{
	uint64_t start = listing->process->start_ns;

	if (time == STORE_UNKNOWN)
		return ANALYZE_UNKNOWN;
	return time > start ? time - start : 0;
}

/* Without gaps, as they are written, but whoever made the profile may have left some. */
static struct error *add_sites(struct listing *listing)
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

static uint32_t find_site(const struct listing *listing, uint64_t id)
{
	const uint64_t *found;

	if (id < listing->sites.count)
		return listing->sites.items[id];
	found = map_u64_find(&listing->sparse, id);
	return found ? (uint32_t)*found : 0;
}

static struct error *add_block(void *context, const void *from)
{
	const struct store_block *row = from;
	struct listing *listing = context;

	return vector_push(&listing->blocks,
			   ((struct analyze_block){
				   .address = row->address,
				   .size = row->size == STORE_UNKNOWN ? 0 : row->size,
				   .number = row->number,
				   .born_ns = since(listing, row->born),
				   .site = find_site(listing, row->site),
			   }));
}

static struct error *add_mapping(void *context, const void *from)
{
	const struct store_mapping *row = from;
	struct listing *listing = context;
	const uint64_t *module = map_u64_find(&listing->modules, row->module);

	if (!module)
		return NULL;
	return vector_push(&listing->mappings, ((struct analyze_mapping){
						       .module = (uint32_t)*module,
						       .start = row->start,
						       .stop = row->stop,
						       .bias = row->start - row->file_offset,
						       .loaded_ns = since(listing, row->loaded),
						       .unloaded_ns = since(listing, row->unloaded),
					       }));
}

/* The store's ids of modules are not the model's. */
static struct error *add_module(void *context, const void *from)
{
	const struct store_module *row = from;
	struct listing *listing = context;

	return map_u64_set(&listing->modules, row->id, listing->modules.count + 1);
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
static struct error *sort_blocks(struct listing *listing)
{
	size_t count = listing->blocks.count;
	const struct analyze_block *blocks = listing->blocks.items;
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
	place_blocks(listing->blocks.items, keys, count);
	return NULL;
}

static struct error *load(struct listing *listing)
{
	struct store_reader *reader = listing->model->reader;
	uint64_t id = listing->process->id;
	struct store_module module;
	struct store_mapping mapping;
	struct store_block block;

	TRY(add_sites(listing));
	TRY(analyze_each_row(reader, STORE_TABLE_MODULE, STORE_ALL, &module, add_module, listing));
	TRY(analyze_each_row(reader, STORE_TABLE_MAPPING, id, &mapping, add_mapping, listing));
	TRY(analyze_each_row(reader, STORE_TABLE_BLOCK, id, &block, add_block, listing));
	return sort_blocks(listing);
}

struct error *analyze_blocks_load(struct analyze_model *model, uint32_t process,
				  struct analyze_blocks *ret)
{
	struct listing listing = {.model = model, .process = &model->processes[process]};
	struct error *error = load(&listing);

	vector_free(&listing.sites);
	map_u64_free(&listing.sparse);
	map_u64_free(&listing.modules);
	*ret = (struct analyze_blocks){
		.items = listing.blocks.items,
		.count = listing.blocks.count,
		.mappings = listing.mappings.items,
		.mapping_count = listing.mappings.count,
	};
	if (error)
		analyze_blocks_free(ret);
	return error;
}

void analyze_blocks_free(struct analyze_blocks *blocks)
{
	free(blocks->items);
	free(blocks->mappings);
	*blocks = (struct analyze_blocks){0};
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
	for (size_t i = 0; i < blocks->mapping_count; i++) {
		const struct analyze_mapping *mapping = &blocks->mappings[i];
		uint64_t address = at->offset + mapping->bias;

		if (mapping->module != at->module || address < mapping->start ||
		    address > mapping->stop)
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
