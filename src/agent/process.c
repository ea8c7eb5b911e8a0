/*
 * A process image's recording: its start, its losses, its end.
 *
 * The process gate is a word in a wiped page: a child of fork reads 0 there and starts a
 * ledger of its own at its first hook. It inherits the joined session by its mappings,
 * covers the parent's extents with private zero pages (an interrupted hook may return into
 * them), and leaves the parent's private structs where they are.
 */
#include <string.h>
#include <sys/auxv.h>

#include "agent/choice.h"
#include "agent/core.h"
#include "agent/environ.h"
#include "agent/inherited.h"
#include "agent/inner.h"
#include "agent/program_path.h"
#include "agent/real.h"
#include "agent/sessionfile.h"
#include "agent/shadow.h"
#include "agent/syscall.h"

#define ARGUMENTS_MAX 65536u

bool agent_starting;
struct agent *agent_current;
struct mgl_process *agent_process;

static _Atomic uint32_t *process_gate;
static _Atomic bool process_gate_making;
static _Atomic uint64_t early_calls;
static enum mgl_inert start_refused; /* what a process went inert of last */
static uint32_t origin;
static int32_t own_pid; /* of who started this process's recording, or found that it does not */

/* The arguments as the kernel laid them out, for children too. */
static const char *arguments;
static size_t arguments_bytes;

static char scratch[4096]; /* for paths; used while a process starts only */

/* ld.so's: where the kernel put argc, the arguments and the environment. */
extern void *__libc_stack_end;

/* --- losses ------------------------------------------------------------------------- */

void agent_count_loss(enum mgl_loss kind, uint64_t count)
{
	if (agent_process)
		atomic_fetch_add_explicit(&agent_process->losses[kind], count,
					  memory_order_relaxed);
}

/* A thread that is new where no call is allowed any more has a process that records. */
void agent_count_early(void)
{
	if (agent_frozen && agent_process)
		agent_count_loss(MGL_LOSS_EARLY_CALLS, 1);
	else
		atomic_fetch_add_explicit(&early_calls, 1, memory_order_relaxed);
}

/* A child of fork has a process gate of 0, and the ledger is not its own. */
AGENT_COLD void *agent_missed(void *made)
{
	if (made && (atomic_load(gate_of(thread_own())) & GATE_OFF) && process_gate &&
	    atomic_load(process_gate) == PROCESS_RECORDS &&
	    LEDGER_GET(agent_process->inert) != MGL_INERT_DETACHED)
		agent_count_loss(MGL_LOSS_UNRECORDED, 1);
	return made;
}

void agent_name_missed(const char *path)
{
	struct mgl_process *p = agent_process;
	size_t place = MGL_PROCESS_OFFSET + offsetof(struct mgl_process, missed_name);
	uint64_t ref = place / MGL_REF_BYTES, none = 0;
	size_t n = strlen(path);

	agent_count_loss(MGL_LOSS_MISSED_PROCESS, 1);
	/* Whoever is first has the room, and tells how much of it is used when it is. */
	if (!p || !atomic_compare_exchange_strong(&p->loss_detail[MGL_LOSS_MISSED_PROCESS], &none,
						  ref << 32))
		return;
	if (n > sizeof(p->missed_name)) {
		path += n - sizeof(p->missed_name);
		n = sizeof(p->missed_name);
	}
	memcpy(p->missed_name, path, n);
	atomic_store(&p->loss_detail[MGL_LOSS_MISSED_PROCESS], ref << 32 | n);
}

void agent_name_loss(struct thread *t, enum mgl_loss kind, const char *detail, size_t bytes)
{
	struct mgl_process *p = t->agent->process;

	agent_count_loss(kind, 1);
	if (atomic_load(&p->loss_detail[kind]) || bytes > sizeof(scratch))
		return;
	uint64_t ref = record_blob(t, detail, bytes);
	uint64_t expected = 0;

	if (ref)
		atomic_compare_exchange_strong(&p->loss_detail[kind], &expected, ref << 32 | bytes);
}

void agent_go_inert(enum mgl_inert why)
{
	struct mgl_process *p = agent_process;
	uint32_t none = MGL_INERT_NONE;

	start_refused = why;
	if (!p || !agent_current)
		return;
	agent_current->inert = true;
	if (!atomic_compare_exchange_strong(&p->inert, &none, why))
		return;
	p->inert_number = LEDGER_GET(p->next_number);
	p->inert_ns = agent_now();
}

/* --- start --------------------------------------------------------------------------- */

