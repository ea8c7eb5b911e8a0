/* Functions without call frame information: what a JIT or old assembly is to an unwinder. */
	.text

/* void *nocfi_frame(void *(*f)(void)): keeps a frame pointer. */
	.globl nocfi_frame
	.type nocfi_frame, @function
nocfi_frame:
	endbr64
	push %rbp
	mov %rsp, %rbp
	call *%rdi
	pop %rbp
	ret
	.size nocfi_frame, . - nocfi_frame

/* void *nocfi_bare(void *(*f)(void), uint64_t rbp): puts rbp to another use. */
	.globl nocfi_bare
	.type nocfi_bare, @function
nocfi_bare:
	endbr64
	push %rbp
	mov %rsi, %rbp
	call *%rdi
	pop %rbp
	ret
	.size nocfi_bare, . - nocfi_bare

	.section .note.GNU-stack, "", @progbits
