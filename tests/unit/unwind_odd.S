/* Frames no simple rule covers, and code whose CFI lies. */
	.text

/* void odd_r12(void (*f)(void)): its CFA is in r12, which f may save and reuse. */
	.globl odd_r12
	.type odd_r12, @function
odd_r12:
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
	.size odd_r12, . - odd_r12

/* void odd_rbx(void (*f)(void)): its CFA is *(rbx + 8) + 8, as hand-written code has it. */
	.globl odd_rbx
	.type odd_rbx, @function
odd_rbx:
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
	.size odd_rbx, . - odd_rbx

/* void odd_clobber(void (*f)(void)): saves and overwrites every callee-saved register. */
	.globl odd_clobber
	.type odd_clobber, @function
odd_clobber:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	push %rbx
	.cfi_def_cfa_offset 24
	.cfi_offset %rbx, -24
	push %r12
	.cfi_def_cfa_offset 32
	.cfi_offset %r12, -32
	push %r13
	.cfi_def_cfa_offset 40
	.cfi_offset %r13, -40
	push %r14
	.cfi_def_cfa_offset 48
	.cfi_offset %r14, -48
	push %r15
	.cfi_def_cfa_offset 56
	.cfi_offset %r15, -56
	sub $8, %rsp
	.cfi_def_cfa_offset 64
	mov $1, %ebx
	mov $2, %ebp
	mov $3, %r12d
	mov $4, %r13d
	mov $5, %r14d
	mov $6, %r15d
	call *%rdi
	add $8, %rsp
	.cfi_def_cfa_offset 56
	pop %r15
	.cfi_def_cfa_offset 48
	pop %r14
	.cfi_def_cfa_offset 40
	pop %r13
	.cfi_def_cfa_offset 32
	pop %r12
	.cfi_def_cfa_offset 24
	pop %rbx
	.cfi_def_cfa_offset 16
	pop %rbp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size odd_clobber, . - odd_clobber

/* The rest is without CFI. */

/* void odd_caller(void (*f)(void), void *stack): calls f as Go calls C, on another stack; rbp
 * stays what it was two functions further out. */
	.globl odd_caller
	.type odd_caller, @function
odd_caller:
	push %rbp
	mov %rsp, %rbp
	call odd_middle
	pop %rbp
	ret
	.size odd_caller, . - odd_caller

	.type odd_middle, @function
odd_middle:
	push %rbp
	mov %rsp, %rbp
	call odd_switch
	pop %rbp
	ret
	.size odd_middle, . - odd_middle

	.type odd_switch, @function
odd_switch:
	push %rbx
	mov %rsp, %rbx
	mov %rsi, %rsp
	call *%rdi
	mov %rbx, %rsp
	pop %rbx
	ret
	.size odd_switch, . - odd_switch

/* void odd_rbp(void (*f)(void), void *rbp): calls f with this rbp. */
	.globl odd_rbp
	.type odd_rbp, @function
odd_rbp:
	push %rbp
	mov %rsi, %rbp
	call *%rdi
	pop %rbp
	ret
	.size odd_rbp, . - odd_rbp

	.section .note.GNU-stack, "", @progbits
