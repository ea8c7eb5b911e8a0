/*
 * The rows of a process, read so that live is bounded while it runs.
 *
 * Passes over all rows: frees, allocations; and if any thread's op word moved or was odd
 * meanwhile, allocations and frees again. With T the moment between the second and the
 * third, the first frees and the second allocations bound live at T from above, the
 * first allocations and the second frees from below.
 */
#include "ledger/reader_internal.h"

#include <string.h>

/* Tries to meet the process between two calls before its bounds are taken. */
#define MAX_TRIES 4u

#define ROWS_PER_UNIT ((uint32_t)(MGL_UNIT_BYTES / sizeof(struct mgl_row)))
#define ROW_REF_SHIFT 3u /* log2 of refs a row takes */

_Static_assert(sizeof(struct mgl_row) == MGL_REF_BYTES << ROW_REF_SHIFT, "rows are aligned");

/* A slot whose rows are being read. */
struct source {
	const struct mgl_slot *slot;
	uint32_t ref;
	uint32_t newest; /* head of its row list when last looked at */
	uint64_t op;
};

struct reading {
	struct ledger_reader *reader;
	struct reader_process *process;
	struct ledger_rows *rows;
	VECTOR(const struct mgl_row *) records; /* parallel to rows->items */
	VECTOR(struct source) sources;
	struct map_u64 slots_seen;
	uint32_t newest; /* head of the slot list when last looked at */
	uint64_t max;    /* the epoch */
};

/* Where a row's position stands; NULL if ref is no place of a row. */
static uint32_t *place_of(const struct ledger_rows *rows, uint32_t ref)
{
	uint32_t unit = ref >> MGL_REF_UNIT_SHIFT;

	if (ref & ((1u << ROW_REF_SHIFT) - 1) || unit >= rows->place_units || !rows->places[unit])
		return NULL;
	return &rows->places[unit][(ref >> ROW_REF_SHIFT) % ROWS_PER_UNIT];
}

const struct ledger_row *ledger_rows_find(const struct ledger_rows *rows, uint32_t ref)
{
	const uint32_t *place = place_of(rows, ref);

	return place && *place ? &rows->items[*place - 1] : NULL;
}

/* The ledger may have grown since it was opened. */
static struct error *places_cover(struct ledger_rows *rows, uint32_t unit)
{
	if (unit < rows->place_units)
		return NULL;
	uint32_t **grown = realloc(rows->places, (unit + 1u) * sizeof(*grown));

	if (!grown)
		return error_no_memory();
	memset(grown + rows->place_units, 0, (unit + 1u - rows->place_units) * sizeof(*grown));
	rows->places = grown;
	rows->place_units = unit + 1;
	return NULL;
}

static struct error *add_row(struct reading *reading, uint32_t ref, uint32_t source,
			     const struct mgl_row *record)
{
	struct ledger_rows *rows = reading->rows;
	uint32_t unit = ref >> MGL_REF_UNIT_SHIFT;
	struct ledger_row row = {
		.ref = ref,
		.node = READ_ONCE(record->node),
		.slot = source,
		.heap = READ_ONCE(record->heap),
		.size_class = READ_ONCE(record->size_class),
		.api = READ_ONCE(record->api),
	};

	TRY(places_cover(rows, unit));
	if (!rows->places[unit]) {
		rows->places[unit] = calloc(ROWS_PER_UNIT, sizeof(uint32_t));
		if (!rows->places[unit])
			return error_no_memory();
	}
	TRY(vector_push(&reading->records, record));
	TRY(vector_push(rows, row));
	*place_of(rows, ref) = (uint32_t)rows->count;
	return NULL;
}

/* Rows made since the last look, newest first up to the one known. */
static struct error *find_rows(struct reading *reading, uint32_t source)
{
	struct source *of = &reading->sources.items[source];
	uint32_t newest = READ_ATOMIC(of->slot->rows);

	for (uint32_t ref = newest; ref && ref != of->newest;) {
		const struct mgl_row *record =
			ledger_record_at(reading->reader, reading->process, ref, sizeof(*record));

		if (!record || ref & ((1u << ROW_REF_SHIFT) - 1) ||
		    READ_ONCE(record->slot) != of->ref || READ_ONCE(record->self) != ref ||
		    ledger_rows_find(reading->rows, ref)) {
			ledger_process_damage(reading->process, "a list of rows");
			break;
		}
		TRY(add_row(reading, ref, source, record));
		ref = READ_ONCE(record->next);
	}
	of->newest = newest;
	return NULL;
}

static struct error *add_slot(struct reading *reading, uint32_t ref, const struct mgl_slot *slot)
{
	TRY(map_u64_set(&reading->slots_seen, ref, 1));
	return vector_push(&reading->sources, ((struct source){.slot = slot, .ref = ref}));
}

/* Slots made since the last look; the first look has the process's own list. */
static struct error *find_slots(struct reading *reading)
{
	uint32_t newest = READ_ATOMIC(reading->process->header->slots);

	for (uint32_t ref = newest; ref && ref != reading->newest;) {
		const struct mgl_slot *slot =
			ledger_record_at(reading->reader, reading->process, ref, sizeof(*slot));

		if (!slot || map_u64_find(&reading->slots_seen, ref))
			break;
		TRY(add_slot(reading, ref, slot));
		ref = READ_ONCE(slot->next);
	}
	reading->newest = newest;
	return NULL;
}

