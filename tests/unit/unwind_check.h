/* What the shapes of unwind_shapes.c call at their innermost frame. */
#ifndef UNWIND_CHECK_H
#define UNWIND_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Compares the unwinder's stack with libunwind's from the caller out. */
void check(void);

/* The stacks one compiler setting makes: each function calls check() deep inside. */
struct shapes {
	const char *name;
	void (*recursion)(int depth);
	void (*sort)(void);
	void (*variable)(int bytes);
	void (*realigned)(int depth);
	void (*realigned_arguments)(int depth, ...);
	void (*large)(int depth);
	void (*never_returns)(void (*leave)(void));
	void (*many_registers)(long a, long b, long c);
};

extern const struct shapes shapes_omit, shapes_keep, shapes_plain, shapes_realign, shapes_size;

void unwind_throw(int depth);

#ifdef __cplusplus
}
#endif

#endif