static void arguments_find(void)
{
	char **argv = (char **)__libc_stack_end + 1;
	long argc = *(long *)__libc_stack_end;

	if (argc < 1 || !argv[0])
		return;
	const char *last = argv[argc - 1];
	size_t bytes = (size_t)(last - argv[0]) + strlen(last) + 1;

	arguments = argv[0];
	arguments_bytes = last < argv[0] || bytes > ARGUMENTS_MAX ? strlen(argv[0]) + 1 : bytes;
}

static uint32_t scratch_blob(struct thread *t, long bytes, uint32_t *recorded)
{
	if (bytes <= 0 || (size_t)bytes > sizeof(scratch))
		return 0;
	uint32_t ref = record_blob(t, scratch, (size_t)bytes);

	*recorded = ref ? (uint32_t)bytes : 0;
	return ref;
}

static void describe(struct thread *t, struct mgl_process *p)
{
	const char *allocator = real_facts.malloc_path;
	long n = program_path(scratch, sizeof(scratch));

	p->exe = scratch_blob(t, n, &p->exe_bytes);
	n = sys_getcwd(scratch, sizeof(scratch));
	p->cwd = scratch_blob(t, n - 1, &p->cwd_bytes); /* the kernel counts the NUL */
	p->argv = record_blob(t, arguments, arguments_bytes);
	p->argv_bytes = p->argv ? (uint32_t)arguments_bytes : 0;
	p->allocator = record_blob(t, allocator, strlen(allocator));
	p->allocator_bytes = p->allocator ? (uint32_t)strlen(allocator) : 0;
	inner_tell(t);
}

/* In the session's header, since this process gets no ledger to say it in. */
static void missed_note(void)
{
	static const char *const reasons[MGL_INERT_COUNT] = {
		[MGL_INERT_LEDGER_LIMIT] = " (limit for the ledger)",
		[MGL_INERT_FILE_FULL] = " (no room left)",
		[MGL_INERT_NO_MEMORY] = " (no memory)",
	};
	struct mgl_session *head = session_head();
	const char *reason = reasons[start_refused];

	if (!head || atomic_fetch_add(&head->missed, 1) != 0)
		return;
	sys_prctl(16 /* PR_GET_NAME */, (unsigned long)head->missed_first);
	if (reason)
		memcpy(head->missed_first + strlen(head->missed_first), reason, strlen(reason));
}

static struct agent *agent_make(void)
{
	struct agent *a = private_alloc(sizeof(*a));

	if (!a)
		return NULL;
	a->units = private_pages((MGL_MAX_RECORD_UNITS + 1) * sizeof(a->units[0]));
	a->records_size = 1;
	a->granule_shift =
		real_facts.glibc_malloc && !real_facts.library_new && !inner_is_used ? 5 : 3;
	a->pid = own_pid;
	a->serial = atomic_fetch_add(&session_head()->next_process, 1);
	if (!a->units || !trie_start(a) || !shadow_start(a))
		return NULL;
	struct extent *first = session_take_extent(a, MGL_EXTENT_RECORDS, 1);

	if (!first)
		return NULL;
	a->records = first;
	a->process = (struct mgl_process *)(first->base + MGL_PROCESS_OFFSET);
	return a;
}

static bool recording_start(enum mgl_how how, uint32_t parent, uint64_t starttime)
{
	agent_current = NULL;
	agent_process = NULL;
	struct agent *a = agent_make();

	if (!a) {
		missed_note();
		return false;
	}
	struct mgl_process *p = a->process;

	p->serial = a->serial;
	p->parent = parent;
	p->how = how;
	p->pid = a->pid;
	p->ppid = sys_getppid();
	p->start_ns = agent_now();
	p->starttime = starttime;
	p->granule_shift = a->granule_shift;
	p->main_thread = (uint32_t)sys_gettid();
	p->sample_period = 1;
	p->next_number = 1;
	agent_current = a;
	agent_process = p;
	struct thread *t = thread_make(a, 0);

	if (!t)
		return false;
	p->losses[MGL_LOSS_EARLY_CALLS] = atomic_exchange(&early_calls, 0);
	describe(t, p);
	module_record_all(t);
	atomic_thread_fence(memory_order_release);
	p->magic = MGL_PROCESS_MAGIC;
	p->state = MGL_STATE_RUNNING;
	thread_own_set(t);
	gate_set(t, GATE_READY);
	origin = p->serial;
	return true;
}

