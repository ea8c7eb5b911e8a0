#include "agent/seccomp.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/bpf.h"
#include "agent/syscall.h"

#ifndef SECCOMP_RET_ACTION_FULL
#define SECCOMP_RET_ACTION_FULL 0xffff0000U
#endif

_Atomic bool agent_filtered, agent_filtered_files;

/* Filters look at flags and sizes: calls as the agent makes them, the pointers made up. */
#define PLACE   0x7f5500000000u
#define NOWHERE UINT64_MAX
struct call {
	int number;
	uint64_t arguments[6];
};
static const struct call samples[] = {
	{SYS_mmap, {0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NOWHERE, 0}},
	{SYS_mmap,
	 {PLACE, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NOWHERE,
	  0}},
	{SYS_munmap, {PLACE, 1 << 21}},
	{SYS_mremap, {PLACE, 0, 1 << 21, MREMAP_MAYMOVE}},
	{SYS_mprotect, {PLACE, 1 << 12, PROT_NONE}},
	{SYS_mprotect, {PLACE, 1 << 21, PROT_READ | PROT_WRITE}},
	{SYS_madvise, {PLACE, 1 << 16, MADV_POPULATE_WRITE}},
	{SYS_madvise, {PLACE, 1 << 21, MADV_DONTDUMP}},
	{SYS_madvise, {PLACE, 1 << 16, MADV_WIPEONFORK}},
	{SYS_rt_sigprocmask, {SIG_SETMASK, PLACE, PLACE, 8}},
	{SYS_tgkill, {2, 2, 0}},
	{SYS_prctl, {PR_GET_NAME, PLACE}},
};
#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

/* For every number the agent uses: one without a sample is tried with zeros. */
static const int numbers[] = {
#define X(number) number,
	AGENT_SYSCALLS(X)
#undef X
};

/* The kernel masks an unknown action as a kill; a filter stopped in another way changes
 * what the call does. */
static bool passes(uint32_t verdict)
{
	uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static bool allows(const struct sock_fprog *filter, const struct call *call)
{
	struct seccomp_data data = {
		.nr = call->number,
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = (uintptr_t)seccomp_allows,
	};
	uint32_t verdict;

	memcpy(data.args, call->arguments, sizeof(data.args));
	return bpf_run(filter->filter, filter->len, &data, &verdict) && passes(verdict);
}

static bool has_sample(int number)
{
	for (size_t i = 0; i < SAMPLES; i++) {
		if (samples[i].number == number)
			return true;
	}
	return false;
}

static bool is_whole(const struct sock_fprog *filter)
{
	return filter && filter->filter && filter->len > 0 && filter->len <= BPF_MAXINSNS;
}

bool seccomp_allows_clock(const struct sock_fprog *filter)
{
	static const struct call clock = {SYS_clock_gettime, {1 /* CLOCK_MONOTONIC */, PLACE}};

	return is_whole(filter) && allows(filter, &clock);
}

bool seccomp_allows_files(const struct sock_fprog *filter)
{
	static const struct call calls[] = {
		{SYS_open, {PLACE, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK}},
		{SYS_open, {PLACE, O_WRONLY | O_CLOEXEC}},
		{SYS_close, {3}},
		{SYS_pread64, {3, PLACE, 64, 0}},
		{SYS_pwrite64, {3, PLACE, 5, PLACE}},
		{SYS_arch_prctl, {0x5005, PLACE}},
		{SYS_rt_sigprocmask, {(uint32_t)-1, PLACE, 0, 8}},
		{SYS_mmap,
		 {PLACE, 1 << 12, PROT_READ | PROT_EXEC,
		  MAP_PRIVATE | MAP_ANONYMOUS | 0x100000 /* FIXED_NOREPLACE */, NOWHERE, 0}},
		{SYS_mprotect, {PLACE, 1 << 12, PROT_READ | PROT_WRITE | PROT_EXEC}},
		{SYS_mprotect, {PLACE, 1 << 12, PROT_READ | PROT_EXEC}},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!is_whole(filter) || !allows(filter, &calls[i]))
			return false;
	}
	return true;
}

bool seccomp_allows(const struct sock_fprog *filter)
{
	if (!is_whole(filter))
		return false;
	for (size_t i = 0; i < SAMPLES; i++) {
		if (!allows(filter, &samples[i]))
			return false;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct call call = {.number = numbers[i]};

		if (!has_sample(numbers[i]) && !allows(filter, &call))
			return false;
	}
	return true;
}
