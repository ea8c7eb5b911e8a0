#include "ledger/family.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "ledger/family_internal.h"

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

struct error *ledger_member_add_missing(struct ledger_member *member, const char *kind,
					uint64_t count, const struct ledger_text *detail)
{
	struct ledger_missing *grown =
		realloc(member->missing, (member->missing_count + 1) * sizeof(*grown));

	if (!grown)
		return error_no_memory();
	member->missing = grown;
	grown[member->missing_count++] = (struct ledger_missing){
		.kind = kind,
		.count = count,
		.detail = detail ? *detail : (struct ledger_text){"", 0},
	};
	return NULL;
}

static struct error *add_losses(struct ledger_member *member, const struct ledger_process *from)
{
	uint64_t unfinished = 0;

	if (from->inert != MGL_INERT_NONE) {
		const char *kind = from->inert < MGL_INERT_COUNT ? inert_kinds[from->inert]
								 : "stopped_unknown";

		TRY(ledger_member_add_missing(member, kind, 1, NULL));
	}
	for (unsigned int i = 0; i < MGL_LOSS_COUNT; i++)
		if (from->losses[i].count)
			TRY(ledger_member_add_missing(
				member, loss_kinds[i] ? loss_kinds[i] : "unknown",
				from->losses[i].count, &from->losses[i].detail));
	if (member->end == LEDGER_END_RUNNING)
		return NULL;
	for (size_t i = 0; i < from->slot_count; i++)
		unfinished += from->slots[i].unfinished;
	if (unfinished)
		TRY(ledger_member_add_missing(member, "unfinished_calls", unfinished, NULL));
	return NULL;
}

/* State and field 22 of /proc/PID/stat; false = there is no such process. */
static bool stat_read(int32_t pid, char *state, uint64_t *starttime)
{
	char path[32], text[1024];
	long threads = 0;

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

	if (!fields || sscanf(fields,
			      ") %c %*s %*s %*s %*s %*s %*s %*s %*s "
			      "%*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %" SCNu64,
			      state, &threads, starttime) != 3)
		return false;
	/* One that only its first thread left goes on. */
	if (*state == 'Z' && threads > 1)
		*state = 'S';
	return true;
}

/* Only the first program of a session knows its starttime. The pid is still its own if whoever has it
 * began before the ledger did, in this boot. */
