/* Processes: who came from whom, what became of each, and what was not seen of it. */
#include "analyze/model_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

static const char *const loss_kinds[MGL_LOSS_COUNT] = {
	[MGL_LOSS_EARLY_CALLS] = "early_calls",
	[MGL_LOSS_NESTED_CALLS] = "nested_calls",
	[MGL_LOSS_OCCUPIED] = "missed_frees",
	[MGL_LOSS_CUT_STACKS] = "cut_stacks",
	[MGL_LOSS_UNSHADOWED] = "unshadowed",
	[MGL_LOSS_UNRECORDED] = "unrecorded",
	[MGL_LOSS_MAPPINGS_FULL] = "mappings_full",
	[MGL_LOSS_OWN_MALLOC] = "own_malloc",
	[MGL_LOSS_DEEPBIND] = "deepbind",
	[MGL_LOSS_DLMOPEN] = "dlmopen",
	[MGL_LOSS_MISSED_PROCESS] = "missed_process",
	[MGL_LOSS_ABANDONED] = "abandoned_calls",
	[MGL_LOSS_SECCOMP] = "seccomp",
};

static const char *const inert_kinds[MGL_INERT_COUNT] = {
	[MGL_INERT_LEDGER_LIMIT] = "stopped_ledger_limit",
	[MGL_INERT_FILE_FULL] = "stopped_file_full",
	[MGL_INERT_NO_MEMORY] = "stopped_no_memory",
	[MGL_INERT_SECCOMP] = "stopped_seccomp",
	[MGL_INERT_DAMAGED] = "stopped_damaged",
	[MGL_INERT_DETACHED] = "stopped_detached",
};

struct error *analyze_process_add_loss(struct analyze_process *process, const char *kind,
				       uint64_t count, const struct ledger_text *detail)
{
	struct analyze_loss loss = {.kind = kind, .count = count};
	struct analyze_loss *grown =
		realloc(process->losses, (process->loss_count + 1) * sizeof(*grown));

	if (!grown)
		return error_no_memory();
	process->losses = grown;
	if (detail && detail->length)
		TRY(analyze_text_copy(&loss.detail, detail));
	grown[process->loss_count++] = loss;
	return NULL;
}

static struct error *add_losses(struct analyze_process *process, const struct ledger_process *from)
{
	uint64_t unfinished = 0;

	if (from->inert != MGL_INERT_NONE) {
		const char *kind = from->inert < MGL_INERT_COUNT ? inert_kinds[from->inert]
								 : "stopped_unknown";

		TRY(analyze_process_add_loss(process, kind, 1, NULL));
	}
	for (unsigned int i = 0; i < MGL_LOSS_COUNT; i++)
		if (from->losses[i].count)
			TRY(analyze_process_add_loss(
				process, loss_kinds[i] ? loss_kinds[i] : "unknown",
				from->losses[i].count, &from->losses[i].detail));
	if (process->end == ANALYZE_RUNNING)
		return NULL;
	for (size_t i = 0; i < from->slot_count; i++)
		unfinished += from->slots[i].unfinished;
	if (unfinished)
		TRY(analyze_process_add_loss(process, "unfinished_calls", unfinished, NULL));
	return NULL;
}

static uint64_t clock_now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* State and field 22 of /proc/PID/stat; false = there is no such process. */
static bool stat_read(int32_t pid, char *state, uint64_t *starttime)
{
	char path[32], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);

	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	ssize_t count = read(fd, text, sizeof(text) - 1);

	if (count <= 0)
		return false;
	text[count] = '\0';

	/* The name may hold anything; the fields begin after its last parenthesis. */
	const char *fields = strrchr(text, ')');

	return fields &&
	       sscanf(fields,
		      ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		      "%*s %" SCNu64,
		      state, starttime) == 2;
}

/* A child of fork does not know its starttime. The pid is still its own if whoever has it
 * began before the ledger did, in this boot. */
static bool began_before(uint64_t starttime, const struct ledger_process *from,
			 const struct ledger_session *session)
{
	uint64_t monotonic = clock_now(CLOCK_MONOTONIC);
	uint64_t asleep = clock_now(CLOCK_BOOTTIME) - monotonic;
	int64_t boot = (int64_t)(clock_now(CLOCK_REALTIME) - monotonic);
	int64_t session_boot = (int64_t)(session->start_unix_ns - session->start_ns);
	uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	return llabs(boot - session_boot) < 60000000000 &&
	       starttime * tick < from->start_ns + asleep + tick;
}

/* Whether the process is there, and not as a zombie. */
static bool is_alive(const struct ledger_process *from, const struct ledger_session *session)
{
	uint64_t starttime;
	char state;

	if (from->pid <= 0 || !stat_read(from->pid, &state, &starttime) || state == 'Z' ||
	    state == 'X')
		return false;
	return from->starttime ? starttime == from->starttime
			       : began_before(starttime, from, session);
}

/* What its own last word lets one say of a process that is gone. */
static enum analyze_end end_by_state(const struct ledger_process *from)
{
	if (from->state == MGL_STATE_FINISHED)
		return ANALYZE_EXITED;
	return from->state == MGL_STATE_EXECING ? ANALYZE_EXECED : ANALYZE_LOST;
}

