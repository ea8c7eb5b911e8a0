/*
 * Raw system calls, x86-64. The agent never calls libc's wrappers: they set errno, and
 * some of them are functions it interposes. Each returns the kernel's own result, a
 * negative errno on failure.
 *
 * Every call the agent can make after its start stands in AGENT_SYSCALLS, which
 * hooks_seccomp.c checks a filter against.
 *
 * Source: System V ABI, AMD64 supplement, A.2.1 (registers of the kernel interface).
 */
#ifndef MALLOGRAPH_AGENT_SYSCALL_H
#define MALLOGRAPH_AGENT_SYSCALL_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#if !defined(__x86_64__)
#error "mallograph's agent knows x86-64 only"
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Made by growth, thread start and unwinding; opening the session is before any filter. */
#define AGENT_SYSCALLS(X)     \
	X(SYS_mmap)           \
	X(SYS_munmap)         \
	X(SYS_mremap)         \
	X(SYS_mprotect)       \
	X(SYS_madvise)        \
	X(SYS_rt_sigprocmask) \
	X(SYS_tgkill)         \
	X(SYS_gettid)         \
	X(SYS_getpid)         \
	X(SYS_getppid)        \
	X(SYS_prctl)          \
	X(SYS_readlink)       \
	X(SYS_getcwd)         \
	X(SYS_sigaltstack)

static inline long sys_call6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long sys_call3(long n, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(n), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

/* A result that is an address: errors are the top 4095 values. */
static inline int sys_failed(const void *p) { return (uintptr_t)p > (uintptr_t)-4096; }

static inline void *sys_mmap(void *at, size_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	return (void *)sys_call6(SYS_mmap, (long)at, (long)bytes, prot, flags, fd, (long)offset);
}

/* Not among AGENT_SYSCALLS: only where no filter is. */
static inline long sys_munlock(void *at, size_t bytes)
{
	return sys_call3(SYS_munlock, (long)at, (long)bytes, 0);
}

static inline long sys_munmap(void *at, size_t bytes)
{
	return sys_call3(SYS_munmap, (long)at, (long)bytes, 0);
}

static inline void *sys_mremap(void *at, size_t old_bytes, size_t new_bytes, int flags)
{
	return (void *)sys_call6(SYS_mremap, (long)at, (long)old_bytes, (long)new_bytes, flags, 0,
				 0);
}

static inline long sys_mprotect(void *at, size_t bytes, int prot)
{
	return sys_call3(SYS_mprotect, (long)at, (long)bytes, prot);
}

static inline long sys_madvise(void *at, size_t bytes, int advice)
{
	return sys_call3(SYS_madvise, (long)at, (long)bytes, advice);
}

static inline long sys_sigprocmask(int how, const uint64_t *set, uint64_t *old)
{
	return sys_call6(SYS_rt_sigprocmask, how, (long)set, (long)old, 8, 0, 0);
}

static inline long sys_sigaltstack(const void *set, void *old)
{
	return sys_call3(SYS_sigaltstack, (long)set, (long)old, 0);
}

static inline int32_t sys_gettid(void) { return (int32_t)sys_call3(SYS_gettid, 0, 0, 0); }
static inline int32_t sys_getpid(void) { return (int32_t)sys_call3(SYS_getpid, 0, 0, 0); }
static inline int32_t sys_getppid(void) { return (int32_t)sys_call3(SYS_getppid, 0, 0, 0); }
static inline uint32_t sys_getuid(void) { return (uint32_t)sys_call3(SYS_getuid, 0, 0, 0); }

static inline long sys_tgkill(int32_t pid, int32_t tid, int sig)
{
	return sys_call3(SYS_tgkill, pid, tid, sig);
}

static inline long sys_prctl(int op, unsigned long a)
{
	return sys_call6(SYS_prctl, op, (long)a, 0, 0, 0, 0);
}

static inline long sys_open(const char *path, int flags, int mode)
{
	return sys_call3(SYS_open, (long)path, flags, mode);
}

static inline long sys_read(int fd, void *to, size_t bytes)
{
	return sys_call3(SYS_read, fd, (long)to, (long)bytes);
}

static inline long sys_close(int fd) { return sys_call3(SYS_close, fd, 0, 0); }

static inline long sys_fstat(int fd, void *st) { return sys_call3(SYS_fstat, fd, (long)st, 0); }

static inline long sys_ftruncate(int fd, uint64_t bytes)
{
	return sys_call3(SYS_ftruncate, fd, (long)bytes, 0);
}

static inline long sys_unlink(const char *path) { return sys_call3(SYS_unlink, (long)path, 0, 0); }

static inline long sys_mkdir(const char *path, int mode)
{
	return sys_call3(SYS_mkdir, (long)path, mode, 0);
}

static inline long sys_memfd_create(const char *name, unsigned flags)
{
	return sys_call3(SYS_memfd_create, (long)name, (long)flags, 0);
}

static inline long sys_readlink(const char *path, char *to, size_t bytes)
{
	return sys_call3(SYS_readlink, (long)path, (long)to, (long)bytes);
}

static inline long sys_getcwd(char *to, size_t bytes)
{
	return sys_call3(SYS_getcwd, (long)to, (long)bytes, 0);
}

static inline long sys_getrlimit(int what, void *limit)
{
	return sys_call3(SYS_getrlimit, what, (long)limit, 0);
}

#endif
