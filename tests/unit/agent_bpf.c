#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/bpf.h"
#include "agent/seccomp.h"

/* The thread sanitizer's own, which a killed one leaves behind. */
#ifdef __SANITIZE_THREAD__
#define HAS_OTHER_THREADS 1
#else
#define HAS_OTHER_THREADS 0
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NUMBER       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ARGUMENT(i)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]))
#define RETURN(k)    BPF_STMT(BPF_RET | BPF_K, (k))

static bool allows(struct sock_filter *program, size_t count)
{
	return seccomp_allows(&(struct sock_fprog){(unsigned short)count, program});
}

static void test_a_filter_for_others_is_harmless(void **state)
{
	struct sock_filter all[] = {RETURN(SECCOMP_RET_ALLOW)};
	struct sock_filter log[] = {RETURN(SECCOMP_RET_LOG)};
	struct sock_filter others[] = {
		NUMBER,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	/* No executable mappings: ours are none. */
	struct sock_filter arguments[] = {
		NUMBER,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		ARGUMENT(2),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};

	(void)state;
	assert_true(allows(all, COUNT(all)));
	assert_true(allows(log, COUNT(log)));
	assert_true(allows(others, COUNT(others)));
	assert_true(allows(arguments, COUNT(arguments)));
}

static void test_a_filter_for_one_of_ours_forbids(void **state)
{
	static const uint32_t calls[] = {SYS_madvise, SYS_mremap, SYS_mmap, SYS_tgkill, SYS_prctl};
	static const uint32_t verdicts[] = {SECCOMP_RET_KILL_PROCESS,
					    SECCOMP_RET_KILL_THREAD,
					    SECCOMP_RET_TRAP,
					    SECCOMP_RET_ERRNO | EPERM,
					    SECCOMP_RET_TRACE,
					    SECCOMP_RET_USER_NOTIF,
					    0x12340000};

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++) {
		for (size_t j = 0; j < COUNT(verdicts); j++) {
			struct sock_filter program[] = {
				NUMBER,
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1),
				RETURN(verdicts[j]),
				RETURN(SECCOMP_RET_ALLOW),
			};

			assert_false(allows(program, COUNT(program)));
		}
	}
}

static void test_what_cannot_be_judged_forbids(void **state)
{
	struct sock_filter past_the_end[] = {BPF_STMT(BPF_JMP | BPF_JA, 0x7fffffff),
					     RETURN(SECCOMP_RET_ALLOW)};
	struct sock_filter no_return[] = {NUMBER};
	struct sock_filter unknown[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
					RETURN(SECCOMP_RET_ALLOW)};
	struct sock_filter outside[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64),
					RETURN(SECCOMP_RET_ALLOW)};
	struct sock_filter memory[] = {BPF_STMT(BPF_ST, BPF_MEMWORDS), RETURN(SECCOMP_RET_ALLOW)};

	(void)state;
	assert_false(seccomp_allows(NULL));
	assert_false(allows(NULL, 1));
	assert_false(allows(no_return, 0));
	assert_false(allows(past_the_end, COUNT(past_the_end)));
	assert_false(allows(no_return, COUNT(no_return)));
	assert_false(allows(unknown, COUNT(unknown)));
	assert_false(allows(outside, COUNT(outside)));
	assert_false(allows(memory, COUNT(memory)));
}

/* What the kernel makes of the program, for getppid with these arguments: the low bits
 * of A come back as the error. */
static int ask_kernel(struct sock_filter *program, size_t count, const uint64_t *arguments)
{
	struct sock_fprog filter = {(unsigned short)count, program};
	int status;
	pid_t pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		long ret;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
			_exit(255);
		ret = syscall(SYS_getppid, arguments[0], arguments[1]);
		_exit(ret < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_computes_as_the_kernel_does(void **state)
{
	static const uint16_t operations[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV,
					      BPF_AND, BPF_OR,  BPF_LSH, BPF_RSH};
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 60; round++) {
		uint64_t arguments[2] = {(uint64_t)rand_r(&seed), (uint64_t)rand_r(&seed) % 7};
		struct sock_filter program[] = {
			NUMBER,
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
			RETURN(SECCOMP_RET_ALLOW),
			ARGUMENT(1),
			BPF_STMT(BPF_ST, 3),
			ARGUMENT(0),
			BPF_STMT(BPF_LDX | BPF_MEM, 3),
			BPF_STMT(BPF_ALU | operations[round % 8] | BPF_X, 0),
			BPF_STMT(BPF_ALU | BPF_NEG, 0),
			BPF_STMT(BPF_MISC | BPF_TAX, 0),
			BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 1),
			BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 5),
			BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
			BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7f),
			BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
			BPF_STMT(BPF_RET | BPF_A, 0),
		};
		struct seccomp_data data = {.nr = SYS_getppid, .arch = AUDIT_ARCH_X86_64};
		uint32_t verdict = 0;

		data.args[0] = arguments[0];
		data.args[1] = arguments[1];
		if (bpf_run(program, COUNT(program), &data, &verdict))
			assert_int_equal(ask_kernel(program, COUNT(program), arguments),
					 verdict & SECCOMP_RET_DATA);
		else if (!HAS_OTHER_THREADS) /* a division by zero: the kernel kills, one */
			assert_int_equal(ask_kernel(program, COUNT(program), arguments), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_filter_for_others_is_harmless),
		cmocka_unit_test(test_a_filter_for_one_of_ours_forbids),
		cmocka_unit_test(test_what_cannot_be_judged_forbids),
		cmocka_unit_test(test_computes_as_the_kernel_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
