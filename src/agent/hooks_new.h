/*
 * operator new and delete: what other hooks must tell of.
 */
#ifndef MALLOGRAPH_AGENT_HOOKS_NEW_H
#define MALLOGRAPH_AGENT_HOOKS_NEW_H

#include "agent/agent.h"

/* A module was unloaded: forget which function each caller is to reach. */
void hooks_new_forget(void);

/* Calls an operator new. Where it throws, the calling thread's hook ends in phase REAL. */
void *hooks_new_call(enum mgl_api api, void *function, size_t a, size_t b, size_t c);

#endif
