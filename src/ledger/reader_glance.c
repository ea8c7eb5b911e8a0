/* A look at a process that runs: cheap, since it is taken a hundred times a second. */
#include "ledger/reader_internal.h"

struct glance {
	struct ledger_reader *reader;
	struct reader_process *process;
	uint64_t steps_left; /* more rows or slots than fit are a list that goes round */
	struct ledger_glance *ret;
};

static const void *record(struct glance *glance, uint32_t ref, uint64_t bytes)
{
	const void *at = glance->steps_left
				 ? ledger_record_at(glance->reader, glance->process, ref, bytes)
				 : NULL;

	if (!at)
		glance->ret->stale = true;
	else
		glance->steps_left--;
	return at;
}

static struct error *visit_rows(struct glance *glance, const struct mgl_slot *slot,
				ledger_glance_visit *visit, void *context)
{
	for (uint32_t ref = READ_ATOMIC(slot->rows); ref;) {
		const struct mgl_row *row = record(glance, ref, sizeof(*row));

		if (!row)
			break;
		/* Frees first: what is live is then never less than what it was. */
		uint64_t frees = READ_ATOMIC(row->frees);
		uint64_t bytes_out = READ_ATOMIC(row->bytes_out);
		struct ledger_glance_row seen = {
			.ref = ref,
			.allocs = READ_ATOMIC(row->allocs),
			.frees = frees,
			.bytes_in = READ_ATOMIC(row->bytes_in),
			.bytes_out = bytes_out,
		};

		TRY(visit(context, &seen));
		ref = READ_ONCE(row->next);
	}
	return NULL;
}

struct error *ledger_rows_glance(struct ledger_reader *reader, size_t process,
				 ledger_glance_visit *visit, void *context,
				 struct ledger_glance *ret)
{
	struct reader_process *of = &reader->processes.items[process];
	struct glance glance = {
		.reader = reader,
		.process = of,
		.steps_left = of->record_units * (MGL_UNIT_BYTES / sizeof(struct mgl_row)),
		.ret = ret,
	};

	*ret = (struct ledger_glance){.mapped_bytes = READ_ATOMIC(of->header->mapped_bytes)};
	for (uint32_t ref = READ_ATOMIC(of->header->slots); ref;) {
		const struct mgl_slot *slot = record(&glance, ref, sizeof(*slot));

		if (!slot)
			break;
		TRY(visit_rows(&glance, slot, visit, context));
		ref = READ_ONCE(slot->next);
	}
	/* After the rows: what they said at most is in it. */
	ret->peak = READ_ATOMIC(of->header->max) + READ_ATOMIC(of->header->max_error);
	return ledger_reader_check(reader);
}

/* Newest first, as the list has them, up to the one that was the newest. */
static struct error *visit_new_rows(struct glance *glance, uint32_t newest, uint32_t known,
				    struct error *(*visit)(void *context, uint32_t node),
				    void *context)
{
	for (uint32_t ref = newest; ref && ref != known;) {
		const struct mgl_row *row = record(glance, ref, sizeof(*row));

		if (!row)
			break;
		TRY(visit(context, READ_ONCE(row->node)));
		ref = READ_ONCE(row->next);
	}
	return NULL;
}

struct error *ledger_rows_news(struct ledger_reader *reader, size_t process,
			       struct ledger_news *news,
			       struct error *(*visit)(void *context, uint32_t node), void *context,
			       bool *ret_stale)
{
	struct reader_process *of = &reader->processes.items[process];
	struct ledger_glance seen = {0};
	struct glance glance = {
		.reader = reader,
		.process = of,
		.steps_left = of->record_units * (MGL_UNIT_BYTES / sizeof(struct mgl_row)),
		.ret = &seen,
	};

	for (uint32_t ref = READ_ATOMIC(of->header->slots); ref;) {
		const struct mgl_slot *slot = record(&glance, ref, sizeof(*slot));

		if (!slot)
			break;
		const uint64_t *known = map_u64_find(&news->newest, ref);
		uint32_t newest = READ_ATOMIC(slot->rows);

		seen.stale = false;
		TRY(visit_new_rows(&glance, newest, known ? (uint32_t)*known : 0, visit, context));
		/* The rest of a list that was cut comes with the next reader. */
		if (!seen.stale)
			TRY(map_u64_set(&news->newest, ref, newest));
		*ret_stale |= seen.stale;
		ref = READ_ONCE(slot->next);
	}
	return ledger_reader_check(reader);
}
