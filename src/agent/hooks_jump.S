/*
 * Interposers that leave no frame of theirs: they jump to the real function, so that it
 * sees the program's return address. glibc takes the caller's RUNPATH and namespace from
 * it; a child that shares the stack (CLONE_VM) comes back through it.
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

/* long syscall(long number, …): all but seccomp and prctl pass, and the first, which
 * finds the real function. */
#include <asm/unistd_64.h>
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
	movq	hooks_syscall_real(%rip), %r11
	testq	%r11, %r11
	je	hooks_syscall_judge
	jmp	*%r11
	.cfi_endproc
	.size	syscall, .-syscall

	.section .note.GNU-stack, "", @progbits
