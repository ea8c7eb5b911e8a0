/*
 * The agent: what lives inside the target. docs/AGENT-RULES.md is its law: no libc
 * malloc, stdio, locks, threads, output; errno kept; inert on any doubt.
 *
 * Memory. Four kinds, and which one a thing lives in decides what a fork does to it:
 *   shared   the session file's pages (session.c): the ledger, read by others. In a child
 *            private zero pages are mapped over the parent's, at the child's first hook.
 *   private  anonymous memory (private_alloc): structs that point at things. A child of
 *            fork keeps its copy, for a handler that forked inside a hook returns into
 *            it; but it starts over with a struct agent and structs thread of its own.
 *   wiped    anonymous MADV_WIPEONFORK pages (private_pages): tables whose users take
 *            zeros for empty, and the gates, by which the child knows that it is one
 *   static   .data and .bss: what a child must inherit (real functions, the session)
 *
 * Threads. A hook enters with thread_enter(), which gives it a struct thread that
 * nobody else uses until thread_leave(). Everything that takes a struct thread may
 * write its members plainly. Nothing here waits for another thread.
 *
 * Errors. bool or a zero ref: the caller drops what it was about to record and counts
 * it; agent_go_inert() ends recording for good.
 */
#ifndef MALLOGRAPH_AGENT_AGENT_H
#define MALLOGRAPH_AGENT_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/layout.h"

#define AGENT_EXPORT __attribute__((visibility("default")))
#define AGENT_COLD   __attribute__((cold, noinline))
#define AGENT_HOT    inline __attribute__((always_inline)) /* a part of a hot path */
/* Among the small variables, which share a page. */
#define AGENT_SMALL       __attribute__((aligned(8)))
#define AGENT_LIKELY(x)   __builtin_expect(!!(x), 1)
#define AGENT_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Plain loads and stores of the ledger's single-writer atomics. */
#define LEDGER_GET(field)    atomic_load_explicit(&(field), memory_order_relaxed)
#define LEDGER_SET(field, v) atomic_store_explicit(&(field), (v), memory_order_relaxed)
#define LEDGER_ADD(field, v) LEDGER_SET(field, LEDGER_GET(field) + (v))

/* The registers of the program's frame that called the hook: its return address into
 * that frame, the stack pointer after the call returned (the hook's CFA), and rbp. */
struct unwind_regs {
	uint64_t pc;
	uint64_t sp;
	uint64_t bp;
};

struct agent;
struct chain;
struct unwind_state;
struct row_index;

/* A stack as the unwinder knows it. */
struct unwind_site {
	uint64_t row[2]; /* rows it was counted in last: rows.h's, 0 = none */
	uint32_t node;   /* 0 = the trie has no room at all */
	uint32_t bp;     /* unwind_memo's */
};

/* The block a thread allocated last and has not freed since. */
struct last {
	uintptr_t block; /* 0 = none */
	uint64_t word;   /* its shadow word, */
	_Atomic uint64_t *at;
	struct mgl_row *row; /* and what it names */
	uint64_t size;
};

/* A thread's share of the agent, or a nested handler's. Private memory, but for its gate,
 * which lies GATE_DISTANCE below it in wiped pages (gate_of()). */
struct thread {
	/* Of the process, constant: what the hot path would otherwise reach by two loads. */
	struct mgl_process *process;
	_Atomic(_Atomic(_Atomic uint64_t *) *) *shadow_top;
	uint8_t **units;
	uint32_t granule_shift;
	uint32_t start_mask; /* of an address, where its block starts in its granule */

	uint32_t slot_ref;
	struct mgl_slot *slot;
	uintptr_t idle; /* what the gate holds between hooks: GATE_READY or GATE_OFF */

	uint64_t number;     /* next allocation number of the batch */
	uint32_t birth_base; /* the batch's birth is this + (number >> birth_shift) */
	uint32_t birth_shift;
	int64_t held_least; /* slot->delta is kept back from here on, for gate_held_width() values */
	struct last last;

	struct row_index *rows;
	struct unwind_state *unwind; /* unwind.c's; NULL until first used */
	struct unwind_site site;     /* the present stack's, where nothing else is known of it */
	struct agent *agent;         /* the process this thread records for */

	uint8_t *records;      /* own bump space: small records from below, */
	uint8_t *records_stop; /* rows from above */
	uint32_t records_bias; /* ref = address / MGL_REF_BYTES + this, modulo 2^32 */
	uint32_t records_next; /* bytes to take next time */

	uint64_t *shadow_page; /* own populated shadow pages not yet in use */
	uint32_t shadow_pages;
	uint32_t shadow_run;
	_Atomic uint64_t *shadow_directory; /* their directory entries */

