/* What the two halves of the unwinder's test share. */
#ifndef UNWIND_COMPARE_H
#define UNWIND_COMPARE_H

#include "unwind_check.h"
#include "unwind_harness.h"

/* The stack taken last. */
extern struct harness_stack ours;

/* Fails if a check() since the last call found a difference, or if there were fewer. */
void assert_checked(unsigned at_least);
/* libunwind keeps what it knows of a library that is gone. */
void forget_theirs(void);

/* unwind_odd.S */
void odd_r12(void (*f)(void));
void odd_rbx(void (*f)(void));
void odd_clobber(void (*f)(void));
void odd_caller(void (*f)(void), void *stack);
void odd_rbp(void (*f)(void), void *rbp);
/* Between an odd frame and the check, one that overwrites the odd frame's registers. */
void clobber_then_check(void);

/* unwind_again.c's tests. Returns how many failed. */
int unwind_again(void);
/* unwind_known.c's tests; program is argv[0]. Returns how many failed. */
int unwind_known(const char *program);

#endif
