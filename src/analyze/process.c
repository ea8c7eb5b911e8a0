/* Processes, and what was not seen of each. */
#include "analyze/model_internal.h"

#include <stdio.h>
#include <string.h>

_Static_assert(ANALYZE_UNKNOWN == STORE_UNKNOWN, "what is not known");

static enum analyze_how how_of(uint64_t how)
{
	switch (how) {
	case STORE_HOW_FORK:
		return ANALYZE_FORK;
	case STORE_HOW_VFORK:
		return ANALYZE_VFORK;
	case STORE_HOW_SPAWN:
		return ANALYZE_SPAWN;
	case STORE_HOW_EXEC:
		return ANALYZE_EXEC;
	case STORE_HOW_ATTACH:
		return ANALYZE_ATTACH;
	default:
		return ANALYZE_ROOT;
	}
}

static enum analyze_end end_of(uint64_t end)
{
	switch (end) {
	case STORE_END_EXIT:
		return ANALYZE_EXITED;
	case STORE_END_SIGNAL:
		return ANALYZE_SIGNALED;
	case STORE_END_EXEC:
		return ANALYZE_EXECED;
	case STORE_END_RUNNING:
		return ANALYZE_RUNNING;
	case STORE_END_DETACHED:
		return ANALYZE_DETACHED;
	default:
		return ANALYZE_LOST;
	}
}

struct error *analyze_text_copy(struct analyze_text *to, const struct store_text *from)
{
	char *copy = malloc(from->length + 1);

	if (!copy)
		return error_no_memory();
	if (from->length)
		memcpy(copy, from->bytes, from->length);
	copy[from->length] = '\0';
	*to = (struct analyze_text){.bytes = copy, .length = from->length};
	return NULL;
}

/* Of figures that are always known but in a profile somebody else made. */
static uint64_t count_of(uint64_t value) { return value == STORE_UNKNOWN ? 0 : value; }

static uint64_t time_since(uint64_t time, uint64_t start)
{
	if (time == STORE_UNKNOWN)
		return ANALYZE_UNKNOWN;
	return time > start ? time - start : 0;
}

static struct analyze_process process_of(const struct store_process *row)
{
	uint64_t start = count_of(row->start);

	return (struct analyze_process){
		.id = (uint32_t)row->id,
		.parent = (uint32_t)row->parent,
		.how = how_of(row->how),
		.pid = row->pid,
		.ppid = row->ppid,
		.end = end_of(row->end_kind),
		.end_code = row->end_code,
		.start_ns = start,
		.duration_ns = time_since(row->stop, start),
		.counts =
			{
				.allocations = count_of(row->allocs),
				.frees = count_of(row->frees),
				.allocated_bytes = count_of(row->alloc_bytes),
				.peak_bytes = count_of(row->peak_bytes),
				.peak_blocks = count_of(row->peak_blocks),
				.live_bytes = count_of(row->live_bytes),
				.live_blocks = count_of(row->live_blocks),
				.temporary = count_of(row->temporary),
			},
		.live_bytes_low = count_of(row->live_bytes),
		.live_blocks_low = count_of(row->live_blocks),
		.failed = count_of(row->failed),
		.unknown_frees = count_of(row->unknown_frees),
		.inherited_frees = row->inherited_frees,
		.peak_time_ns = time_since(row->peak_time, start),
		.peak_error = count_of(row->peak_error),
		.threads = count_of(row->threads),
		.mapped_bytes = count_of(row->mapped_bytes),
		.rss_peak = row->rss_peak,
		.ledger_bytes = count_of(row->ledger_bytes),
		.tree_peak_bytes = row->tree_peak_bytes,
	};
}

/* What a live process holds is known from both sides: the lower one is in meta. */
static struct error *load_bound(struct loading *loading, const char *what, uint32_t id,
				uint64_t high, uint64_t *ret)
{
	char key[64];
	uint64_t low;
	bool found;

	snprintf(key, sizeof(key), "%s:%u", what, id);
	TRY(store_meta_number(loading->reader, key, &low, &found));
	if (found && low < high)
		*ret = low;
	return NULL;
}

static struct error *load_bounds(struct loading *loading, struct analyze_process *process)
{
	if (process->end != ANALYZE_RUNNING)
		return NULL;
	TRY(load_bound(loading, "live_bytes_low", process->id, process->counts.live_bytes,
		       &process->live_bytes_low));
	return load_bound(loading, "live_blocks_low", process->id, process->counts.live_blocks,
			  &process->live_blocks_low);
}

static struct error *add_source(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_source *row = from;
	struct analyze_source source = {
		.id = (uint32_t)row->id,
		.rank = row->rank,
		.tree_peak_bytes = row->tree_peak_bytes,
		.tree_peak_ns = row->tree_peak_time,
		.tree_peak_error = row->tree_peak_error,
	};

	loading->has_unfinished |= row->finished != 1;
	TRY(analyze_loading_text(loading, row->file, &source.file));
	TRY(analyze_loading_text(loading, row->host, &source.host));
	TRY(analyze_ids_add(&loading->sources, row->id));
	return vector_push(&loading->source_list, source);
}

static struct error *add_process(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_process *row = from;
	struct analyze_process process = process_of(row);

	TRY(analyze_loading_text(loading, row->exe, &process.exe));
	TRY(analyze_ids_find(&loading->sources, row->source, "source", &process.source));
	process.source -= process.source > 0;
	TRY(load_bounds(loading, &process));
	TRY(analyze_ids_add(&loading->processes, row->id));
	TRY(analyze_text_copy(&process.argv, &row->argv));
	struct error *error = vector_push(&loading->process_list, process);

	if (error)
		free((char *)(uintptr_t)process.argv.bytes);
	return error;
}

static struct error *add_loss(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_loss *row = from;
	uint32_t place;

	TRY(analyze_ids_find(&loading->processes, row->process, "process", &place));
	struct analyze_process *process = &loading->process_list.items[place - 1];
	size_t count = process->loss_count;

	/* A handful, but a false profile has any number: there is room for a power of two. */
	if ((count & (count - 1)) == 0) {
		size_t room = count ? 2 * count : 1;
		struct analyze_loss *grown = realloc(process->losses, room * sizeof(*grown));

		if (!grown)
			return error_no_memory();
		process->losses = grown;
	}
	struct analyze_loss *loss = &process->losses[process->loss_count++];

	*loss = (struct analyze_loss){.count = count_of(row->count)};
	TRY(analyze_text_copy(&loss->kind, &row->kind));
	TRY(analyze_text_copy(&loss->detail, &row->detail));
	loading->model->has_folded |= strcmp(loss->kind.bytes, "sites_folded") == 0;
	char *detail = (char *)(uintptr_t)loss->detail.bytes;

	loss->detail.length = store_unescape(detail, loss->detail.length);
	detail[loss->detail.length] = '\0';
	return NULL;
}

struct error *analyze_loading_processes(struct loading *loading)
{
	struct store_process process;
	struct store_source source;
	struct store_loss loss;

	TRY(analyze_each_row(loading->reader, STORE_TABLE_SOURCE, STORE_ALL, &source, add_source,
			     loading));
	TRY(analyze_each_row(loading->reader, STORE_TABLE_PROCESS, STORE_ALL, &process, add_process,
			     loading));
	return analyze_each_row(loading->reader, STORE_TABLE_LOSS, STORE_ALL, &loss, add_loss,
				loading);
}
