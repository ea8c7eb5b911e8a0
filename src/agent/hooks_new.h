/*
 * operator new and delete: what other hooks must tell of.
 */
#ifndef MALLOGRAPH_AGENT_HOOKS_NEW_H
#define MALLOGRAPH_AGENT_HOOKS_NEW_H

/* A module was unloaded: forget which function each caller is to reach. */
void hooks_new_forget(void);

#endif
