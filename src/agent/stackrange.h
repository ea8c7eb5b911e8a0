/*
 * Which memory may be read as stack.
 *
 * A thread's own stack (home) is known from its top down to the deepest place a walk has
 * come from: each page was proven readable once, and stays so for the thread's life. On
 * any other stack (sigaltstack, fiber) every page a walk comes to is proven in that walk:
 * its owner may have unmapped what was there before.
 *
 * A page is proven by a system call that reads eight bytes of it and does nothing else.
 * Ownership: a struct stack_map belongs to one thread. Nothing here ever faults.
 */
#ifndef MALLOGRAPH_AGENT_STACKRANGE_H
#define MALLOGRAPH_AGENT_STACKRANGE_H

#include <stdbool.h>
#include <stdint.h>

struct stack_map {
	uint64_t home_low, home_high; /* readable from low to high − 1 */
	uint64_t from;   /* elsewhere: where the run of proven pages the walk is in starts */
	uint64_t proven; /* page stack_read() proved last in this walk | 1; 0 = none */
	uint64_t thread; /* the thread pointer this map was made for */
};

/* Both libcs keep the thread descriptor's own address in its first word. */
static inline uint64_t stack_thread(void)
{
	uint64_t tp;

	__asm__("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}

/* For the calling thread; main says that it is the process's first. */
void stack_reset(struct stack_map *m, bool main);

/* Of its thread nothing is known. */
static inline void stack_forget(struct stack_map *m) { m->thread = m->home_low = m->home_high = 0; }

/* One past the last byte known readable from sp on; sp where there is none. */
uint64_t stack_high(struct stack_map *m, uint64_t sp);
/* The same, up to need if that can be, for a walk that has come to high. sure: the frames
 * so far are certain, so that a run of pages that joins home is part of it. */
uint64_t stack_extend(struct stack_map *m, uint64_t high, uint64_t need, bool sure);

/* Whether memory is readable from sp, a little below home, up to it. */
bool stack_reaches_home(const struct stack_map *m, uint64_t sp);
/* Frames known for certain lead from there into home: it starts there. */
void stack_join_home(struct stack_map *m, uint64_t sp);

/* The walk has come, frame for frame and certain, to an outermost frame at sp: whether that is
 * the thread's own stack, of which nothing was known but its top. */
void stack_join_top(struct stack_map *m, uint64_t sp);

/* On the thread's own stack, where it is known to be readable. */
static inline bool stack_is_home(const struct stack_map *m, uint64_t at)
{
	return at - m->home_low < m->home_high - m->home_low;
}

/* Eight bytes at any address. */
bool stack_read(struct stack_map *m, uint64_t at, uint64_t *ret);

/* Whether the page of this address can be read now. */
bool stack_probe(uint64_t at);

#endif
