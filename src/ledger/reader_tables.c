/* The bounded tables of a ledger: slots, modules, the time table, mappings. */
#include "ledger/reader_internal.h"

#include <string.h>

#define MAX_PATH_BYTES 4096u
#define BATCH_NUMBERS  64u                /* a thread takes as many at once at most */
#define MAX_THREADS    UINT32_C(0x400000) /* the kernel's own limit */

static void copy_thread_name(char *to, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = READ_ONCE(from[i]);
	to[size] = '\0';
}

static struct ledger_slot slot_copy(const struct mgl_slot *slot, uint32_t ref)
{
	struct ledger_slot copy = {
		.ref = ref,
		.tid = READ_ATOMIC(slot->tid),
		.level = READ_ONCE(slot->level),
		.unknown_frees = READ_ATOMIC(slot->unknown_frees),
		.inherited_frees = READ_ATOMIC(slot->inherited_frees),
		.unfinished = READ_ATOMIC(slot->op) & 1,
	};

	if (copy.level == 0) {
		copy.threads = READ_ONCE(slot->adopted);
		if (copy.threads == 0)
			copy.threads = 1;
		if (copy.threads > MAX_THREADS)
			copy.threads = MAX_THREADS;
	}
	copy_thread_name(copy.name, slot->name, sizeof(slot->name));
	for (unsigned int i = 0; i < MGL_API_COUNT; i++) {
		copy.calls[i].calls = READ_ONCE(slot->calls[i].calls);
		copy.calls[i].failed = READ_ONCE(slot->calls[i].failed);
		copy.calls[i].bytes = READ_ONCE(slot->calls[i].bytes);
	}
	return copy;
}

struct error *ledger_slots_load(struct ledger_reader *reader, struct reader_process *process)
{
	VECTOR(struct ledger_slot) slots = VECTOR_EMPTY;
	struct map_u64 seen = {0};
	struct error *error = NULL;

	for (uint32_t ref = READ_ATOMIC(process->header->slots); ref && !error;) {
		const struct mgl_slot *slot = ledger_record_at(reader, process, ref, sizeof(*slot));

		if (!slot || map_u64_find(&seen, ref)) {
			ledger_process_damage(process, "the list of threads");
			break;
		}
		error = map_u64_set(&seen, ref, 1);
		if (!error)
			error = vector_push(&slots, slot_copy(slot, ref));
		ref = READ_ONCE(slot->next);
	}
	map_u64_free(&seen);
	/* The newest came first. */
	for (size_t i = 0, j = slots.count; i + 1 < j; i++) {
		struct ledger_slot swapped = slots.items[i];

		j--;
		slots.items[i] = slots.items[j];
		slots.items[j] = swapped;
	}
	process->info.slots = slots.items;
	process->info.slot_count = slots.count;
	return error;
}

static struct ledger_module module_copy(struct ledger_reader *reader,
					struct reader_process *process,
					const struct mgl_module *module)
{
	struct ledger_module copy = {
		.index = READ_ONCE(module->index),
		.flags = READ_ONCE(module->flags) & ~LEDGER_MODULE_NOWHERE,
		.start = READ_ONCE(module->start),
		.stop = READ_ONCE(module->stop),
		.bias = READ_ONCE(module->bias),
		.loaded_ns = READ_ONCE(module->loaded_ns),
		.unloaded_ns = READ_ATOMIC(module->unloaded_ns),
		.build_id_bytes = READ_ONCE(module->build_id_bytes),
	};

	if (copy.build_id_bytes > sizeof(copy.build_id))
		copy.build_id_bytes = sizeof(copy.build_id);
	for (uint32_t i = 0; i < copy.build_id_bytes; i++)
		copy.build_id[i] = READ_ONCE(module->build_id[i]);
	ledger_text_load(reader, process, READ_ONCE(module->path), READ_ONCE(module->path_bytes),
			 MAX_PATH_BYTES, &copy.path);
	if (copy.path.length == 0 && copy.flags & MGL_MODULE_PROGRAM)
		copy.path = process->info.exe;
	else
		ledger_text_below(process, &process->info.cwd, &copy.path);
	return copy;
}

/* Put the list into a table by index. */
static struct error *place_modules(struct reader_process *process, const struct ledger_module *list,
				   size_t count)
{
	/* Indexes are dense but for modules whose recording failed. */
	uint64_t most = (uint64_t)count * 2 + 64;
	size_t stop = 1;

	for (size_t i = 0; i < count; i++)
		if (list[i].index < most && list[i].index >= stop)
			stop = (size_t)list[i].index + 1;

	struct ledger_module *table = calloc(stop, sizeof(*table));

	if (!table)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		if (list[i].index == 0 || list[i].index >= stop || table[list[i].index].index)
			ledger_process_damage(process, "a module's index");
		else
			table[list[i].index] = list[i];
	process->info.modules = table;
	process->info.module_count = stop;
	return NULL;
}

