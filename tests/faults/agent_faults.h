/*
 * Included before everything in an agent built for tests: system calls that fail when told to.
 * FAULT_AGENT=NAME:N refuses the N-th call of that name which an agent of the process makes,
 * NAME:N+ that one and all after it. The first refusal is told on standard error, so that a
 * test knows when there are no more to be had.
 */
#ifndef MALLOGRAPH_TESTS_AGENT_FAULTS_H
#define MALLOGRAPH_TESTS_AGENT_FAULTS_H

#ifndef __ASSEMBLER__

#include <stdbool.h>

#include "agent/syscall.h"

/* agent_faults.c. Threads: any. */
bool fault_refused(const char *name);

#define FAULT(name, call)     (fault_refused(name) ? -12 /* ENOMEM */ : (call))
#define FAULT_MAP(name, call) (fault_refused(name) ? (void *)-12 : (call))

#define sys_mmap(...)         FAULT_MAP("mmap", (sys_mmap)(__VA_ARGS__))
#define sys_mremap(...)       FAULT_MAP("mremap", (sys_mremap)(__VA_ARGS__))
#define sys_munmap(...)       FAULT("munmap", (sys_munmap)(__VA_ARGS__))
#define sys_mprotect(...)     FAULT("mprotect", (sys_mprotect)(__VA_ARGS__))
#define sys_madvise(...)      FAULT("madvise", (sys_madvise)(__VA_ARGS__))
#define sys_open(...)         FAULT("open", (sys_open)(__VA_ARGS__))
#define sys_read(...)         FAULT("read", (sys_read)(__VA_ARGS__))
#define sys_fstat(...)        FAULT("fstat", (sys_fstat)(__VA_ARGS__))
#define sys_ftruncate(...)    FAULT("ftruncate", (sys_ftruncate)(__VA_ARGS__))
#define sys_mkdir(...)        FAULT("mkdir", (sys_mkdir)(__VA_ARGS__))
#define sys_memfd_create(...) FAULT("memfd_create", (sys_memfd_create)(__VA_ARGS__))
#define sys_readlink(...)     FAULT("readlink", (sys_readlink)(__VA_ARGS__))
#define sys_getcwd(...)       FAULT("getcwd", (sys_getcwd)(__VA_ARGS__))
#define sys_getrlimit(...)    FAULT("getrlimit", (sys_getrlimit)(__VA_ARGS__))
#define sys_prctl(...)        FAULT("prctl", (sys_prctl)(__VA_ARGS__))
#define sys_call3(n, ...)     FAULT("other", (sys_call3)(n, __VA_ARGS__))
#define sys_call6(n, ...)     FAULT("other", (sys_call6)(n, __VA_ARGS__))

#endif
#endif
