/*
 * What the agent's core files share: the recording process and its tables.
 *
 * One struct agent a process image that records; a child of fork makes its own and
 * leaves the parent's copy untouched, since an interrupted hook may still hold it.
 * Members marked (A) are shared by threads; the rest is set before the first thread
 * enters.
 */
#ifndef MALLOGRAPH_AGENT_CORE_H
#define MALLOGRAPH_AGENT_CORE_H

#include "agent/agent.h"

/* A mapped extent somebody can still take pages of. */
struct extent {
	uint8_t *base;
	uint32_t units;
	uint32_t pages;
	uint32_t first_ref;         /* RECORDS: ref of base */
	_Atomic uint32_t next_page; /* (A) */
};

struct trie_table {
	uint64_t mask;
	_Atomic uint32_t count;  /* (A) */
	_Atomic uint64_t *slots; /* (A) hash << 32 | ref of the node; 0 = empty */
};

struct agent {
	struct mgl_process *process;
	struct mgl_extent *first_extent;
	uint32_t serial;
	int32_t pid;

	uint8_t **units;                  /* record space: where each unit is mapped; wiped pages */
	_Atomic uint32_t record_units;    /* (A) */
	_Atomic bool header_taken;        /* (A) what its page has behind the process's header */
	_Atomic(struct extent *) records; /* (A) */
	_Atomic(struct extent *) shadow;  /* (A) */
	_Atomic uint32_t records_size, shadow_size; /* (A) units of the next extent */

	_Atomic(struct trie_table *) trie; /* (A) */
	_Atomic bool trie_growing;         /* (A) */

	_Atomic(_Atomic(_Atomic uint64_t *) *) *shadow_top; /* (A) wiped pages, two levels */
	uint32_t granule_shift;

	_Atomic(struct thread *) threads;  /* (A) newest first */
	_Atomic(struct thread *) adoption; /* (A) where the next search starts */
	_Atomic uint32_t many;             /* (A) slots beyond the first exist */
	_Atomic uint64_t step;             /* (A) see account_step_set() */
	_Atomic uint64_t largest_step;     /* (A) since there are many */
	_Atomic uint64_t drift;            /* (A) see account_settle() */

	_Atomic bool time_busy;     /* (A) try-flag of the time table */
	_Atomic uint64_t time_last; /* (A) ns of the last entry */

	_Atomic bool inert; /* (A) */
};

/* The process's own; NULL before its start and where it could not start. Stale in a child
 * of fork until its first hook. */
extern struct agent *agent_current;

#define GATE_GROUP    32u
#define THREAD_STRIDE 512u
#define GATE_DISTANCE ((size_t)GATE_GROUP * THREAD_STRIDE)

/* --- private.c ------------------------------------------------------------------- */

/* GATE_DISTANCE bytes of pages that fork wipes, and as many behind them that it copies. */
void *private_gates(void);
void private_reset(void); /* in a child of fork: allocate from a fresh arena */

/* --- session.c -------------------------------------------------------------------- */

/* Set by hooks_seccomp.c: no system call any more, only what is populated. */
extern bool agent_frozen;

/* process.c's: recording is being started, by a thread that holds signals. */
extern bool agent_starting;

/* Maps the head of the session the environment names, or makes one. Idempotent. */
bool session_join(void);
struct mgl_session *session_head(void);
const struct mgl_control *session_control(void);
/* An extent of this kind, mapped, its first pages populated, its header written. */
struct extent *session_take_extent(struct agent *a, enum mgl_extent_kind kind, uint32_t units);
/* Populates pages of the session file; on failure the process has gone inert. */
bool session_populate(void *at, size_t bytes);
/* In a child of fork: private zero pages over everything of the parent's ledger. */
bool session_leave_parent(void);
/* There, while no other thread is let in: the first units of its own, in one piece. */
void session_reserve(void);
/* NULL where the ref is not inside the process's record space. */
void *agent_record_at(const struct agent *a, uint32_t ref);
/* A populated page of record space, at a moment when there may be no struct thread. */
void *record_page(struct agent *a, uint32_t *ref);
/* Before system calls are forbidden: populate what a while of recording needs. */
void session_prepare_frozen(struct thread *t);

/* --- trie.c ------------------------------------------------------------------------ */

bool trie_start(struct agent *a);

/* --- records.c --------------------------------------------------------------------- */

/* The row a shadow word names; NULL = there is none, as of a tag. Twelve bits of the word
 * index units[], so whatever the word holds, this reads nothing else. */
static AGENT_HOT struct mgl_row *row_at(const struct thread *t, uint64_t word)
{
	uint32_t number = (uint32_t)(word >> 38);
	uint8_t *unit = t->units[number >> (MGL_REF_UNIT_SHIFT - 3)];
	size_t place = number & ((1u << (MGL_REF_UNIT_SHIFT - 3)) - 1);

	return AGENT_LIKELY(unit != NULL) ? (struct mgl_row *)unit + place : NULL;
}

/* --- clock.c ----------------------------------------------------------------------- */

/* clock is a CLOCK_… of clock_gettime(2). */
uint64_t clock_ns(int clock);
/* While reading it would be punished: agent_now() stands still. false: it did already. */
bool clock_stop(void);
void clock_resume(void);
/* Takes a batch of allocation numbers and looks at the control page. false: record no
 * allocation now. */
