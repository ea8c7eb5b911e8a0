/*
 * Who a wait was for. A process notes the pid of a child that it reaped; that is the last
 * image that had the pid by then, if it comes from the process. For system(3) the pid is not
 * known, but a shell that began during the call.
 */
#include "ledger/family_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

#define FAR        64u  /* most images looked at for one wait, and ancestors for one image */
#define FAR_SHELLS 256u /* images looked at for one system(3) */
#define PASSES     4u   /* a call of system(3) that is told may tell another one */

struct noted {
	struct ledger_wait wait;
	size_t waiter; /* place */
	bool done;     /* of a call of system(3): its shell was found */
};

/* A place by something and its start. */
struct begun {
	int32_t id;
	uint64_t ns;
	size_t place;
};

struct settling {
	struct ledger_reader *reader;
	struct ledger_member *members;
	const struct map_u64 *by_serial;
	VECTOR(struct noted) noted;
	struct begun *by_pid;
	struct begun *by_ppid;
	bool *settled; /* by place: its end was told */
	bool *told;    /* by place: of a shell, that it belongs to a call */
	size_t count;
};

static const struct ledger_process *process_at(const struct settling *s, size_t place)
{
	return ledger_reader_process(s->reader, place);
}

static int compare_begun(const void *a, const void *b)
{
	const struct begun *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

static int compare_noted(const void *a, const void *b)
{
	const struct noted *x = a, *y = b;

	if (x->wait.ns != y->wait.ns)
		return x->wait.ns < y->wait.ns ? -1 : 1;
	return (x->waiter > y->waiter) - (x->waiter < y->waiter);
}

/* How many of a sorted array begin before (id, ns). */
static size_t count_before(const struct begun *sorted, size_t count, int32_t id, uint64_t ns)
{
	size_t low = 0, high = count;
	struct begun key = {.id = id, .ns = ns};

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_begun(&sorted[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether an image's process was begun by the waiter, or by a descendant of it that is gone. */
static bool comes_from(const struct settling *s, size_t place, size_t waiter)
{
	int32_t pid = process_at(s, waiter)->pid;

	for (uint32_t i = 0; i < FAR; i++) {
		const struct ledger_member *member = &s->members[place];
		const uint64_t *parent = map_u64_find(s->by_serial, member->parent);

		if (process_at(s, place)->ppid == pid)
			return true;
		if (!parent || *parent >= place)
			return false;
		place = *parent;
		if (member->how != LEDGER_HOW_EXEC && process_at(s, place)->pid == pid)
			return true;
	}
	return false;
}

static void settle(struct settling *s, size_t place, const struct ledger_wait *wait)
{
	struct ledger_member *member = &s->members[place];
	const struct ledger_process *from = process_at(s, place);

	s->settled[place] = true;
	/* What went on as a program that nobody recorded is not what ended so. */
	if (member->end_code != LEDGER_UNKNOWN || member->end == LEDGER_END_EXEC ||
	    member->end == LEDGER_END_DETACHED)
		return;
	member->end = wait->by_signal ? LEDGER_END_SIGNAL : LEDGER_END_EXIT;
	member->end_code = wait->code;
	if (!from->end_ns && wait->ns > from->start_ns)
		member->duration_ns = wait->ns - from->start_ns;
}

/* What the process of an image became by its execs. */
static size_t last_image(const struct settling *s, size_t place)
{
	const struct ledger_process *from = process_at(s, place);
	size_t at = count_before(s->by_pid, s->count, from->pid, from->start_ns);

	for (; at < s->count && s->by_pid[at].id == from->pid; at++) {
		size_t next = s->by_pid[at].place;

		if (s->members[next].how == LEDGER_HOW_EXEC &&
		    s->members[next].parent == process_at(s, place)->serial)
			place = next;
	}
	return place;
}

/* The first process of a pid namespace has another pid for who waits for it than for itself,
 * and sees no parent. */
static void settle_first_of_namespace(struct settling *s, const struct noted *noted)
{
	uint32_t waiter = process_at(s, noted->waiter)->serial;
	size_t at = count_before(s->by_ppid, s->count, 0, 0), found = s->count;

	for (uint32_t i = 0; i < FAR && at < s->count && s->by_ppid[at].id == 0; i++, at++) {
		size_t place = s->by_ppid[at].place;

		if (s->by_ppid[at].ns > noted->wait.ns)
			break;
		if (s->members[place].parent != waiter ||
		    s->members[place].how == LEDGER_HOW_EXEC || s->settled[last_image(s, place)])
			continue;
		if (found != s->count)
			return;
		found = place;
	}
	if (found != s->count)
		settle(s, last_image(s, found), &noted->wait);
}

/* The last image of a pid before the wait; settled already = the wait was for another. One that
 * seems to run is it if no other can be: either a process of another pid namespace runs by
 * that pid, or it began before the wait was noted. */
static void settle_pid(struct settling *s, const struct noted *noted, int32_t pid)
{
	size_t at = count_before(s->by_pid, s->count, pid, noted->wait.ns), runs = s->count;

	for (uint32_t i = 0; i < FAR && at-- > 0 && s->by_pid[at].id == pid; i++) {
		size_t place = s->by_pid[at].place;

		bool is_earlier_image =
			runs != s->count && s->members[place].end == LEDGER_END_EXEC;

		if (is_earlier_image || !comes_from(s, place, noted->waiter))
			continue;
		if (s->settled[place] && runs == s->count)
			return;
		if (!s->settled[place] && s->members[place].end != LEDGER_END_RUNNING) {
			settle(s, place, &noted->wait);
			return;
		}
		if (!s->settled[place] && runs == s->count)
			runs = place;
	}
	if (runs != s->count)
		settle(s, runs, &noted->wait);
	else
		settle_first_of_namespace(s, noted);
}

/* Whether a process began as "sh -c COMMAND" or, by newer C libraries, "sh -c -- COMMAND". */
static bool is_shell(const struct ledger_process *process, int32_t hash)
{
	static const char shell[] = "sh\0-c", rest[] = "--";
	const char *text = process->argv.bytes;
	size_t length = process->argv.length;

	if (length < sizeof(shell) || memcmp(text, shell, sizeof(shell)) != 0)
		return false;
	text += sizeof(shell);
	length -= sizeof(shell);
	if (length > sizeof(rest) && memcmp(text, rest, sizeof(rest)) == 0) {
		text += sizeof(rest);
		length -= sizeof(rest);
	}
	return mgl_command_hash(text, strnlen(text, length)) == hash;
}

/* The shells that a call of system(3) can have started, not more than two of them. */
static size_t find_shells(const struct settling *s, const struct noted *noted, size_t *ret)
{
	int32_t parent = process_at(s, noted->waiter)->pid;
	size_t at = count_before(s->by_ppid, s->count, parent, noted->wait.since);
	size_t found = 0;

	for (uint32_t i = 0; at < s->count && s->by_ppid[at].id == parent && found < 2; i++, at++) {
		size_t place = s->by_ppid[at].place;

		if (s->by_ppid[at].ns > noted->wait.ns)
			break;
		if (i == FAR_SHELLS)
			return 2;
		if (s->told[place] || s->members[place].how == LEDGER_HOW_EXEC ||
		    !is_shell(process_at(s, place), -noted->wait.pid))
			continue;
		if (found++ == 0)
			*ret = place;
	}
	return found;
}

/* Calls at one time of one command, which all ended alike: any is the other's. */
static bool is_any(const struct settling *s, const struct noted *noted)
{
	for (size_t i = 0; i < s->noted.count; i++) {
		const struct noted *other = &s->noted.items[i];

		if (!other->done && other->waiter == noted->waiter &&
		    other->wait.pid == noted->wait.pid &&
		    (other->wait.code != noted->wait.code ||
		     other->wait.by_signal != noted->wait.by_signal))
			return false;
	}
	return true;
}

/* true: something is known now that was not. */
static bool settle_shells(struct settling *s, bool any)
{
	bool told = false;

	for (size_t i = 0; i < s->noted.count; i++) {
		struct noted *noted = &s->noted.items[i];
		size_t place = 0, found;

		if (noted->done || noted->wait.pid > 0)
			continue;
		found = find_shells(s, noted, &place);
		if (found == 0 || (found > 1 && !(any && is_any(s, noted))))
			continue;
		noted->done = told = true;
		s->told[place] = true;
		settle(s, last_image(s, place), &noted->wait);
	}
	return told;
}

static void settle_all(struct settling *s)
{
	for (size_t i = 0; i < s->noted.count; i++)
		if (s->noted.items[i].wait.pid > 0)
			settle_pid(s, &s->noted.items[i], s->noted.items[i].wait.pid);
	for (uint32_t pass = 0; pass < PASSES && settle_shells(s, false); pass++)
		;
	settle_shells(s, true);
}

static struct error *gather(struct settling *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct ledger_process *from = process_at(s, i);

		s->by_pid[i] = (struct begun){from->pid, from->start_ns, i};
		s->by_ppid[i] = (struct begun){from->ppid, from->start_ns, i};
		for (size_t j = 0; j < from->wait_count; j++)
			TRY(vector_push(&s->noted, ((struct noted){from->waits[j], i, false})));
	}
	return NULL;
}

struct error *ledger_family_settle(struct ledger_reader *reader, struct ledger_family *family,
				   const struct map_u64 *by_serial)
{
	struct settling s = {
		.reader = reader,
		.members = family->members,
		.by_serial = by_serial,
		.noted = VECTOR_EMPTY,
		.by_pid = calloc(family->count + 1, sizeof(struct begun)),
		.by_ppid = calloc(family->count + 1, sizeof(struct begun)),
		.settled = calloc(family->count + 1, sizeof(bool)),
		.told = calloc(family->count + 1, sizeof(bool)),
		.count = family->count,
	};
	struct error *error =
		s.by_pid && s.by_ppid && s.settled && s.told ? gather(&s) : error_no_memory();

	if (!error && s.noted.count) {
		qsort(s.by_pid, s.count, sizeof(*s.by_pid), compare_begun);
		qsort(s.by_ppid, s.count, sizeof(*s.by_ppid), compare_begun);
		qsort(s.noted.items, s.noted.count, sizeof(*s.noted.items), compare_noted);
		settle_all(&s);
	}
	vector_free(&s.noted);
	free(s.by_pid);
	free(s.by_ppid);
	free(s.settled);
	free(s.told);
	return error;
}
