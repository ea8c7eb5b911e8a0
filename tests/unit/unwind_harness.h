/*
 * The unwinder in a shared library of its own, as the agent is, with stand-ins for the
 * rest of the agent: a test sees the frames that would be entered in the trie.
 */
#ifndef UNWIND_HARNESS_H
#define UNWIND_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"

#define HARNESS_FRAMES 4096

struct harness_stack {
	size_t count;
	struct mgl_node frame[HARNESS_FRAMES]; /* innermost first; parent is not set */
};

/* The hook: unwinds its caller. */
void harness_hook(struct harness_stack *ret);
/* The same for registers of the caller's choice, and for a call that a signal interrupts
 * in the library: during() runs in the middle. */
void harness_unwind(const struct unwind_regs *regs, struct harness_stack *ret);
void harness_during(void (*during)(void));
/* Unwinds its caller n times with a trie that costs nothing; returns the last node. */
uint32_t harness_repeat(uint32_t n);

/* What this thread's stacks have cost so far: those walked whole, and frames looked up in the
 * trie. */
struct harness_effort {
	uint32_t whole;
	uint32_t entered;
};
struct harness_effort harness_effort(void);

void harness_unloaded(void);
/* The module of a node of this index, NULL = none. */
const struct mgl_module *harness_module(uint32_t index);
const char *harness_module_path(const struct mgl_module *module);
uint64_t harness_cut_stacks(void);
uint32_t harness_generation(void);
/* For threads that start from now on: frames kept. 0 = the default. */
void harness_depth(uint32_t frames);
/* No system calls from now on. */
void harness_freeze(bool frozen);
/* As a child of fork does. */
void harness_reset(void);

#endif
