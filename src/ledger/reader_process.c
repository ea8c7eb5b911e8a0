/* One ledger: its record space, and its header copied out. */
#include "ledger/reader_internal.h"

#include <string.h>

#define MAX_PATH_BYTES 4096u
#define MAX_ARGV_BYTES (UINT32_C(2) << 20)

#define VAIN_WALKS 16u

static const struct ledger_text no_text = {"", 0};

void ledger_process_damage(struct reader_process *process, const char *note)
{
	process->info.damage++;
	if (!process->info.damage_note)
		process->info.damage_note = note;
}

static void place_extent(struct reader_process *process, const struct reader_extent *extent)
{
	struct reader_unit *first = &process->records[extent->first_unit];
	bool taken = false;

	for (uint32_t j = 0; j < extent->units; j++)
		taken |= first[j].unit != 0;
	if (taken) {
		ledger_process_damage(process, "two extents at one place");
		return;
	}
	for (uint32_t j = 0; j < extent->units; j++) {
		first[j].unit = extent->unit + j;
		first[j].left = extent->units - j;
	}
}

/* An extent that was taken since the file was opened. */
static struct error *add_later(void *to, const struct reader_extent *extent)
{
	struct reader_process *process = to;
	uint32_t stop = extent->first_unit + extent->units;

	if (extent->process != process->info.serial)
		return NULL;
	for (size_t i = 0; i < process->extents.count; i++)
		if (process->extents.items[i].unit == extent->unit)
			return NULL;
	TRY(vector_push(&process->extents, *extent));
	if (extent->kind != MGL_EXTENT_RECORDS)
		return NULL;
	if (stop > process->record_units) {
		struct reader_unit *grown =
			realloc(process->records, stop * sizeof(*process->records));

		if (!grown)
			return error_no_memory();
		memset(grown + process->record_units, 0,
		       (stop - process->record_units) * sizeof(*grown));
		process->records = grown;
		process->record_units = stop;
	}
	process->text_left += (uint64_t)extent->units << MGL_UNIT_SHIFT;
	place_extent(process, extent);
	return NULL;
}

/* The process may have grown since. Where no unit was taken, the file is searched again a few
 * times in all, for an extent whose taker had not written its header yet. */
static void look_again(struct ledger_reader *reader, struct reader_process *process)
{
	uint64_t taken = ledger_units_taken(reader);

	if (taken == process->walked && ++reader->vain_walks > VAIN_WALKS)
		return;
	process->walked = taken;

	CLEANUP_ERROR struct error *error = ledger_extents_walk(reader, taken, add_later, process);

	process->no_memory |= error != NULL;
}

static bool unit_is_known(const struct reader_process *process, uint32_t unit)
{
	return unit < process->record_units && process->records[unit].unit != 0;
}

const void *ledger_record_at(struct ledger_reader *reader, struct reader_process *process,
			     uint32_t ref, uint64_t bytes)
{
	uint32_t unit = ref >> MGL_REF_UNIT_SHIFT;

	if (ref == 0 || unit >= MGL_MAX_RECORD_UNITS)
		return NULL;
	if (!unit_is_known(process, unit))
		look_again(reader, process);
	if (!unit_is_known(process, unit))
		return NULL;
	return ledger_unit_at(&reader->file, &process->records[unit],
			      ((uint64_t)ref << MGL_REF_SHIFT) & (MGL_UNIT_BYTES - 1), bytes, true);
}

/* For a text of so many bytes and a NUL, the process's; NULL = no memory. */
static char *text_room(struct reader_process *process, size_t bytes)
{
	char *copy = malloc(bytes + 1);
	CLEANUP_ERROR struct error *error =
		copy ? vector_push(&process->texts, copy) : error_no_memory();

	if (error) {
		process->no_memory = true;
		free(copy);
		return NULL;
	}
	copy[bytes] = '\0';
	process->text_left -= bytes;
	return copy;
}

