/* The shadow: every block that is live, with its size, site and number. */
#include "ledger/reader_internal.h"

#define MAX_ADDRESS (UINT64_C(1) << 56)

/* A chunk of shadow words. */
struct chunk {
	uint64_t address; /* of the heap, of its first granule */
	const _Atomic uint64_t *words;
};

struct shadow {
	struct ledger_reader *reader;
	struct reader_process *process;
	uint32_t granule_shift;
	uint64_t bad; /* words that name no block */
	VECTOR(struct chunk) chunks;
	struct map_u64 by_address;
};

static struct error *add_chunk(struct shadow *shadow, uint64_t address, const void *words)
{
	uint64_t bytes = (uint64_t)MGL_CHUNK_WORDS << shadow->granule_shift;

	if (address % bytes || address >= MAX_ADDRESS ||
	    map_u64_find(&shadow->by_address, address)) {
		ledger_process_damage(shadow->process, "a chunk of the shadow");
		return NULL;
	}
	TRY(map_u64_set(&shadow->by_address, address, shadow->chunks.count));
	return vector_push(&shadow->chunks, ((struct chunk){.address = address, .words = words}));
}

static struct error *add_extent(struct shadow *shadow, const struct reader_extent *extent)
{
	struct reader_file *file = &shadow->reader->file;
	struct reader_unit units[MGL_MAX_EXTENT_UNITS];

	if (extent->granule_shift != shadow->granule_shift) {
		ledger_process_damage(shadow->process, "an extent of the shadow");
		return NULL;
	}
	for (uint32_t i = 0; i < extent->units; i++)
		units[i] =
			(struct reader_unit){.unit = extent->unit + i, .left = extent->units - i};
	for (uint64_t page = extent->units; page < mgl_shadow_pages(extent->units); page++) {
		uint64_t place = MGL_SHADOW_DIRECTORY_OFFSET + (page - extent->units) * 8;
		const _Atomic uint64_t *entry = ledger_unit_at(file, &units[0], place, 8, false);
		uint64_t address = entry ? READ_ATOMIC(*entry) : 0;

		if (address == 0)
			continue;
		/* A saved ledger leaves out pages of zeros: chunks without a block. */
		const void *words =
			ledger_unit_at(file, &units[page / READER_UNIT_PAGES],
				       page % READER_UNIT_PAGES * MGL_PAGE, MGL_PAGE, false);

		if (words)
			TRY(add_chunk(shadow, address, words));
	}
	return NULL;
}

/* The tagged word that continues a large block's; false = it is not there. */
static bool tagged_word(const struct shadow *shadow, uint64_t address, uint64_t *ret)
{
	uint64_t bytes = (uint64_t)MGL_CHUNK_WORDS << shadow->granule_shift;
	const uint64_t *at = map_u64_find(&shadow->by_address, address & ~(bytes - 1));

	if (!at)
		return false;
	uint64_t place = (address & (bytes - 1)) >> shadow->granule_shift;
	uint64_t word = READ_ATOMIC(shadow->chunks.items[*at].words[place]);

	*ret = word & MGL_SHADOW_LARGE_MASK;
	return (word & ~MGL_SHADOW_LARGE_MASK) == MGL_SHADOW_TAG;
}

static bool large_rest(const struct shadow *shadow, uint64_t granule, uint32_t size_class,
		       uint64_t *ret)
{
	uint64_t step = UINT64_C(1) << shadow->granule_shift;
	uint64_t high = 0;

	if (!tagged_word(shadow, granule + step, ret))
		return false;
	if (mgl_class_width(size_class) > MGL_SHADOW_LARGE_MASK + 1 &&
	    !tagged_word(shadow, granule + 2 * step, &high))
		return false;
	*ret |= high << MGL_SHADOW_LARGE_BITS;
	return true;
}

/* The block whose word stands at a granule; false = none that makes sense. */
static bool decode(struct shadow *shadow, uint64_t granule, uint64_t word, struct ledger_block *ret)
{
	uint32_t ref = mgl_shadow_row(word);
	const struct mgl_row *row =
		ledger_record_at(shadow->reader, shadow->process, ref, sizeof(*row));

	if (!row)
		return false;
	uint32_t size_class = READ_ONCE(row->size_class);
	uint64_t rest = mgl_shadow_rest(word);

	if (size_class >= MGL_LARGE_CLASS && !large_rest(shadow, granule, size_class, &rest))
		return false;
	if (rest >= mgl_class_width(size_class))
		return false;
	ret->address = granule + 8u * mgl_shadow_start(word);
	ret->size = mgl_class_low(size_class) + rest;
	ret->number = mgl_birth_number(mgl_shadow_birth(word));
	ret->row = ref;
	return true;
}

static struct error *walk_chunk(struct shadow *shadow, const struct chunk *chunk,
				ledger_block_visit *visit, void *context)
{
	for (unsigned int i = 0; i < MGL_CHUNK_WORDS; i++) {
		uint64_t granule = chunk->address + ((uint64_t)i << shadow->granule_shift);
		uint64_t word = READ_ATOMIC(chunk->words[i]);
		struct ledger_block block;

		if (word == 0 || (word & ~MGL_SHADOW_LARGE_MASK) == MGL_SHADOW_TAG)
			continue;
		if (!decode(shadow, granule, word, &block)) {
			shadow->bad++;
			continue;
		}
		TRY(visit(context, &block));
	}
	return NULL;
}

/* Moves with every call that any thread begins or ends. */
static uint64_t ops_of(const struct shadow *shadow)
{
	const struct ledger_process *info = &shadow->process->info;
	uint64_t sum = READ_ATOMIC(shadow->process->header->slots);

	for (size_t i = 0; i < info->slot_count; i++) {
		const struct mgl_slot *slot = ledger_record_at(shadow->reader, shadow->process,
							       info->slots[i].ref, sizeof(*slot));

		sum += slot ? READ_ATOMIC(slot->op) : 0;
	}
	return sum;
}

static struct error *walk(struct shadow *shadow, ledger_block_visit *visit, void *context)
{
	uint64_t ops = ops_of(shadow);

	for (size_t i = 0; i < shadow->process->extents.count; i++)
		if (shadow->process->extents.items[i].kind == MGL_EXTENT_SHADOW)
			TRY(add_extent(shadow, &shadow->process->extents.items[i]));
	for (size_t i = 0; i < shadow->chunks.count; i++)
		TRY(walk_chunk(shadow, &shadow->chunks.items[i], visit, context));
	/* A block that comes or goes between two loads makes as little sense as a damaged one. */
	for (; shadow->bad && ops_of(shadow) == ops; shadow->bad--)
		ledger_process_damage(shadow->process, "a block of the shadow");
	return ledger_reader_check(shadow->reader);
}

struct error *ledger_blocks_walk(struct ledger_reader *reader, size_t process,
				 ledger_block_visit *visit, void *context)
{
	struct shadow shadow = {
		.reader = reader,
		.process = &reader->processes.items[process],
		.granule_shift = reader->processes.items[process].info.granule_shift,
	};
	struct error *error = walk(&shadow, visit, context);

	vector_free(&shadow.chunks);
	map_u64_free(&shadow.by_address);
	return error;
}