static struct error *find_new(struct reading *reading)
{
	TRY(find_slots(reading));
	for (size_t i = 0; i < reading->sources.count; i++)
		TRY(find_rows(reading, (uint32_t)i));
	return NULL;
}

static struct error *begin(struct reading *reading)
{
	const struct ledger_process *info = &reading->process->info;
	struct ledger_rows *rows = reading->rows;

	rows->places = calloc(reading->process->record_units + 1u, sizeof(*rows->places));
	if (!rows->places)
		return error_no_memory();
	rows->place_units = reading->process->record_units;
	for (size_t i = 0; i < info->slot_count; i++) {
		const struct mgl_slot *slot = ledger_record_at(reading->reader, reading->process,
							       info->slots[i].ref, sizeof(*slot));

		if (!slot)
			continue;
		TRY(add_slot(reading, info->slots[i].ref, slot));
		reading->newest = info->slots[i].ref;
	}
	return find_new(reading);
}

static bool ops_read(struct reading *reading)
{
	bool even = true;

	for (size_t i = 0; i < reading->sources.count; i++) {
		reading->sources.items[i].op = READ_ATOMIC(reading->sources.items[i].slot->op);
		even &= !(reading->sources.items[i].op & 1);
	}
	return even;
}

static bool ops_unchanged(const struct reading *reading)
{
	for (size_t i = 0; i < reading->sources.count; i++)
		if (READ_ATOMIC(reading->sources.items[i].slot->op) != reading->sources.items[i].op)
			return false;
	/* A thread that came meanwhile has a slot nobody looked at. */
	return READ_ATOMIC(reading->process->header->slots) == reading->newest;
}

static void read_frees(struct reading *reading, bool again)
{
	struct ledger_row *row = reading->rows->items;

	for (size_t i = 0; i < reading->records.count; i++, row++) {
		const struct mgl_row *record = reading->records.items[i];

		row->frees_high = READ_ATOMIC(record->frees);
		row->bytes_out_high = READ_ATOMIC(record->bytes_out);
		if (again)
			continue;
		row->frees = row->frees_high;
		row->bytes_out = row->bytes_out_high;
	}
}

static void read_allocs(struct reading *reading, bool again)
{
	struct ledger_row *row = reading->rows->items;

	for (size_t i = 0; i < reading->records.count; i++, row++) {
		const struct mgl_row *record = reading->records.items[i];

		row->allocs = READ_ATOMIC(record->allocs);
		row->bytes_in = READ_ATOMIC(record->bytes_in);
		if (again)
			continue;
		row->allocs_low = row->allocs;
		row->bytes_in_low = row->bytes_in;
	}
}

static void read_rest(struct reading *reading)
{
	struct ledger_row *row = reading->rows->items;

	for (size_t i = 0; i < reading->records.count; i++, row++) {
		const struct mgl_row *record = reading->records.items[i];
		/* The writer stores peak, epoch, live: read them the other way round. */
		uint64_t blocks = READ_ATOMIC(record->allocs) - READ_ATOMIC(record->frees);
		uint64_t bytes = READ_ATOMIC(record->bytes_in) - READ_ATOMIC(record->bytes_out);

		row->peak_blocks = (int64_t)blocks;
		row->peak_bytes = (int64_t)bytes;
		if (READ_ATOMIC(record->epoch) == reading->max) {
			row->peak_blocks = READ_ATOMIC(record->peak_blocks);
			row->peak_bytes = READ_ATOMIC(record->peak_bytes);
		}
		row->temporaries = READ_ATOMIC(record->temporaries);
		row->lifetime = READ_ATOMIC(record->lifetime);
		row->moved = READ_ATOMIC(record->moved);
		row->foreign_frees = READ_ATOMIC(record->foreign_frees);
	}
}

static struct error *read_passes(struct reading *reading)
{
	bool exact = false;

	for (unsigned int i = 0; i < MAX_TRIES && !exact; i++) {
		TRY(find_new(reading));
		reading->max = READ_ATOMIC(reading->process->header->max);

		bool even = ops_read(reading);

		read_frees(reading, false);
		read_allocs(reading, false);
		read_rest(reading);
		exact = even && ops_unchanged(reading);
	}
	reading->rows->exact = exact;
	if (exact)
		return NULL;
	/* Rows made since hold blocks that the upper bound must not miss. */
	TRY(find_new(reading));
	read_allocs(reading, true);
	read_frees(reading, true);
	return NULL;
}

struct error *ledger_rows_read(struct ledger_reader *reader, size_t process,
			       struct ledger_rows *ret)
{
	struct reading reading = {
		.reader = reader,
		.process = &reader->processes.items[process],
		.rows = ret,
	};

	*ret = (struct ledger_rows){0};
	struct error *error = begin(&reading);

	if (!error)
		error = read_passes(&reading);
	if (!error)
		error = ledger_reader_check(reader);
	vector_free(&reading.records);
	vector_free(&reading.sources);
	map_u64_free(&reading.slots_seen);
	if (error)
		ledger_rows_free(ret);
	return error;
}

void ledger_rows_free(struct ledger_rows *rows)
{
	for (uint32_t i = 0; i < rows->place_units; i++)
		free(rows->places[i]);
	free(rows->places);
	free(rows->items);
	*rows = (struct ledger_rows){0};
}