void ledger_text_load(struct ledger_reader *reader, struct reader_process *process, uint32_t ref,
		      uint32_t bytes, uint32_t max, struct ledger_text *ret)
{
	*ret = no_text;
	if (ref == 0 || bytes == 0)
		return;
	if (bytes > max)
		bytes = max;

	const void *blob = ledger_record_at(reader, process, ref, bytes);

	/* True ledgers hold every text they name; a false one may name the same bytes
	 * over and over to make the reader copy them. */
	if (!blob || bytes > process->text_left) {
		ledger_process_damage(process, "a text that is not in the ledger");
		return;
	}
	char *copy = text_room(process, bytes);

	if (!copy)
		return;
	memcpy(copy, blob, bytes);
	*ret = (struct ledger_text){.bytes = copy, .length = bytes};
}

void ledger_text_below(struct reader_process *process, const struct ledger_text *directory,
		       struct ledger_text *path)
{
	const char *name = path->bytes;
	size_t length = path->length;

	if (name[0] == '/' || directory->bytes[0] != '/' || !memchr(name, '/', length))
		return;
	while (length > 2 && name[0] == '.' && name[1] == '/') {
		name += 2;
		length -= 2;
	}
	size_t bytes = directory->length + 1 + length;
	char *copy = bytes <= process->text_left ? text_room(process, bytes) : NULL;

	if (!copy)
		return;
	memcpy(copy, directory->bytes, directory->length);
	copy[directory->length] = '/';
	memcpy(copy + directory->length + 1, name, length);
	*path = (struct ledger_text){.bytes = copy, .length = bytes};
}

/* Lay the RECORDS extents end to end. */
static struct error *map_records(struct reader_process *process)
{
	uint32_t own = 0, stop = 0;

	for (size_t i = 0; i < process->extents.count; i++) {
		const struct reader_extent *extent = &process->extents.items[i];

		if (extent->kind != MGL_EXTENT_RECORDS)
			continue;
		own += extent->units;
		if (extent->first_unit + extent->units > stop)
			stop = extent->first_unit + extent->units;
	}
	/* Takers that died leave gaps, but not many: a far place would only make the
	 * table long. */
	uint64_t most = (uint64_t)own * 4 + 64;

	if (stop > most) {
		ledger_process_damage(process, "an extent far off in record space");
		stop = (uint32_t)most;
	}
	process->records = calloc(stop ? stop : 1, sizeof(*process->records));
	if (!process->records)
		return error_no_memory();
	process->record_units = stop;
	process->text_left = (uint64_t)own << MGL_UNIT_SHIFT;

	for (size_t i = 0; i < process->extents.count; i++) {
		const struct reader_extent *extent = &process->extents.items[i];

		if (extent->kind != MGL_EXTENT_RECORDS || extent->first_unit + extent->units > stop)
			continue;
		place_extent(process, extent);
	}
	return NULL;
}

static void copy_header(struct ledger_process *info, const struct mgl_process *header)
{
	info->parent = READ_ONCE(header->parent);
	info->how = READ_ONCE(header->how);
	info->state = READ_ATOMIC(header->state);
	info->pid = READ_ONCE(header->pid);
	info->ppid = READ_ONCE(header->ppid);
	info->start_ns = READ_ONCE(header->start_ns);
	info->starttime = READ_ONCE(header->starttime);
	info->granule_shift = READ_ONCE(header->granule_shift);
	info->sample_period = READ_ONCE(header->sample_period);
	info->end_kind = READ_ATOMIC(header->end_kind);
	info->end_code = READ_ATOMIC(header->end_code);
	info->end_ns = READ_ATOMIC(header->end_ns);
	info->rss_peak = READ_ATOMIC(header->rss_peak);
	info->inert = READ_ATOMIC(header->inert);
	info->inert_number = READ_ATOMIC(header->inert_number);
	info->inert_ns = READ_ATOMIC(header->inert_ns);
	info->mapped_bytes = READ_ATOMIC(header->mapped_bytes);
	info->mapped_peak = READ_ATOMIC(header->mapped_peak);
	info->peak_number = READ_ATOMIC(header->peak_number);
	info->peak_error = READ_ATOMIC(header->peak_error);
	info->peak_max = READ_ATOMIC(header->max);
	info->max_error = READ_ATOMIC(header->max_error);
	info->next_number = READ_ATOMIC(header->next_number);
}

