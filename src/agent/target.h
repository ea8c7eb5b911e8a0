/*
 * What an exec is about to start: can the agent be preloaded into it?
 *
 * A loader that cannot load the agent says so on stderr (32-bit) or refuses to start at
 * all (another C library), and a static program would see our variables for nothing: such
 * a program gets the environment it was given. So does one that changes ids, in which the
 * loader would ignore us, and one with a sanitizer that wants to be first.
 *
 * Ownership: none; a descriptor is open for the length of a call. Threads: any.
 * Errors: what cannot be read is taken to be loadable; exec itself will say.
 *
 * Sources: execve(2), ELF (elf.h), ld.so(8) on secure execution.
 */
#ifndef MALLOGRAPH_AGENT_TARGET_H
#define MALLOGRAPH_AGENT_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#define TARGET_ROOM 8192u

/* Whether a new program could load the agent and join the session: not after a chroot, with fewer
 * rights, where its own /dev/shm or a file system mounted noexec hides them, nor while effective
 * and real ids are different. Where environ_differs(). */
bool target_reaches(void);

/* Whether the kernel takes envp with our variables in it, beside arguments of so many bytes,
 * pointers included. Where envp differs with ours (environ.h). */
bool target_takes(char *const envp[], size_t arguments);

/* room: TARGET_ROOM bytes. dir, path and flags as for execveat. search: path, where it
 * has no slash, is looked for in PATH. */
bool target_loads_agent(int dir, const char *path, int flags, bool search, void *room);

#endif