static bool began_before(uint64_t starttime, const struct ledger_process *from,
			 const struct ledger_session *session)
{
	uint64_t monotonic = clock_now_ns();
	int64_t boot = (int64_t)(clock_ns(CLOCK_REALTIME) - monotonic);
	int64_t session_boot = (int64_t)(session->start_unix_ns - session->start_ns);

	return llabs(boot - session_boot) < 60000000000 &&
	       clock_began_before(starttime, from->start_ns) &&
	       !(session->collector_pid && clock_began_long_before(starttime, session->start_ns));
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
static enum ledger_end end_by_state(const struct ledger_process *from)
{
	if (from->state == MGL_STATE_FINISHED)
		return LEDGER_END_EXIT;
	return from->state == MGL_STATE_EXECING ? LEDGER_END_EXEC : LEDGER_END_LOST;
}

static void set_end(struct ledger_member *member, const struct ledger_process *from,
		    const struct ledger_session *session)
{
	uint64_t stop = from->end_ns;

	member->end_code = LEDGER_UNKNOWN;
	switch ((enum mgl_end)from->end_kind) {
	case MGL_END_EXIT:
		member->end = LEDGER_END_EXIT;
		member->end_code = from->end_code;
		break;
	case MGL_END_SIGNAL:
		member->end = LEDGER_END_SIGNAL;
		member->end_code = from->end_code;
		break;
	case MGL_END_EXEC:
		member->end = LEDGER_END_EXEC;
		break;
	case MGL_END_DETACHED:
		member->end = LEDGER_END_DETACHED;
		break;
	case MGL_END_LOST:
		member->end = end_by_state(from);
		break;
	case MGL_END_NONE:
	default:
		member->end = end_by_state(from);
		if (is_alive(from, session)) {
			member->end = LEDGER_END_RUNNING;
			stop = clock_now_ns();
		}
	}
	member->duration_ns = stop > from->start_ns ? stop - from->start_ns : LEDGER_UNKNOWN;
}

/* The pid went on as another recorded program. */
static void set_execed(struct ledger_member *member, const struct ledger_process *from,
		       const struct ledger_process *successor)
{
	member->end = LEDGER_END_EXEC;
	member->end_code = LEDGER_UNKNOWN;
	if (successor->start_ns > from->start_ns)
		member->duration_ns = successor->start_ns - from->start_ns;
}

#define KIN (UINT64_C(1) << 32) /* set in the place of one of those */

struct making {
	struct ledger_reader *reader;
	struct ledger_family *family;
	const struct ledger_kin *kin;
	size_t kin_count;
	size_t kin_next;
	struct map_u64 by_pid; /* place of the newest of that pid so far */
	struct map_u64 by_serial;
};

static struct ledger_kin kin_at(const struct making *making, uint64_t place)
{
	if (place & KIN)
		return making->kin[place - KIN];
	const struct ledger_process *from = ledger_reader_process(making->reader, place);

	return (struct ledger_kin){from->serial, from->pid, from->starttime};
}

static struct error *add_kin(struct making *making, uint64_t place)
{
	struct ledger_kin kin = kin_at(making, place);

	TRY(map_u64_set(&making->by_pid, (uint32_t)kin.pid, place));
	return map_u64_set(&making->by_serial, kin.serial, place);
}

/* Those that were in the session before the process of this serial. */
static struct error *add_kin_before(struct making *making, uint32_t serial)
{
	while (making->kin_next < making->kin_count &&
	       making->kin[making->kin_next].serial < serial)
		TRY(add_kin(making, KIN | making->kin_next++));
	return NULL;
}

/* What it was before it executed the program it is, if that is known. */
static const uint64_t *predecessor(const struct making *making, const struct ledger_process *from,
				   const uint64_t *said)
{
	const uint64_t *before = map_u64_find(&making->by_pid, (uint32_t)from->pid);
	struct ledger_kin earlier;

	if (from->how == MGL_HOW_EXEC && said)
		return kin_at(making, *said).pid == from->pid ? said : NULL;
	if (!before || (from->how != MGL_HOW_ROOT && from->how != MGL_HOW_EXEC))
		return NULL;
	earlier = kin_at(making, *before);
	return earlier.starttime == from->starttime || earlier.starttime == 0 ? before : NULL;
}

static enum ledger_how how_of(const struct ledger_process *from, bool is_first)
{
	if (from->how == MGL_HOW_ATTACH)
		return LEDGER_HOW_ATTACH;
	if (from->how == MGL_HOW_FORK)
		return LEDGER_HOW_FORK;
	/* The root itself may be left out. */
	if (is_first && from->how != MGL_HOW_VFORK && from->how != MGL_HOW_SPAWN)
		return LEDGER_HOW_ROOT;
	return from->how == MGL_HOW_VFORK ? LEDGER_HOW_VFORK : LEDGER_HOW_SPAWN;
}

static struct error *set_parent(struct making *making, size_t at)
{
	struct ledger_member *member = &making->family->members[at];
	const struct ledger_process *from = ledger_reader_process(making->reader, at);
	const uint64_t *said = map_u64_find(&making->by_serial, from->parent);
	const uint64_t *before = predecessor(making, from, said);
	const uint64_t *parent = map_u64_find(&making->by_pid, (uint32_t)from->ppid);

	member->how = how_of(from, at == 0 && making->kin_next == 0);
	if (before) {
		member->how = LEDGER_HOW_EXEC;
		if (!(*before & KIN))
			set_execed(&making->family->members[*before],
				   ledger_reader_process(making->reader, *before), from);
		parent = before;
	} else if (said) {
		parent = said;
	}
	if (parent && member->how != LEDGER_HOW_ROOT && member->how != LEDGER_HOW_ATTACH)
		member->parent = kin_at(making, *parent).serial;
	return add_kin(making, at);
}

static void set_figures(struct ledger_member *member, const struct ledger_process *from,
			const struct ledger_session *session)
{
	member->start_ns =
		from->start_ns > session->start_ns ? from->start_ns - session->start_ns : 0;
	member->rss_peak = from->rss_peak ? from->rss_peak : LEDGER_UNKNOWN;

	uint64_t peak = ledger_time_of(from, from->peak_number);

	member->peak_time_ns =
		peak >= from->start_ns && peak ? peak - from->start_ns : LEDGER_UNKNOWN;
	for (size_t i = 0; i < from->slot_count; i++) {
		const struct ledger_slot *slot = &from->slots[i];

		member->threads += slot->threads;
		member->unknown_frees += slot->unknown_frees;
		member->inherited_frees += slot->inherited_frees;
		for (unsigned int api = 0; api < MGL_API_COUNT; api++)
			if (api != MGL_API_MMAP && api != MGL_API_MREMAP && api != MGL_API_MUNMAP)
				member->failed += slot->calls[api].failed;
	}
}

static struct error *load_all(struct making *making)
{
	const struct ledger_session *session = ledger_reader_session(making->reader);
	struct ledger_member *members = making->family->members;
	size_t count = making->family->count;

	for (size_t i = 0; i < count; i++) {
		const struct ledger_process *from = ledger_reader_process(making->reader, i);

		set_figures(&members[i], from, session);
		set_end(&members[i], from, session);
		TRY(add_kin_before(making, from->serial));
		TRY(set_parent(making, i));
	}
	TRY(ledger_family_settle(making->reader, making->family, &making->by_serial));
	for (size_t i = 0; i < count; i++)
		TRY(add_losses(&members[i], ledger_reader_process(making->reader, i)));
	return NULL;
}

struct error *ledger_family_read(struct ledger_reader *reader, const struct ledger_kin *kin,
				 size_t kin_count, struct ledger_family *ret)
{
	struct making making = {
		.reader = reader,
		.family = ret,
		.kin = kin,
		.kin_count = kin_count,
	};

	size_t count = ledger_reader_process_count(reader);

	*ret = (struct ledger_family){.members = calloc(count + 1, sizeof(*ret->members))};
	if (!ret->members)
		return error_no_memory();
	ret->count = count;
	struct error *error = load_all(&making);

	map_u64_free(&making.by_pid);
	map_u64_free(&making.by_serial);
	if (error)
		ledger_family_free(ret);
	return error;
}

struct error *ledger_family_add_missed(struct ledger_reader *reader, struct ledger_family *family,
				       uint64_t excused)
{
	const struct ledger_session *session = ledger_reader_session(reader);
	struct ledger_text first = {session->missed_first, strlen(session->missed_first)};

	if (family->count && session->left_out)
		TRY(ledger_member_add_missing(&family->members[0], "left_out", session->left_out,
					      NULL));
	if (family->count == 0 || session->missed <= excused)
		return NULL;
	return ledger_member_add_missing(&family->members[0], "missed_process",
					 session->missed - excused, &first);
}

void ledger_family_free(struct ledger_family *family)
{
	for (size_t i = 0; i < family->count; i++)
		free(family->members[i].missing);
	free(family->members);
	*family = (struct ledger_family){0};
}
