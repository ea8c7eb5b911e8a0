/*
 * Interposers that leave no frame of theirs: they jump to the real function, so that it
 * sees the program's return address. glibc takes the caller's RUNPATH and namespace from
 * it; a child that shares the stack (CLONE_VM) comes back through it. And the way in of
 * functions that were changed where they stand (patch.h).
 *
 * x86-64 System V ABI: arguments in rdi, rsi, rdx, rcx, r8, r9; r11 is anybody's.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.text

/* void *dlopen(const char *file, int flags) */
	.globl	dlopen
	.type	dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	_CET_ENDBR
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	hooks_dlopen_seen
	movq	%rax, %r11
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%r11
	.cfi_endproc
	.size	dlopen, .-dlopen

/* void *dlmopen(Lmid_t space, const char *file, int flags) */
	.globl	dlmopen
	.type	dlmopen, @function
	.p2align 4
dlmopen:
	.cfi_startproc
	_CET_ENDBR
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	hooks_dlmopen_seen
	movq	%rax, %r11
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%r11
	.cfi_endproc
	.size	dlmopen, .-dlmopen

/* long syscall(long number, …): all but seccomp, prctl, forks and execs pass. A child that shares
 * memory, or starts on another stack, must not come back through a frame of ours. */
#include <asm/unistd_64.h>
#define CLONE_VM 0x100
	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	.cfi_startproc
	_CET_ENDBR
	cmpq	$__NR_seccomp, %rdi
	je	hooks_syscall_judge
	cmpq	$__NR_prctl, %rdi
	je	hooks_syscall_judge
	cmpq	$__NR_fork, %rdi
	je	hooks_syscall_judge
	cmpq	$__NR_execve, %rdi
	je	hooks_syscall_judge
	cmpq	$__NR_execveat, %rdi
	je	hooks_syscall_judge
	cmpq	$__NR_clone, %rdi
	jne	1f
	testq	$CLONE_VM, %rsi
	jne	1f
	testq	%rdx, %rdx
	je	hooks_syscall_judge
1:	movq	hooks_syscall_real(%rip), %r11
	testq	%r11, %r11
	je	2f
	jmp	*%r11
2:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%r9
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	hooks_syscall_find
	movq	%rax, %r11
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r9
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%r11
	.cfi_endproc
	.size	syscall, .-syscall

/* Where a function that was changed leads: its struct inner in r9, the r9 it was called with on
 * the stack. A compiler that sees both ends of a call may count on registers that the function
 * does not use (-fipa-ra): all come back as they were but rax, and rdx as
 * the function left it: it may be the other half of a result. */
	.globl	hooks_inner_entry
	.hidden	hooks_inner_entry
	.type	hooks_inner_entry, @function
	.p2align 4
hooks_inner_entry:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	_CET_ENDBR
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%r10
	.cfi_adjust_cfa_offset 8
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	movq	%rsp, %rdi
	movq	%r9, %rsi
	call	hooks_inner
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%r11
	.cfi_adjust_cfa_offset -8
	popq	%r10
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%r9
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	hooks_inner_entry, .-hooks_inner_entry

	.section .note.GNU-stack, "", @progbits
