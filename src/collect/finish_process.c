/* What a profile says of a process itself: figures, functions called, mappings, losses. */
#include "collect/finish_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

/* What an allocation function did stands in the rows; failures, and mappings, in the slots. */
static struct error *put_apis(const struct finish_process *process)
{
	struct store_api apis[MGL_API_COUNT] = {{0}};

	for (size_t i = 0; i < process->rows.count; i++) {
		const struct ledger_row *row = &process->rows.items[i];

		if (row->api >= MGL_API_COUNT)
			continue;
		apis[row->api].calls += row->allocs;
		apis[row->api].bytes += row->bytes_in;
	}
	for (unsigned int api = 1; api < MGL_API_COUNT; api++) {
		struct store_api *to = &apis[api];

		to->process = process->from->serial;
		to->api = api;
		for (size_t i = 0; i < process->from->slot_count; i++) {
			const struct mgl_calls *calls = &process->from->slots[i].calls[api];

			to->calls += calls->calls;
			to->failed += calls->failed;
			to->bytes += calls->bytes;
		}
		if (to->calls || to->failed)
			TRY(store_put(process->finishing->writer, to));
	}
	return NULL;
}

static struct error *put_mappings(const struct finish_process *process)
{
	const struct finishing *finishing = process->finishing;

	for (size_t i = 1; i < process->from->module_count; i++) {
		const struct ledger_module *module = &process->from->modules[i];

		if (module->index == 0 || module->flags & MGL_MODULE_AGENT)
			continue;
		TRY(store_put(
			finishing->writer,
			&((struct store_mapping){
				.process = process->from->serial,
				.module = process->naming->modules.items[i],
				.start = module->start,
				.stop = module->stop,
				.file_offset = module->start - module->bias,
				.loaded = collect_finish_time(finishing, module->loaded_ns),
				.unloaded = collect_finish_time(finishing, module->unloaded_ns),
			})));
	}
	return NULL;
}

/* A kind may have been met by more than one way. */
static struct error *put_losses(const struct finish_process *process)
{
	struct ledger_missing *missing = process->member->missing;
	size_t count = process->member->missing_count;

	for (size_t i = 0; i < count; i++) {
		CLEANUP_STRBUF struct strbuf detail = STRBUF_EMPTY;
		bool said = false;

		TRY(collect_finish_why_missed(process, &missing[i], &detail));
		struct store_loss row = {
			.process = process->from->serial,
			.kind = {missing[i].kind, strlen(missing[i].kind)},
			.count = missing[i].count,
			.detail = {detail.text ? detail.text : "", detail.length},
		};

		for (size_t j = 0; j < count; j++) {
			if (strcmp(missing[j].kind, missing[i].kind) != 0 ||
			    missing[j].detail.length != missing[i].detail.length ||
			    memcmp(missing[j].detail.bytes, missing[i].detail.bytes,
				   missing[i].detail.length) != 0)
				continue;
			said |= j < i;
			row.count += j > i ? missing[j].count : 0;
		}
		if (!said)
			TRY(store_put(process->finishing->writer, &row));
	}
	return NULL;
}

static uint64_t how_of(enum ledger_how how)
{
	switch (how) {
	case LEDGER_HOW_ROOT:
		return STORE_HOW_ROOT;
	case LEDGER_HOW_FORK:
		return STORE_HOW_FORK;
	case LEDGER_HOW_VFORK:
		return STORE_HOW_VFORK;
	case LEDGER_HOW_SPAWN:
		return STORE_HOW_SPAWN;
	case LEDGER_HOW_EXEC:
		return STORE_HOW_EXEC;
	case LEDGER_HOW_ATTACH:
		return STORE_HOW_ATTACH;
	}
	return 0;
}

static uint64_t end_of(enum ledger_end end)
{
	switch (end) {
	case LEDGER_END_EXIT:
		return STORE_END_EXIT;
	case LEDGER_END_SIGNAL:
		return STORE_END_SIGNAL;
	case LEDGER_END_EXEC:
		return STORE_END_EXEC;
	case LEDGER_END_RUNNING:
		return STORE_END_RUNNING;
	case LEDGER_END_DETACHED:
		return STORE_END_DETACHED;
	case LEDGER_END_LOST:
		return STORE_END_LOST;
	}
	return 0;
}

