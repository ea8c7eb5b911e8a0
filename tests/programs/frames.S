/* Frames a compiler makes seldom or never. */
	.text

/* void by_r12(void (*f)(void)): its CFA is in r12, which f may save and reuse. */
	.globl by_r12
	.type by_r12, @function
by_r12:
	.cfi_startproc
	push %r12
	.cfi_def_cfa_offset 16
	.cfi_offset %r12, -16
	mov %rsp, %r12
	.cfi_def_cfa_register %r12
	sub $40, %rsp
	and $-64, %rsp
	call *%rdi
	mov %r12, %rsp
	.cfi_def_cfa_register %rsp
	pop %r12
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size by_r12, . - by_r12

/* void by_expression(void (*f)(void)): its CFA is *(rbx + 8) + 8. */
	.globl by_expression
	.type by_expression, @function
by_expression:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	sub $32, %rsp
	.cfi_def_cfa_offset 48
	lea 40(%rsp), %rax
	mov %rax, 24(%rsp)
	lea 16(%rsp), %rbx
	/* DW_CFA_def_cfa_expression: breg3 (rbx) + 8; deref; plus_uconst 8 */
	.cfi_escape 0x0f, 5, 0x73, 8, 0x06, 0x23, 8
	call *%rdi
	.cfi_def_cfa %rsp, 48
	add $32, %rsp
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size by_expression, . - by_expression

/* void rbp_by_expression(void (*f)(void)): rbp is saved where an expression says
 * (DW_CFA_expression), and is something else meanwhile. */
	.globl rbp_by_expression
	.type rbp_by_expression, @function
rbp_by_expression:
	.cfi_startproc
	sub $24, %rsp
	.cfi_def_cfa_offset 32
	mov %rbp, 8(%rsp)
	/* DW_CFA_expression rbp: breg7 (rsp) + 8 */
	.cfi_escape 0x10, 6, 2, 0x77, 8
	mov $1, %ebp
	call *%rdi
	mov 8(%rsp), %rbp
	.cfi_same_value %rbp
	add $24, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size rbp_by_expression, . - rbp_by_expression

/* void clobber(void (*f)(void)): saves and overwrites every callee-saved register. */
	.globl clobber
	.type clobber, @function
clobber:
	.cfi_startproc
	.irp reg, rbp, rbx, r12, r13, r14, r15
	push %\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %\reg, 0
	.endr
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	mov $1, %ebx
	mov $2, %ebp
	mov $3, %r12d
	mov $4, %r13d
	mov $5, %r14d
	mov $6, %r15d
	call *%rdi
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	.irp reg, r15, r14, r13, r12, rbx, rbp
	pop %\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore %\reg
	.endr
	ret
	.cfi_endproc
	.size clobber, . - clobber

/* void tail_caller(void (*f)(void)): is gone when f runs. */
	.globl tail_caller
	.type tail_caller, @function
tail_caller:
	.cfi_startproc
	jmp *%rdi
	.cfi_endproc
	.size tail_caller, . - tail_caller

/* void last_call(void (*f)(void)): f never returns; its return address is the next function's
 * first instruction, whose frame would be another size. */
	.globl last_call
	.type last_call, @function
last_call:
	.cfi_startproc
	sub $8, %rsp
	.cfi_def_cfa_offset 16
	call *%rdi
	.cfi_endproc
	.size last_call, . - last_call

/* void faults_at_once(void): its first instruction raises SIGILL; one byte before lies the end of
 * another function, whose frame would be another size. 2 bytes to be skipped. */
	.globl follows_last_call
	.type follows_last_call, @function
follows_last_call:
	.cfi_startproc
	.cfi_def_cfa_offset 1024
	ud2
	.cfi_endproc
	.size follows_last_call, . - follows_last_call
	.globl faults_at_once
	.type faults_at_once, @function
faults_at_once:
	.cfi_startproc
	ud2
	ret
	.cfi_endproc
	.size faults_at_once, . - faults_at_once

	.section .note.GNU-stack, "", @progbits
