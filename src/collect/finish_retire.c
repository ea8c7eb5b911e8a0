/* Processes that are over, put into the profile while others run. */
#include "collect/finish_early.h"

#include <string.h>

const struct finish_retired *collect_finish_retired(const struct finishing *finishing,
						    uint32_t serial)
{
	const uint64_t *at = map_u64_find(&finishing->retired_at, serial);

	return at ? &finishing->retired.items[*at] : NULL;
}

struct error *collect_finish_add_retired(struct finishing *finishing, struct finish_retired retired)
{
	struct error *error = vector_push(&finishing->retired, retired);

	if (error) {
		free(retired.cwd);
		return error;
	}
	return map_u64_set(&finishing->retired_at, retired.kin.serial,
			   finishing->retired.count - 1);
}

void collect_finish_retired_free(struct finishing *finishing)
{
	for (size_t i = 0; i < finishing->retired.count; i++)
		free(finishing->retired.items[i].cwd);
	vector_free(&finishing->retired);
	map_u64_free(&finishing->retired_at);
}

static int compare_kin(const void *a, const void *b)
{
	uint32_t x = ((const struct ledger_kin *)a)->serial;
	uint32_t y = ((const struct ledger_kin *)b)->serial;

	return (x > y) - (x < y);
}

struct error *collect_finish_read_family(struct finishing *finishing)
{
	size_t count = finishing->retired.count;
	CLEANUP_FREE struct ledger_kin *kin = calloc(count + 1, sizeof(*kin));

	if (!kin)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		kin[i] = finishing->retired.items[i].kin;
	if (count)
		qsort(kin, count, sizeof(*kin), compare_kin);
	ledger_family_free(&finishing->family);
	return ledger_family_read(finishing->reader, kin, count, &finishing->family);
}

static bool has_code_nowhere(const struct finishing *finishing, uint32_t serial)
{
	for (size_t i = finishing->stacks.modules.count; --i;)
		if (finishing->stacks.modules.items[i]->flags & LEDGER_MODULE_NOWHERE &&
		    finishing->stacks.modules.items[i]->index == serial)
			return true;
	return false;
}

static struct error *retire(struct finishing *finishing, size_t place)
{
	const struct ledger_process *from = ledger_reader_process(finishing->reader, place);
	struct finish_retired retired = {
		.kin = {from->serial, from->pid, from->starttime},
		.start_ns = from->start_ns,
	};

	if (collect_finish_is_retired(finishing, from->serial))
		return NULL;
	TRY(collect_finishing_process(finishing, place));
	TRY(collect_finish_put_untitled(finishing));
	/* Its runtime may have left there what that code is called. */
	if (has_code_nowhere(finishing, from->serial))
		retired.cwd = strdup(from->cwd.bytes);
	return collect_finish_add_retired(finishing, retired);
}

static struct error *retire_all(struct collect_early *early, struct ledger_reader *reader,
				uint64_t opened, const struct collect_finish_options *options,
				const size_t *places, size_t count)
{
	struct finishing *finishing = &early->finishing;

	TRY(collect_early_begin(early, reader, opened));
	if (early->in_haste)
		TRY(store_writer_hurry(finishing->writer));
	finishing->options = options;
	finishing->reader = reader;
	TRY(collect_finish_read_family(finishing));
	for (size_t i = 0; i < count; i++)
		TRY(retire(finishing, places[i]));
	TRY(ledger_reader_check(reader));
	TRY(collect_finishing_put_meta(finishing));
	TRY(collect_finish_put_places(finishing));
	TRY(store_writer_keep(finishing->writer));
	early->retired += count;
	return NULL;
}

struct error *collect_early_retire(struct collect_early *early, struct ledger_reader *reader,
				   uint64_t opened, const struct collect_finish_options *options,
				   const size_t *places, size_t count)
{
	if (early->ended || !early->path)
		return error_create(ERROR_REFUSED, "nothing is made early");
	struct error *error = retire_all(early, reader, opened, options, places, count);

	ledger_family_free(&early->finishing.family);
	if (error)
		collect_early_give_up(early, error_create(error->code, "%s", error->message));
	return error;
}

void collect_early_hurry(struct collect_early *early) { early->in_haste = true; }

size_t collect_early_retired(const struct collect_early *early)
{
	return early ? early->retired : 0;
}

bool collect_early_has_retired(const struct collect_early *early, uint32_t serial)
{
	return early && early->is_open && collect_finish_is_retired(&early->finishing, serial);
}

const char *collect_early_retired_path(const struct collect_early *early)
{
	return collect_early_retired(early) ? early->path : NULL;
}