static uint64_t number_of(int32_t pid) { return pid > 0 ? (uint64_t)pid : STORE_UNKNOWN; }

/* What a process holds while it runs is known from both sides. */
static struct error *put_bounds(const struct finish_process *process)
{
	const struct finish_counts *counts = &process->counts;
	char key[64];

	if (process->member->end != LEDGER_END_RUNNING)
		return NULL;
	snprintf(key, sizeof(key), "live_bytes_low:%u", process->from->serial);
	TRY(store_put_meta_number(process->finishing->writer, key,
				  (int64_t)counts->live_bytes_low < 0 ? 0
								      : counts->live_bytes_low));
	snprintf(key, sizeof(key), "live_blocks_low:%u", process->from->serial);
	return store_put_meta_number(
		process->finishing->writer, key,
		(int64_t)counts->live_blocks_low < 0 ? 0 : counts->live_blocks_low);
}

static struct error *put_process(struct finish_process *process)
{
	struct store_writer *writer = process->finishing->writer;
	const struct ledger_process *from = process->from;
	const struct ledger_member *member = process->member;
	const struct finish_counts *counts = &process->counts;
	struct store_process row = {
		.id = from->serial,
		.parent = member->parent,
		.how = how_of(member->how),
		.pid = number_of(from->pid),
		.ppid = number_of(from->ppid),
		.argv = {from->argv.bytes, from->argv.length},
		.start = member->start_ns,
		.stop = STORE_UNKNOWN,
		.end_kind = end_of(member->end),
		.end_code = member->end_code,
		.sample_period = from->sample_period,
		.allocs = counts->allocs,
		.frees = counts->frees,
		.failed = member->failed,
		.unknown_frees = member->unknown_frees,
		.inherited_frees = member->inherited_frees,
		.alloc_bytes = counts->bytes_in,
		.live_blocks = collect_finish_clamp(process, counts->allocs - counts->frees),
		.live_bytes = collect_finish_clamp(process, counts->bytes_in - counts->bytes_out),
		.temporary = counts->temporaries,
		.realloc_moved = counts->moved,
		.peak_bytes = collect_finish_clamp(process, counts->peak_bytes),
		.peak_blocks = collect_finish_clamp(process, counts->peak_blocks),
		.peak_time = STORE_UNKNOWN,
		.peak_error = process->peak_error,
		.mapped_bytes = from->mapped_bytes,
		.mapped_peak = from->mapped_peak,
		.rss_peak = member->rss_peak,
		.ledger_bytes = ledger_reader_bytes(process->finishing->reader, process->place),
		.threads = member->threads,
		.tree_peak_bytes = STORE_UNKNOWN,
	};

	if (member->duration_ns != LEDGER_UNKNOWN)
		row.stop = member->start_ns + member->duration_ns;
	if (member->peak_time_ns != LEDGER_UNKNOWN)
		row.peak_time = member->start_ns + member->peak_time_ns;
	TRY(store_intern(writer, from->exe.bytes, from->exe.length, &row.exe));
	TRY(store_intern(writer, from->cwd.bytes, from->cwd.length, &row.cwd));
	TRY(store_put(writer, &row));
	return put_bounds(process);
}

static struct error *put_damage(struct finish_process *process)
{
	uint64_t damage = process->from->damage + process->damage - process->excused;
	const char *note =
		process->from->damage_note ? process->from->damage_note : "counts or stacks";

	if (damage == 0)
		return NULL;
	return ledger_member_add_missing(process->member, "damaged", damage,
					 &(struct ledger_text){note, strlen(note)});
}

struct error *collect_finish_put_process(struct finish_process *process)
{
	TRY(put_apis(process));
	TRY(put_mappings(process));
	TRY(put_process(process));
	TRY(put_damage(process));
	TRY(collect_finish_allocators(process));
	return put_losses(process);
}