static void load_texts(struct ledger_reader *reader, struct reader_process *process)
{
	const struct mgl_process *header = process->header;
	struct ledger_process *info = &process->info;

	ledger_text_load(reader, process, READ_ONCE(header->exe), READ_ONCE(header->exe_bytes),
			 MAX_PATH_BYTES, &info->exe);
	ledger_text_load(reader, process, READ_ONCE(header->cwd), READ_ONCE(header->cwd_bytes),
			 MAX_PATH_BYTES, &info->cwd);
	ledger_text_load(reader, process, READ_ONCE(header->argv), READ_ONCE(header->argv_bytes),
			 MAX_ARGV_BYTES, &info->argv);
	ledger_text_load(reader, process, READ_ONCE(header->allocator),
			 READ_ONCE(header->allocator_bytes), MAX_PATH_BYTES, &info->allocator);
	uint64_t inner = READ_ATOMIC(header->inner);

	ledger_text_load(reader, process, (uint32_t)(inner >> 32), (uint32_t)inner, MAX_ARGV_BYTES,
			 &info->inner);
	for (unsigned int i = 0; i < MGL_LOSS_COUNT; i++) {
		uint64_t detail = READ_ATOMIC(header->loss_detail[i]);

		info->losses[i].count = READ_ATOMIC(header->losses[i]);
		ledger_text_load(reader, process, (uint32_t)(detail >> 32), (uint32_t)detail,
				 MAX_PATH_BYTES, &info->losses[i].detail);
	}
}

struct error *ledger_process_load(struct ledger_reader *reader, struct reader_process *process)
{
	TRY(map_records(process));

	struct ledger_process *info = &process->info;
	const struct mgl_process *header = ledger_record_at(
		reader, process, MGL_PROCESS_OFFSET / MGL_REF_BYTES, sizeof(struct mgl_process));

	if (!header || READ_MAGIC(header->magic) != MGL_PROCESS_MAGIC)
		return NULL;
	if (READ_ONCE(header->serial) != info->serial)
		return NULL;
	process->header = header;
	copy_header(info, header);
	load_texts(reader, process);
	TRY(ledger_slots_load(reader, process));
	TRY(ledger_modules_load(reader, process));
	TRY(ledger_times_load(reader, process));
	TRY(ledger_mappings_load(reader, process));
	TRY(ledger_waits_load(reader, process));
	if (process->no_memory)
		return error_no_memory();
	return NULL;
}

uint64_t ledger_reader_bytes(const struct ledger_reader *reader, size_t process)
{
	const struct reader_process *of = &reader->processes.items[process];
	uint64_t bytes = 0;

	for (size_t i = 0; i < of->extents.count; i++)
		for (uint32_t j = 0; j < of->extents.items[i].units; j++)
			bytes += ledger_unit_data(&reader->file, of->extents.items[i].unit + j);
	return bytes;
}

void ledger_process_deinit(struct reader_process *process)
{
	for (size_t i = 0; i < process->texts.count; i++)
		free(process->texts.items[i]);
	vector_free(&process->texts);
	vector_free(&process->extents);
	free(process->records);
	free((void *)(uintptr_t)process->info.slots);
	free((void *)(uintptr_t)process->info.modules);
	free((void *)(uintptr_t)process->info.times);
	free((void *)(uintptr_t)process->info.mappings);
	free((void *)(uintptr_t)process->info.waits);
	*process = (struct reader_process){0};
}

bool ledger_node_read(struct ledger_reader *reader, size_t process, uint32_t ref,
		      struct ledger_node *ret)
{
	struct reader_process *p = &reader->processes.items[process];
	const struct mgl_node *node = ledger_record_at(reader, p, ref, sizeof(*node));

	if (!node)
		return false;
	uint32_t where = READ_ONCE(node->where);
	uint32_t module = where & MGL_NODE_MODULE_MASK;

	ret->pc = READ_ONCE(node->pc);
	ret->parent = READ_ONCE(node->parent);
	ret->module = module < p->info.module_count && p->info.modules[module].index ? module : 0;
	ret->is_lost = module && !ret->module;
	ret->flags = where & (MGL_NODE_EXACT | MGL_NODE_FP | MGL_NODE_CUT);
	return true;
}
