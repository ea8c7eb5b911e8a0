/* Processes: the session's, with the texts copied out of its reader. */
#include "analyze/model_internal.h"

_Static_assert((int)ANALYZE_ROOT == LEDGER_HOW_ROOT && (int)ANALYZE_ATTACH == LEDGER_HOW_ATTACH,
	       "enum analyze_how is enum ledger_how");
_Static_assert((int)ANALYZE_EXITED == LEDGER_END_EXIT && (int)ANALYZE_LOST == LEDGER_END_LOST,
	       "enum analyze_end is enum ledger_end");
_Static_assert(ANALYZE_UNKNOWN == LEDGER_UNKNOWN, "what is not known");

static void set_figures(struct analyze_process *process, const struct ledger_process *from,
			const struct ledger_member *member)
{
	process->id = from->serial;
	process->parent = member->parent;
	process->how = (enum analyze_how)member->how;
	process->pid = from->pid;
	process->ppid = from->ppid;
	process->end = (enum analyze_end)member->end;
	process->end_code = member->end_code;
	process->start_ns = member->start_ns;
	process->duration_ns = member->duration_ns;
	process->failed = member->failed;
	process->unknown_frees = member->unknown_frees;
	process->peak_time_ns = member->peak_time_ns;
	process->peak_error = from->peak_error;
	process->threads = member->threads;
	process->mapped_bytes = from->mapped_bytes;
	process->rss_peak = member->rss_peak;
	process->ledger_bytes = from->ledger_bytes;
}

struct error *analyze_process_add_loss(struct analyze_process *process, const char *kind,
				       uint64_t count, const struct ledger_text *detail)
{
	struct analyze_loss loss = {.kind = kind, .count = count};
	struct analyze_loss *grown =
		realloc(process->losses, (process->loss_count + 1) * sizeof(*grown));

	if (!grown)
		return error_no_memory();
	process->losses = grown;
	if (detail->length)
		TRY(analyze_text_copy(&loss.detail, detail));
	grown[process->loss_count++] = loss;
	return NULL;
}

static struct error *load(struct analyze_process *process, const struct ledger_process *from,
			  const struct ledger_member *member)
{
	set_figures(process, from, member);
	TRY(analyze_text_copy(&process->exe, &from->exe));
	TRY(analyze_text_copy(&process->argv, &from->argv));
	for (size_t i = 0; i < member->missing_count; i++)
		TRY(analyze_process_add_loss(process, member->missing[i].kind,
					     member->missing[i].count, &member->missing[i].detail));
	return NULL;
}

struct error *analyze_processes_load(struct builder *builder)
{
	struct ledger_family family;
	struct error *error = NULL;

	TRY(ledger_family_read(builder->reader, &family));
	for (size_t i = 0; i < builder->process_count && !error; i++)
		error = load(&builder->processes[i], ledger_reader_process(builder->reader, i),
			     &family.members[i]);
	ledger_family_free(&family);
	return error;
}
