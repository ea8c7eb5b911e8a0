/*
 * Stacks of many shapes, compiled once for each setting (SHAPES names it). Nothing here
 * may become a tail call: every function does something after its call.
 */
#include "unwind_check.h"

#include <alloca.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define AFTER        __asm__ volatile("" ::: "memory")
#define SHAPE        static __attribute__((noinline, noclone))
#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)
#define TEXT_(a)     #a
#define TEXT(a)      TEXT_(a)

SHAPE void recursion(int depth)
{
	if (depth == 0)
		check();
	else
		recursion(depth - 1);
	AFTER;
}

SHAPE int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	if (x == 3)
		check();
	return (x > y) - (x < y);
}

SHAPE void sort(void)
{
	int numbers[] = {9, 3, 8, 4, 7, 5, 6};

	qsort(numbers, sizeof(numbers) / sizeof(numbers[0]), sizeof(numbers[0]), compare);
	AFTER;
}

SHAPE void variable(int bytes)
{
	char *p = alloca((size_t)bytes);

	memset(p, bytes, (size_t)bytes);
	__asm__ volatile("" ::"r"(p) : "memory");
	recursion(bytes % 5);
	if (bytes > 100)
		variable(bytes / 2);
	AFTER;
}

/* More alignment than the ABI gives: the frame is realigned, often through r10. */
SHAPE void realigned(int depth)
{
	char buffer[200] __attribute__((aligned(64)));

	memset(buffer, depth, sizeof(buffer));
	__asm__ volatile("" ::"r"(buffer) : "memory");
	if (depth > 0)
		realigned(depth - 1);
	else
		variable(300);
	AFTER;
}

/* With arguments on the stack and alloca, too: the CFA is found through memory. */
SHAPE void realigned_arguments(int depth, ...)
{
	char buffer[64] __attribute__((aligned(64)));
	char *p = alloca((size_t)depth * 16 + 16);
	va_list arguments;
	int sum = 0;

	va_start(arguments, depth);
	for (int i = 0; i < 8; i++)
		sum += va_arg(arguments, int);
	memset(p, sum, 16);
	memset(buffer, sum, sizeof(buffer));
	__asm__ volatile("" ::"r"(buffer), "r"(p) : "memory");
	if (depth > 0)
		realigned_arguments(depth - 1, 1, 2, 3, 4, 5, 6, 7, 8);
	else
		realigned(2);
	va_end(arguments);
	AFTER;
}

SHAPE void large(int depth)
{
	char buffer[40000];

	buffer[0] = (char)depth;
	buffer[sizeof(buffer) - 1] = (char)depth;
	__asm__ volatile("" ::"r"(buffer) : "memory");
	if (depth > 0)
		large(depth - 1);
	else
		recursion(2);
	AFTER;
}

/* The call is the last instruction: its return address belongs to the next function. */
SHAPE __attribute__((noreturn)) void last_call(void (*leave)(void))
{
	leave();
	__builtin_unreachable();
}

SHAPE void after_last_call(void) { AFTER; }

SHAPE void never_returns(void (*leave)(void))
{
	after_last_call();
	last_call(leave);
}

SHAPE void many_registers(long a, long b, long c)
{
	long d = a * b, e = b * c, f = c * a, g = a ^ b, h = b ^ c;

	__asm__ volatile("" : "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
	recursion(3);
	__asm__ volatile("" ::"r"(a + b + c + d), "r"(e), "r"(f), "r"(g), "r"(h));
}

const struct shapes PASTE(shapes_, SHAPES) = {
	.name = TEXT(SHAPES),
	.recursion = recursion,
	.sort = sort,
	.variable = variable,
	.realigned = realigned,
	.realigned_arguments = realigned_arguments,
	.large = large,
	.never_returns = never_returns,
	.many_registers = many_registers,
};