	uint64_t refill_ns;    /* when the batch was taken */
	uint32_t batch;        /* its length */
	struct thread *nested; /* serves handlers that interrupt this one's hooks */
	struct chain *chain;   /* chain.c's; NULL until a hook found this gate busy */
	struct thread *next;   /* all threads of the process, newest first */
};

/* A gate holds 0 in a child of fork (and before the thread's first hook), GATE_READY,
 * GATE_OFF, or the CFA of the hook that is running | phase. */
#define GATE_READY ((uintptr_t)1)
#define GATE_AGENT ((uintptr_t)2) /* phase: agent code */
#define GATE_REAL  ((uintptr_t)4) /* phase: inside the real function */
#define GATE_OFF   ((uintptr_t)8) /* recording ended for good */

/* --- private.c: anonymous memory ------------------------------------------------ */

/* Zeroed, never given back, 16-byte aligned; a child of fork has its copy. NULL = refused. */
void *private_alloc(size_t bytes);
/* Zeroed, for tables, 64-byte aligned; zero again in a child of fork. NULL = refused. */
void *private_pages(size_t bytes);
/* The same, but a child of fork has its copy: what a hook reads in pieces, and could not read
 * half of as zeros. */
void *private_pages_kept(size_t bytes);
/* Gives the memory back, not the addresses. */
void private_pages_free(void *pages, size_t bytes);

/* --- records.c: space in the shared file ------------------------------------------------- */

/* Populated record space. The pointer stays valid for the life of the process. */
void *record_alloc(struct thread *t, size_t bytes, uint32_t *ref); /* 16-byte aligned */
void *record_alloc_row(struct thread *t, uint32_t *ref);           /* a struct mgl_row */
/* A blob of bytes; 0 = empty or no room. */
uint32_t record_blob(struct thread *t, const void *data, size_t bytes);
/* NULL where the ref is not inside the record space of t's process. */
void *record_at(const struct thread *t, uint32_t ref);

/* --- agent.c --------------------------------------------------------------------- */

extern struct mgl_process *agent_process; /* use between thread_enter() and _leave() only */

void agent_go_inert(enum mgl_inert why);
void agent_count_loss(enum mgl_loss kind, uint64_t count);
/* Of a program that a child would execute, with or without a ledger of its own. */
void agent_name_missed(const char *path);
/* The same with a name; the first one stays. */
void agent_name_loss(struct thread *t, enum mgl_loss kind, const char *detail, size_t bytes);
uint64_t agent_now(void); /* CLOCK_MONOTONIC, ns */

/* --- thread.c --------------------------------------------------------------------- */

/* For hooks off the hot path (mmap, exec, dlclose …). NULL: do not record this call.
 * cfa is the hook's own, __builtin_dwarf_cfa(). */
struct thread *thread_enter(uintptr_t cfa);
void thread_leave(struct thread *t);
/* Around a call of the real function: calls it makes are its own business. */
void thread_real_begin(struct thread *t);
void thread_real_end(struct thread *t);

/* --- trie.c ----------------------------------------------------------------------- */

/* The child of parent (0 = the root) with this frame, made if new. where as in
 * mgl_node. 0 = no room: the caller returns the deepest node it has, cut. */
uint32_t trie_child(struct thread *t, uint32_t parent, uint64_t pc, uint32_t where);
/* Children of this node are about to be looked for. */
void trie_ahead(const struct thread *t, uint32_t parent);

/* --- unwind.c ---------------------------------------------------------------------- */

/* The stack whose innermost frame regs describes, until t's next call. One that could not be
 * walked to its root has an MGL_NODE_CUT node as its outermost (counted as
 * MGL_LOSS_CUT_STACKS). */
struct unwind_site *unwind_stack(struct thread *t, const struct unwind_regs *regs);
/* Another thread owns t now: nothing is known of its stack. */
void unwind_forget(struct thread *t);

/* --- module.c ----------------------------------------------------------------------- */

/* Index for mgl_node.where of the module that maps pc now, recorded at first sight;
 * 0 = none. */
uint32_t module_of(struct thread *t, uint64_t pc);
/* Record what is loaded now; the process's first thread calls it once. */
void module_record_all(struct thread *t);
/* A dlclose returned: whatever was unloaded ends its generation, rules and memos go. */
void module_unloaded(struct thread *t);
/* In a child of fork, before module_record_all: forget tables and indexes of the parent's
 * ledger (they stay where they are: an interrupted hook may return into them). */
void module_reset(void);

#endif
