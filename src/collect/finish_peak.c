/*
 * What is known of the peak of a process whose threads held back from each other.
 */
#include "collect/finish_internal.h"

/* What is shown was live at some instant, so the true peak is no less; and it is no more
 * than what was published at most and what threads held back of it at most. */
static uint64_t error_of(const struct ledger_process *from, uint64_t shown)
{
	if (from->max_error == 0)
		return from->peak_error;
	return from->max_error + (from->peak_max > shown ? from->peak_max - shown : 0);
}

static void show_live(struct finish_counts *counts)
{
	counts->peak_bytes = counts->bytes_in - counts->bytes_out;
	counts->peak_blocks = counts->allocs - counts->frees;
}

void collect_finish_peak(struct finish_process *process)
{
	struct finish_counts *counts = &process->counts;
	struct ledger_member *member = process->member;
	uint64_t live = counts->bytes_in - counts->bytes_out;
	uint64_t most = counts->peak_bytes + error_of(process->from, counts->peak_bytes);

	process->peak_error = most - counts->peak_bytes;
	/* What is live at the end was live, to the byte. */
	if (!process->rows.exact || process->peak_error == 0 ||
	    (int64_t)live <= (int64_t)counts->peak_bytes)
		return;
	process->peak_error = most > live ? most - live : 0;
	member->peak_time_ns = member->duration_ns;
	show_live(counts);
	for (size_t i = process->first_site; i < process->finishing->sites.count; i++)
		show_live(&process->finishing->sites.items[i].counts);
}