struct error *ledger_modules_load(struct ledger_reader *reader, struct reader_process *process)
{
	VECTOR(struct ledger_module) list = VECTOR_EMPTY;
	struct map_u64 seen = {0};
	struct error *error = NULL;

	for (uint32_t ref = READ_ATOMIC(process->header->modules); ref && !error;) {
		const struct mgl_module *module =
			ledger_record_at(reader, process, ref, sizeof(*module));

		if (!module || list.count >= MGL_NODE_MODULE_MASK || map_u64_find(&seen, ref)) {
			ledger_process_damage(process, "the list of modules");
			break;
		}
		error = map_u64_set(&seen, ref, 1);
		if (!error)
			error = vector_push(&list, module_copy(reader, process, module));
		ref = READ_ONCE(module->next);
	}
	map_u64_free(&seen);
	if (!error)
		error = place_modules(process, list.items, list.count);
	vector_free(&list);
	return error;
}

/* One copy of the time table; false if entries moved meanwhile. */
static bool copy_times(struct ledger_reader *reader, struct reader_process *process,
		       struct ledger_time *times, size_t *ret)
{
	const struct mgl_process *header = process->header;
	uint32_t sequence = READ_ATOMIC(header->time_seq);
	uint32_t count = READ_ATOMIC(header->time_count);
	const struct mgl_time *block = NULL;
	size_t kept = 0;

	if (count > MGL_TIME_MAX)
		count = MGL_TIME_MAX;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t which = mgl_time_block(i), place = i - mgl_time_before(which);

		if (place == 0)
			block = ledger_record_at(reader, process,
						 READ_ONCE(header->time_blocks[which]),
						 sizeof(*block) * mgl_time_entries(which));
		if (!block)
			break;
		struct ledger_time entry = {
			.number = READ_ATOMIC(block[place].number),
			.ns = READ_ATOMIC(block[place].ns),
		};

		/* Threads take batches in one order and note them in another. */
		if (kept &&
		    (entry.number <= times[kept - 1].number || entry.ns < times[kept - 1].ns))
			continue;
		times[kept++] = entry;
	}
	*ret = kept;
	return !(sequence & 1) && READ_ATOMIC(header->time_seq) == sequence;
}

struct error *ledger_times_load(struct ledger_reader *reader, struct reader_process *process)
{
	size_t count = MGL_TIME_MAX;
	struct ledger_time *times = malloc(count * sizeof(*times));

	if (!times)
		return error_no_memory();
	process->info.times = times;
	/* A writer that died in the middle leaves it odd for good: then the sorted part serves. */
	for (uint32_t i = 0, before = 0; i < 100; i++) {
		uint32_t sequence = READ_ATOMIC(process->header->time_seq);

		if (copy_times(reader, process, times, &process->info.time_count) ||
		    ((sequence & 1) && sequence == before))
			break;
		before = sequence;
	}
	return NULL;
}

uint64_t ledger_time_of(const struct ledger_process *process, uint64_t number)
{
	const struct ledger_time *times = process->times;
	size_t low = 0, high = process->time_count;

	if (number == 0 || high == 0)
		return 0;
	while (low < high) { /* the first entry past number */
		size_t middle = low + (high - low) / 2;

		if (times[middle].number <= number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == process->time_count)
		return times[low - 1].ns;

	struct ledger_time before = {.number = 0, .ns = process->start_ns};

	if (low)
		before = times[low - 1];
	/* Within a batch, time is when the batch was taken: its rest may come much later.
	 * Entries further apart are those of a thinned table. */
	if (times[low].ns < before.ns || times[low].number - before.number <= BATCH_NUMBERS)
		return before.ns;

	unsigned __int128 part = (unsigned __int128)(number - before.number) *
				 (times[low].ns - before.ns) / (times[low].number - before.number);

	return before.ns + (uint64_t)part;
}

struct error *ledger_mappings_load(struct ledger_reader *reader, struct reader_process *process)
{
	uint32_t ref = READ_ATOMIC(process->header->mappings);
	VECTOR(struct ledger_mapping) mappings = VECTOR_EMPTY;
	struct error *error = NULL;

	if (ref == 0)
		return NULL;
	const struct mgl_mapping *table =
		ledger_record_at(reader, process, ref, sizeof(*table) * MGL_MAPPINGS);

	if (!table) {
		ledger_process_damage(process, "the table of mappings");
		return NULL;
	}
	for (unsigned int i = 0; i < MGL_MAPPINGS && !error; i++) {
		struct ledger_mapping mapping = {
			.start = READ_ATOMIC(table[i].start),
			.bytes = READ_ATOMIC(table[i].bytes),
		};

		if (mapping.start > 1)
			error = vector_push(&mappings, mapping);
	}
	process->info.mappings = mappings.items;
	process->info.mapping_count = mappings.count;
	return error;
}