static void set_end(struct analyze_process *process, const struct ledger_process *from,
		    const struct ledger_session *session)
{
	uint64_t stop = from->end_ns;

	process->end_code = ANALYZE_UNKNOWN;
	switch ((enum mgl_end)from->end_kind) {
	case MGL_END_EXIT:
		process->end = ANALYZE_EXITED;
		process->end_code = from->end_code;
		break;
	case MGL_END_SIGNAL:
		process->end = ANALYZE_SIGNALED;
		process->end_code = from->end_code;
		break;
	case MGL_END_EXEC:
		process->end = ANALYZE_EXECED;
		break;
	case MGL_END_DETACHED:
		process->end = ANALYZE_DETACHED;
		break;
	case MGL_END_LOST:
		process->end = end_by_state(from);
		break;
	case MGL_END_NONE:
	default:
		process->end = end_by_state(from);
		if (is_alive(from, session)) {
			process->end = ANALYZE_RUNNING;
			stop = clock_now(CLOCK_MONOTONIC);
		}
	}
	process->duration_ns = stop > from->start_ns ? stop - from->start_ns : ANALYZE_UNKNOWN;
}

/* The pid went on as another recorded program. */
static void set_execed(struct analyze_process *process, const struct ledger_process *from,
		       const struct ledger_process *successor)
{
	process->end = ANALYZE_EXECED;
	process->end_code = ANALYZE_UNKNOWN;
	if (successor->start_ns > from->start_ns)
		process->duration_ns = successor->start_ns - from->start_ns;
}

static struct error *set_parent(struct builder *builder, size_t at, struct map_u64 *by_pid,
				struct map_u64 *by_serial)
{
	struct analyze_process *process = &builder->processes[at];
	const struct ledger_process *from = ledger_reader_process(builder->reader, at);
	const uint64_t *before = map_u64_find(by_pid, (uint32_t)from->pid);
	const uint64_t *parent = map_u64_find(by_pid, (uint32_t)from->ppid);

	process->how = at == 0 ? ANALYZE_ROOT : ANALYZE_SPAWN;
	if (from->how == MGL_HOW_ATTACH) {
		process->how = ANALYZE_ATTACH;
	} else if (from->how == MGL_HOW_FORK) {
		const uint64_t *forker = map_u64_find(by_serial, from->parent);

		process->how = ANALYZE_FORK;
		parent = forker ? forker : parent;
	} else if (before) {
		const struct ledger_process *earlier =
			ledger_reader_process(builder->reader, *before);

		if (earlier->starttime == from->starttime || earlier->starttime == 0) {
			process->how = ANALYZE_EXEC;
			parent = before;
			set_execed(&builder->processes[*before], earlier, from);
		}
	}
	if (parent && process->how != ANALYZE_ROOT && process->how != ANALYZE_ATTACH)
		process->parent = builder->processes[*parent].id;
	TRY(map_u64_set(by_pid, (uint32_t)from->pid, at));
	return map_u64_set(by_serial, from->serial, at);
}

static void set_figures(struct analyze_process *process, const struct ledger_process *from,
			const struct ledger_session *session)
{
	process->id = from->serial;
	process->pid = from->pid;
	process->ppid = from->ppid;
	process->start_ns =
		from->start_ns > session->start_ns ? from->start_ns - session->start_ns : 0;
	process->peak_error = from->peak_error;
	process->mapped_bytes = from->mapped_bytes;
	process->rss_peak = from->rss_peak ? from->rss_peak : ANALYZE_UNKNOWN;
	process->ledger_bytes = from->ledger_bytes;

	uint64_t peak = ledger_time_of(from, from->peak_number);

	process->peak_time_ns =
		peak >= from->start_ns && peak ? peak - from->start_ns : ANALYZE_UNKNOWN;
	for (size_t i = 0; i < from->slot_count; i++) {
		const struct ledger_slot *slot = &from->slots[i];

		process->threads += slot->threads;
		process->unknown_frees += slot->unknown_frees;
		for (unsigned int api = 0; api < MGL_API_COUNT; api++)
			if (api != MGL_API_MMAP && api != MGL_API_MREMAP && api != MGL_API_MUNMAP)
				process->failed += slot->calls[api].failed;
	}
}

static struct error *load_all(struct builder *builder, struct map_u64 *by_pid,
			      struct map_u64 *by_serial)
{
	const struct ledger_session *session = ledger_reader_session(builder->reader);

	for (size_t i = 0; i < builder->process_count; i++) {
		struct analyze_process *process = &builder->processes[i];
		const struct ledger_process *from = ledger_reader_process(builder->reader, i);

		set_figures(process, from, session);
		set_end(process, from, session);
		TRY(analyze_text_copy(&process->exe, &from->exe));
		TRY(analyze_text_copy(&process->argv, &from->argv));
		TRY(set_parent(builder, i, by_pid, by_serial));
	}
	for (size_t i = 0; i < builder->process_count; i++)
		TRY(add_losses(&builder->processes[i], ledger_reader_process(builder->reader, i)));
	if (builder->process_count && session->missed)
		TRY(analyze_process_add_loss(&builder->processes[0], "missed_process",
					     session->missed, NULL));
	return NULL;
}

struct error *analyze_processes_load(struct builder *builder)
{
	struct map_u64 by_pid = {0}, by_serial = {0};
	struct error *error = load_all(builder, &by_pid, &by_serial);

	map_u64_free(&by_pid);
	map_u64_free(&by_serial);
	return error;
}
