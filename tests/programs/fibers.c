/*
 * fibers OUT ROUNDS: fibers that make blocks on stacks of their own, which are unmapped when
 * they end; signal handlers that do, on an alternate stack that is unmapped too. What was
 * seen of a stack must never be read again without asking. Says its tally.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tally.h"

enum { STACK = 64 * 1024 };

static struct tally t;
static ucontext_t main_context, fiber_context;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	tally_in(&t, size);
	return p;
}

static void unmake(void *p, size_t size)
{
	tally_out(&t, size);
	free(p);
}

SITE static void *in_fiber(int depth)
{
	void *p = depth == 0 ? make(48) : in_fiber(depth - 1);

	KEEP_FRAME();
	return p;
}

SITE static void *in_main(int depth)
{
	void *p = depth == 0 ? make(64) : in_main(depth - 1);

	KEEP_FRAME();
	return p;
}

SITE static void on_signal(int number)
{
	(void)number;
	unmake(make(32), 32);
	t.temporary++;
}

static char *map_stack(void)
{
	char *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	return p;
}

static void with_alternate_stack(void)
{
	char *stack = map_stack();
	stack_t alternate = {.ss_sp = stack, .ss_size = STACK}, none = {.ss_flags = SS_DISABLE};

	if (sigaltstack(&alternate, NULL) != 0)
		_exit(4);
	raise(SIGUSR1);
	if (sigaltstack(&none, NULL) != 0)
		_exit(4);
	munmap(stack, STACK);
}

static void fiber(void)
{
	for (int i = 0; i < 4; i++) {
		void *p = in_fiber(i * 7);

		if (i == 2)
			with_alternate_stack();
		unmake(p, 48);
		t.temporary += i != 2;
		swapcontext(&fiber_context, &main_context);
	}
}

static void one_round(void)
{
	char *stack = map_stack();

	getcontext(&fiber_context);
	fiber_context.uc_stack.ss_sp = stack;
	fiber_context.uc_stack.ss_size = STACK;
	fiber_context.uc_link = &main_context;
	makecontext(&fiber_context, fiber, 0);
	for (int i = 0; i < 5; i++) {
		swapcontext(&main_context, &fiber_context);
		/* The fifth time it has ended. */
		if (i == 4)
			munmap(stack, STACK);
		unmake(in_main(i * 5), 64);
		t.temporary++;
	}
	with_alternate_stack();
	unmake(in_main(9), 64);
	t.temporary++;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	if (argc != 3)
		return 2;
	say_open(argv[1]);
	sigaction(SIGUSR1, &action, NULL);
	for (uint64_t rounds = number_of(argv[2]); rounds > 0; rounds--)
		one_round();
	say_process();
	say_tally(&t);
	say_flush();
	return 0;
}