bool number_refill(struct thread *t);
/* Enters (number, now) into the time table. */
void time_note(struct thread *t, uint64_t number, uint64_t ns);

/* --- thread.c ---------------------------------------------------------------------- */

extern struct agent_fixed {
	char gates[GATE_DISTANCE];
	/* What a thread has before its first hook: a gate that reads 0. */
	_Alignas(64) struct thread unborn;
	/* And once it is known that nothing is recorded: a gate that says so. */
	_Alignas(64) struct thread off;
} agent_fixed;

/* How far the thread's own lies from the unborn one: 0 also where the loader has not yet copied what
 * thread-local variables begin with, and resolves indirect functions of the program. */
extern _Thread_local intptr_t agent_thread_place __attribute__((tls_model("initial-exec")));

static AGENT_HOT struct thread *thread_own(void)
{
	return (struct thread *)((intptr_t)&agent_fixed.unborn + agent_thread_place);
}

static inline void thread_own_set(struct thread *t)
{
	agent_thread_place = (intptr_t)t - (intptr_t)&agent_fixed.unborn;
}

static inline _Atomic uintptr_t *gate_of(struct thread *t)
{
	return (_Atomic uintptr_t *)((char *)t - GATE_DISTANCE);
}

static AGENT_HOT void gate_set(struct thread *t, uintptr_t value)
{
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(gate_of(t), value, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Beside the gate, set for good: 0 tells a child of fork whatever its gate says by now. */
static inline _Atomic uintptr_t *gate_own(struct thread *t) { return gate_of(t) + 1; }

/* Beside these, for the hot path reads them anyway, and a child of fork, who reads 0, is so led
 * off it: one past the batch's last number; how many values of slot->delta are kept back from
 * held_least on, 0 = not worked out. */
static inline uint64_t *gate_number_stop(const struct thread *t)
{
	return (uint64_t *)((uintptr_t)t - GATE_DISTANCE) + 2;
}

static inline uint64_t *gate_held_width(const struct thread *t)
{
	return (uint64_t *)((uintptr_t)t - GATE_DISTANCE) + 3;
}

/* A struct thread for a new thread, handler level or process. */
struct thread *thread_make(struct agent *a, uint32_t level);
struct thread *thread_enter_slow(struct thread *t, uintptr_t cfa);
struct thread *thread_enter_child(struct thread *t, uintptr_t cfa);
AGENT_COLD void thread_leave_parent(void);
/* This is a handler that interrupted a hook of its thread. */
bool thread_in_hook(void);

/* The way in of every hook: phase REAL, since the real function comes first. */
static AGENT_HOT struct thread *hook_enter(uintptr_t cfa)
{
	struct thread *t = thread_own();

	if (AGENT_UNLIKELY(atomic_load_explicit(gate_of(t), memory_order_relaxed) != GATE_READY))
		return thread_enter_slow(t, cfa);
	gate_set(t, cfa | GATE_REAL);
	/* A handler may have forked between these two, and this be its child. */
	if (AGENT_UNLIKELY(!atomic_load_explicit(gate_own(t), memory_order_relaxed)))
		return thread_enter_child(t, cfa);
	return t;
}

static inline void hook_phase(struct thread *t, uintptr_t cfa, uintptr_t phase)
{
	gate_set(t, cfa | phase);
}

/* Off the hot path, before anything is written that cannot be written twice. A handler may have
 * forked inside this hook by a system call that no hook saw: the child covers its parent's
 * ledger, and goes on writing to memory that nobody reads. */
static inline void hook_check_fork(struct thread *t)
{
	if (AGENT_UNLIKELY(!atomic_load_explicit(gate_own(t), memory_order_relaxed)))
		thread_leave_parent();
}

static inline void hook_leave(struct thread *t) { gate_set(t, t->idle); }

/* --- process.c --------------------------------------------------------------------- */

enum process_started {
	PROCESS_BUSY = 1, /* another thread is at it */
	PROCESS_RECORDS = 2,
	PROCESS_STOPPED = 3, /* nothing is recorded in this process */
};

/* Starts recording for this process image, once. Called with signals blocked: at the first
 * hook or the constructor, and at the first hook of a child of fork. */
enum process_started process_start(void);
/* What records this process, its ledger made now if this is a child of fork without one; NULL =
 * nothing does, as of a vfork child, whose memory is its parent's. cfa is the hook's own. */
struct agent *process_recorder(uintptr_t cfa);
/* Serial of this process's ledger, or of the next recorded one it came from; 0 = none. */
uint32_t process_origin(void);
/* What a program is to its origin that the caller would execute now: MGL_HOW_… */
enum mgl_how process_exec_how(void);
/* In a child of fork that is inside a hook of its parent's, with signals blocked: what the hook
 * still writes is nobody's. The child's first hook of its own starts recording, or has. */
void process_leave_parent(void);

/* A call that came while the process was starting. */
void agent_count_early(void);

/* What a call that hook_enter() refused has made, given back: counted where it goes
 * unrecorded because recording has ended. */
void *agent_missed(void *made);

#endif