/* By the name of its file, or that by which it was executed: a link's, or a script's. */
static bool is_chosen(void)
{
	const char *called = (const char *)getauxval(AT_EXECFN);

	if (!choice_asks())
		return true;
	long n = program_path(scratch, sizeof(scratch) - 1);

	scratch[n > 0 ? n : 0] = 0;
	return choice_admits(scratch, called ? called : "");
}

static bool left_out;

/* Its children may be recorded all the same. */
static bool leave_out(void)
{
	left_out = true;
	choice_left_out(1);
	return false;
}

static bool first_start(void)
{
	enum mgl_how how = MGL_HOW_ROOT;

	arguments_find();
	if (!real_resolve())
		return false;
	environ_scrub(real_agent_path());
	environ_origin(&how, &origin);
	if (!session_join())
		return false;
	environ_set(ENVIRON_CHOICE, NULL); /* the session has it */
	environ_set(ENVIRON_SESSION, sessionfile_path()[0] ? sessionfile_path() : NULL);
	choice_read(session_head());
	bool chosen = is_chosen();

	/* What was executed is known by who did that: /proc takes longer than all else here. */
	uint64_t starttime = how == MGL_HOW_ROOT ? sessionfile_starttime() : 0;

	if (chosen)
		inner_start();
	if (chosen && !recording_start(how, origin, starttime))
		return false;
	environ_follow();
	return chosen || leave_out();
}

/* An interrupted hook that goes on in the parent's ledger must not take it new extents. */
static bool parent_leave(void)
{
	agent_current->inert = true;
	return session_leave_parent();
}

void process_leave_parent(void)
{
	if (process_gate && atomic_load(process_gate) == 0 && agent_current)
		parent_leave();
}

static bool child_start(void)
{
	uint32_t parent = agent_current->serial;
	bool left = parent_leave();

	agent_process = NULL;
	if (!left) {
		start_refused = MGL_INERT_NO_MEMORY;
		missed_note();
		return false;
	}
	if (!choice_follows()) {
		agent_current = NULL;
		environ_unfollow();
		return leave_out();
	}
	session_reserve();
	inherited_begin();
	private_reset();
	module_reset();
	return recording_start(MGL_HOW_FORK, parent, 0);
}

/* A child of a process that records nothing: not chosen, or not able to. */
static bool child_of_none(void)
{
	if (left_out)
		return leave_out();
	missed_note();
	return false;
}

static bool gate_make(void)
{
	if (atomic_exchange(&process_gate_making, true))
		return false;
	process_gate = private_pages(MGL_PAGE);
	return process_gate != NULL;
}

enum process_started process_start(void)
{
	uint32_t is = 0;

	if (!process_gate && !gate_make())
		return PROCESS_BUSY;
	if (!atomic_compare_exchange_strong(process_gate, &is, PROCESS_BUSY))
		return (enum process_started)is;
	/* A child of a process that records nothing records nothing. */
	static bool started;
	bool child = started;

	started = true;
	own_pid = sys_getpid();
	agent_starting = true;
	bool records = !child ? first_start() : agent_current ? child_start() : child_of_none();

	agent_starting = false;
	is = records ? PROCESS_RECORDS : PROCESS_STOPPED;
	atomic_store(process_gate, is);
	return (enum process_started)is;
}

/* Anywhere but in a child of fork before its first hook. */
static bool is_started(void) { return process_gate && atomic_load(process_gate) != 0; }

struct agent *process_recorder(uintptr_t cfa)
{
	struct thread *t = is_started() || agent_frozen ? NULL : thread_enter(cfa);

	if (t)
		thread_leave(t);
	if (agent_frozen || !is_started() || atomic_load(process_gate) != PROCESS_RECORDS)
		return NULL;
	struct agent *a = agent_current;

	return a && !a->inert && a->pid == sys_getpid() ? a : NULL;
}

uint32_t process_origin(void) { return origin; }

enum mgl_how process_exec_how(void)
{
	if (!is_started())
		return MGL_HOW_SPAWN;
	return agent_frozen || own_pid == sys_getpid() ? MGL_HOW_EXEC : MGL_HOW_VFORK;
}

__attribute__((constructor)) static void agent_load(void)
{
	/* The small variables' page: loaded from before it is stored to, it would fault twice. */
	atomic_fetch_add(&early_calls, 0);

	struct thread *t = thread_enter((uintptr_t)__builtin_dwarf_cfa());

	if (t)
		thread_leave(t);
}

__attribute__((destructor)) static void agent_unload(void)
{
	struct mgl_process *p = agent_process;

	if (p && agent_current->pid == sys_getpid())
		p->state = MGL_STATE_FINISHED;
}
