/*
 * jailed OUT JAIL CALLS: allocates, has seccomp take system calls away, allocates and frees
 * CALLS more, says its tally where it still may, and ends. JAIL is strict, or a filter:
 *   madvise, mremap, mmap    kills on that call
 *   ptrace                   kills on one nobody makes
 *   exec                     refuses execve with EPERM
 *   tsc                      no filter: rdtsc is a SIGSEGV from then on
 * and by prctl, or with "-syscall" after it by syscall(SYS_seccomp).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tally.h"

static struct tally t;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	tally_in(&t, size);
	return p;
}

static int jail(const char *how)
{
	uint32_t number = 0, verdict = SECCOMP_RET_KILL_PROCESS;
	int by_syscall = strstr(how, "-syscall") != NULL;

	if (strncmp(how, "strict", 6) == 0)
		return by_syscall ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
				  : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	if (strcmp(how, "tsc") == 0)
		return prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	if (strncmp(how, "madvise", 7) == 0)
		number = SYS_madvise;
	else if (strncmp(how, "mremap", 6) == 0)
		number = SYS_mremap;
	else if (strncmp(how, "mmap", 4) == 0)
		number = SYS_mmap;
	else if (strncmp(how, "ptrace", 6) == 0)
		number = SYS_ptrace;
	else
		verdict = SECCOMP_RET_ERRNO | EPERM, number = SYS_execve;
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	return by_syscall ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
			  : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
	static void *held[256];
	static size_t sizes[256];
	uint64_t seed = 5;
	char *arena;

	if (argc < 4)
		return 2;
	say_open(argv[1]);
	/* What malloc will need without asking the kernel. */
	arena = make(100000);
	free(arena);
	tally_out(&t, 100000);
	say_process();
	/* One that the kernel refuses leaves all as it was. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno == ENOSYS)
		return 4;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || jail(argv[2]) != 0)
		return 5;
	for (uint64_t i = number_of(argv[3]); i > 0; i--) {
		size_t k = random_below(&seed, 256);

		if (held[k]) {
			tally_out(&t, sizes[k]);
			free(held[k]);
			held[k] = NULL;
		} else {
			sizes[k] = 16 + random_below(&seed, 100);
			held[k] = make(sizes[k]);
		}
	}
	say_tally(&t);
	say_flush();
	syscall(SYS_exit, 0);
	return 6;
}
