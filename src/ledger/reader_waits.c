/* How children ended: the pages of waits that a process's ledger has. */
#include "ledger/reader_internal.h"

/* Of a wait status, as waitpid(2) lays it out. */
#define STATUS_SIGNAL(status) ((status)&0x7f)
#define STATUS_EXIT(status)   ((status) >> 8 & 0xff)

/* false: it was not written whole, or tells of no end. */
static bool wait_read(const struct mgl_wait *from, struct ledger_wait *ret)
{
	ret->ns = READ_ATOMIC(from->ns);
	ret->since = READ_ONCE(from->since);
	ret->pid = READ_ONCE(from->pid);
	uint32_t status = READ_ONCE(from->status);

	ret->by_signal = STATUS_SIGNAL(status) != 0;
	ret->code = ret->by_signal ? STATUS_SIGNAL(status) : STATUS_EXIT(status);
	return ret->ns != 0 && ret->pid != 0 && status <= 0xffff && STATUS_SIGNAL(status) != 0x7f;
}

struct error *ledger_waits_load(struct ledger_reader *reader, struct reader_process *process)
{
	uint32_t ref = READ_ATOMIC(process->header->waits);
	VECTOR(struct ledger_wait) waits = VECTOR_EMPTY;
	struct error *error = NULL;

	/* The length of the chain is bounded, so one that leads back to itself ends too. */
	for (uint32_t pages = 0; ref && !error; pages++) {
		const struct mgl_waits *page =
			ledger_record_at(reader, process, ref, sizeof(*page));

		if (!page || pages >= MGL_WAIT_BLOCKS) {
			ledger_process_damage(process, "the list of ended children");
			break;
		}
		for (uint32_t i = 0; i < MGL_WAITS && !error; i++) {
			struct ledger_wait wait;

			if (wait_read(&page->waits[i], &wait))
				error = vector_push(&waits, wait);
		}
		ref = READ_ONCE(page->next);
	}
	process->info.waits = waits.items;
	process->info.wait_count = waits.count;
	return error;
}
