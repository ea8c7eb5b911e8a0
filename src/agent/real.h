/*
 * The functions the program would have called without the agent.
 *
 * Found by walking the loaded modules in their order, which is that of the global scope:
 * the first definition after the agent is the one. What a module before it defines (the
 * program itself) hides the agent's, which such a wrapper alone reaches, by RTLD_NEXT.
 * Never by dlsym, which may call calloc, nor by a name private to a C library: the
 * allocator may be jemalloc, tcmalloc …
 *
 * Ownership: static data, so that a child of fork inherits it. Threads: any number may
 * resolve at once, they store the same. Errors: a function nobody defines stays NULL, but
 * for those real.c has a substitute for. Async-signal-safe; callable from the very first
 * hook, before any constructor.
 */
#ifndef MALLOGRAPH_AGENT_REAL_H
#define MALLOGRAPH_AGENT_REAL_H

#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>

#define REAL_ALLOCATOR(X)                                     \
	X(malloc, void *, (size_t))                           \
	X(free, void, (void *))                               \
	X(calloc, void *, (size_t, size_t))                   \
	X(realloc, void *, (void *, size_t))                  \
	X(reallocarray, void *, (void *, size_t, size_t))     \
	X(memalign, void *, (size_t, size_t))                 \
	X(posix_memalign, int, (void **, size_t, size_t))     \
	X(aligned_alloc, void *, (size_t, size_t))            \
	X(valloc, void *, (size_t))                           \
	X(pvalloc, void *, (size_t))                          \
	X(free_sized, void, (void *, size_t))                 \
	X(free_aligned_sized, void, (void *, size_t, size_t)) \
	X(cfree, void, (void *))

/* Alignments and sizes are size_t, a nothrow_t reference is a pointer (Itanium C++ ABI). */
#define REAL_NEW(X)                                                                   \
	X(_Znwm, void *, (size_t))                                                    \
	X(_ZnwmRKSt9nothrow_t, void *, (size_t, const void *))                        \
	X(_ZnwmSt11align_val_t, void *, (size_t, size_t))                             \
	X(_ZnwmSt11align_val_tRKSt9nothrow_t, void *, (size_t, size_t, const void *)) \
	X(_Znam, void *, (size_t))                                                    \
	X(_ZnamRKSt9nothrow_t, void *, (size_t, const void *))                        \
	X(_ZnamSt11align_val_t, void *, (size_t, size_t))                             \
	X(_ZnamSt11align_val_tRKSt9nothrow_t, void *, (size_t, size_t, const void *))

#define REAL_DELETE(X)                                                               \
	X(_ZdlPv, void, (void *))                                                    \
	X(_ZdlPvm, void, (void *, size_t))                                           \
	X(_ZdlPvRKSt9nothrow_t, void, (void *, const void *))                        \
	X(_ZdlPvSt11align_val_t, void, (void *, size_t))                             \
	X(_ZdlPvmSt11align_val_t, void, (void *, size_t, size_t))                    \
	X(_ZdlPvSt11align_val_tRKSt9nothrow_t, void, (void *, size_t, const void *)) \
	X(_ZdaPv, void, (void *))                                                    \
	X(_ZdaPvm, void, (void *, size_t))                                           \
	X(_ZdaPvRKSt9nothrow_t, void, (void *, const void *))                        \
	X(_ZdaPvSt11align_val_t, void, (void *, size_t))                             \
	X(_ZdaPvmSt11align_val_t, void, (void *, size_t, size_t))                    \
	X(_ZdaPvSt11align_val_tRKSt9nothrow_t, void, (void *, size_t, const void *))

#define REAL_SYSTEM(X)                                                                           \
	X(mmap, void *, (void *, size_t, int, int, int, off_t))                                  \
	X(mmap64, void *, (void *, size_t, int, int, int, off64_t))                              \
	X(munmap, int, (void *, size_t))                                                         \
	X(mremap, void *, (void *, size_t, size_t, int, ...))                                    \
	X(execve, int, (const char *, char *const[], char *const[]))                             \
	X(execv, int, (const char *, char *const[]))                                             \
	X(execvp, int, (const char *, char *const[]))                                            \
	X(execvpe, int, (const char *, char *const[], char *const[]))                            \
	X(fexecve, int, (int, char *const[], char *const[]))                                     \
	X(execveat, int, (int, const char *, char *const[], char *const[], int))                 \
	X(posix_spawn, int,                                                                      \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, \
	   char *const[], char *const[]))                                                        \
	X(posix_spawnp, int,                                                                     \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, \
	   char *const[], char *const[]))                                                        \
	X(fork, pid_t, (void))                                                                   \
	X(_Fork, pid_t, (void))                                                                  \
	X(wait, pid_t, (int *))                                                                  \
	X(waitpid, pid_t, (pid_t, int *, int))                                                   \
	X(waitid, int, (idtype_t, id_t, siginfo_t *, int))                                       \
	X(wait3, pid_t, (int *, int, struct rusage *))                                           \
	X(wait4, pid_t, (pid_t, int *, int, struct rusage *))                                    \
	X(pclose, int, (FILE *))                                                                 \
	X(system, int, (const char *))                                                           \
	X(popen, FILE *, (const char *, const char *))                                           \
	X(dlopen, void *, (const char *, int))                                                   \
	X(dlmopen, void *, (long, const char *, int))                                            \
	X(dlclose, int, (void *))                                                                \
	X(prctl, int, (int, ...))                                                                \
	X(syscall, long, (long, ...))

#define REAL_FUNCTIONS(X) REAL_ALLOCATOR(X) REAL_NEW(X) REAL_DELETE(X) REAL_SYSTEM(X)

struct real {
#define X(name, type, parameters) type(*name) parameters;
	REAL_FUNCTIONS(X)
#undef X
};

struct real_facts {
	bool glibc_malloc;   /* malloc is the C library's own */
	bool leak_sanitizer; /* malloc is liblsan's */
	bool library_new;    /* operator new is neither the C++ library's nor absent */
	bool own_execv;      /* another preloaded library hooks these: its own way is kept */
	bool own_execvp;
	const char *malloc_path; /* of the module that defines malloc; "" = the program */
};

extern struct real real;
extern struct real_facts real_facts;

/* Fills real and real_facts, once. false: no allocator was found. */
bool real_resolve(void);
/* What leads to from leads to to now. */
void real_replace(void *from, void *to);
/* Looks again for a function that was not there at the start (a C library's libdl). */
void *real_late(const char *name);
/* A C++ library, whose operators new and delete go through malloc and free. */
bool real_is_cpp_library(const struct link_map *map);
/* The agent's own module's path, as the loader knows it. "" before real_resolve. */
const char *real_agent_path(void);

#endif
