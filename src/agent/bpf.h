/*
 * The kernel's classic BPF as seccomp runs it: decides what a filter says to a system
 * call that has not been made.
 *
 * Ownership: borrows the program. Threads: pure. Errors: false for a program the kernel
 * would refuse or this does not know. Bounded: jumps go forward only.
 *
 * Sources: kernel/seccomp.c (seccomp_check_filter: the instructions allowed),
 * Documentation/networking/filter.rst.
 */
#ifndef MALLOGRAPH_AGENT_BPF_H
#define MALLOGRAPH_AGENT_BPF_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program returns for one call. */
bool bpf_run(const struct sock_filter *program, size_t count, const struct seccomp_data *data,
	     uint32_t *ret);

#endif
