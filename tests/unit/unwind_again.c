/*
 * Stacks met again: that they are right, and that no more of them is walked than differs.
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <setjmp.h>

#include <cmocka.h>

#include "unwind_compare.h"

#define FUNCTION static __attribute__((noinline, noclone))
#define AFTER    __asm__ volatile("" ::: "memory")

static void assert_effort(struct harness_effort before, uint32_t whole, uint32_t entered)
{
	struct harness_effort now = harness_effort();

	assert_in_range(now.whole - before.whole, 0, whole);
	assert_in_range(now.entered - before.entered, 0, entered);
}

/* --- one place after the other ------------------------------------------------------------ */

FUNCTION void left(int more)
{
	if (more > 1)
		left(more - 1);
	else
		check();
	__asm__ volatile("# left" ::: "memory");
}

FUNCTION void right(int more)
{
	if (more > 1)
		right(more - 1);
	else
		check();
	__asm__ volatile("# right" ::: "memory");
}

FUNCTION void under(int depth, void (*f)(void))
{
	if (depth > 1)
		under(depth - 1, f);
	else
		f();
	AFTER;
}

FUNCTION void many_times(void)
{
	struct harness_effort before = {0};

	for (int round = 0; round < 10; round++) {
		check();
		if (round == 0)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
}

FUNCTION void by_turns(void)
{
	struct harness_effort before = {0};

	for (int round = 0; round < 10; round++) {
		left(9);
		right(9);
		if (round == 1)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
}

/* The innermost frames' registers are the same, whoever calls. */
FUNCTION void shared(void)
{
	check();
	AFTER;
}

#define CALLER(name)                                       \
	FUNCTION void name(void)                           \
	{                                                  \
		shared();                                  \
		__asm__ volatile("# " #name ::: "memory"); \
	}
CALLER(caller_a)
CALLER(caller_b)
CALLER(caller_c)

FUNCTION void callers_by_turns(void)
{
	struct harness_effort before = {0};

	for (int round = 0; round < 10; round++) {
		caller_a();
		caller_b();
		caller_c();
		caller_b();
		if (round == 1)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
}

static void test_met_again(void **state)
{
	(void)state;
	for (int depth = 1; depth < 60; depth += 19) {
		under(depth, many_times);
		under(depth, by_turns);
		under(depth, callers_by_turns);
	}
	assert_checked(4 * (10 + 20 + 40));
}

static void test_one_new_frame(void **state)
{
	struct harness_effort before;

	(void)state;
	left(30);
	before = harness_effort();
	left(31); /* other frames than those of left(30) but for the outer ones */
	assert_effort(before, 0, 33);
	before = harness_effort();
	check();
	assert_effort(before, 0, 2); /* check() has one of its own */
	assert_checked(3);
}

/* Words of a stack that was, in a frame that leaves them as they are. */
FUNCTION void large_frame(void)
{
	char room[4000];

	__asm__ volatile("" ::"r"(room) : "memory");
	check();
	AFTER;
}

static void test_stale_words(void **state)
{
	(void)state;
	for (int round = 0; round < 4; round++) {
		for (int depth = 1; depth < 80; depth += 7) {
			left(depth);
			large_frame();
			right(depth / 2 + 1);
			large_frame();
			shapes_keep.large(depth % 5);
		}
	}
	assert_checked(4 * 12 * 4);
}

FUNCTION void take(void)
{
	harness_hook(&ours);
	AFTER;
}

/* The same from another place. */
FUNCTION void by_turns_again(int place)
{
	struct harness_effort before = {0};

	for (int round = 0; round < 10; round++) {
		left(9);
		right(9);
		if (round == 4)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
	__asm__ volatile("" ::"r"(place));
}

static void *places_by_turns(void *unused)
{
	by_turns_again(1);
	by_turns_again(2);
	by_turns_again(3);
	by_turns_again(4);
	return unused;
}

/* In a thread whose memos are few: with many, more is forgiven. */
static void test_places_by_turns(void **state)
{
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, places_by_turns, NULL);
	pthread_join(thread, NULL);
	assert_checked(4 * 20);
}

/* Each calls the next from one of four places, so that 256 stacks share pc and stack pointer. */
#define FORK(name, next)                         \
	FUNCTION void name(unsigned path)        \
	{                                        \
		switch (path & 3) {              \
		case 0:                          \
			next(path >> 2);         \
			__asm__ volatile("# 0"); \
			break;                   \
		case 1:                          \
			next(path >> 2);         \
			__asm__ volatile("# 1"); \
			break;                   \
		case 2:                          \
			next(path >> 2);         \
			__asm__ volatile("# 2"); \
			break;                   \
		default:                         \
			next(path >> 2);         \
			__asm__ volatile("# 3"); \
			break;                   \
		}                                \
	}

FUNCTION void fork_end(unsigned path)
{
	check();
	__asm__ volatile("" ::"r"(path));
}

FORK(fork_1, fork_end)
FORK(fork_2, fork_1)
FORK(fork_3, fork_2)
FORK(fork_4, fork_3)

#define FORKS  256u
#define ROUNDS 6u

static void *forks(void *unused)
{
	struct harness_effort before = {0};

	for (unsigned i = 0; i < ROUNDS * FORKS; i++) {
		if (i == (ROUNDS - 1) * FORKS)
			before = harness_effort();
		fork_4(i * 85 + i / FORKS); /* 85 is odd: in each round every path once */
	}
	/* A few may be without their place among so many. */
	assert_effort(before, 0, FORKS / 8);
	return unused;
}

static void test_many_share_registers(void **state)
{
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, forks, NULL);
	pthread_join(thread, NULL);
	assert_checked(ROUNDS * FORKS);
}

/* Further out than any memo knows, another place. */
FUNCTION void middle(int order)
{
	for (int i = 0; i < 2; i++) {
		void (*f)(int) = i == order ? left : right;

		__asm__ volatile("" : "+r"(f), "+r"(i));
		f(5);
	}
}

FUNCTION void outer(int place, int order)
{
	if (place) {
		middle(order);
		__asm__ volatile("# 0");
	} else {
		middle(order);
		__asm__ volatile("# 1");
	}
}

static void test_outer_frames_differ(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++)
		outer(round & 1, round & 1);
	assert_checked(20 * 2);
}

/* Its frame ends at `end`, wherever it starts: only rbp tells. */
FUNCTION void down_to(const char *end)
{
	char *room = alloca((size_t)((char *)__builtin_frame_address(0) - end));

	__asm__ volatile("" ::"r"(room) : "memory");
	take();
	AFTER;
}

FUNCTION void from_above(const char *end)
{
	down_to(end);
	AFTER;
}

/* Leaves the words of from_above() and what it called as they are. */
FUNCTION void from_below(const char *end)
{
	char room[4096];

	__asm__ volatile("" ::"r"(room) : "memory");
	down_to(end);
	AFTER;
}

static void test_only_rbp_differs(void **state)
{
	char here;
	const char *end = (const char *)(((uintptr_t)&here & ~(uintptr_t)15) - 16384);
	void (*const from[])(const char *) = {from_above, from_below};

	(void)state;
	for (int i = 0; i < 8; i++) {
		from[i % 2](end);
		assert_in_range(ours.frame[2].pc - (uintptr_t)from[i % 2], 0, 64);
	}
}

/* --- deep --------------------------------------------------------------------------------- */

FUNCTION void at_the_bottom(void)
{
	for (int round = 0; round < 50; round++) {
		harness_hook(&ours);
		take();
	}
	AFTER;
}

FUNCTION void down(int depth, int talking)
{
	if (depth <= talking)
		harness_hook(&ours);
	if (depth > 1)
		down(depth - 1, talking);
	else if (!talking)
		at_the_bottom();
	AFTER;
}

static void assert_cut_inside(void)
{
	assert_int_equal(ours.count, 1025);
	assert_int_equal(ours.frame[512].where, MGL_NODE_CUT);
	assert_int_equal(ours.frame[512].pc, 0);
}

/* Deeper than is kept: no stack is walked whole but the first. */
static void test_deep(void **state)
{
	struct harness_effort before = harness_effort();
	uint64_t cut = harness_cut_stacks();

	(void)state;
	down(5000, 0);
	assert_cut_inside();
	/* Each is cut, and the same ones are not entered again. */
	assert_int_equal(harness_cut_stacks(), cut + 100);
	assert_effort(before, 2, 3 * 1100);
	before = harness_effort();
	down(1300, 300);
	assert_cut_inside();
	assert_true(harness_effort().whole - before.whole < 30);
	assert_true(harness_cut_stacks() > cut + 300);
}

static void *deeper_and_deeper(void *result)
{
	struct harness_effort *effort = result;

	down(900, 900);
	*effort = harness_effort();
	return NULL;
}

/* Each stack reaches memory that none did before. */
static void test_below_what_is_known(void **state)
{
	struct harness_effort effort;
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, deeper_and_deeper, &effort);
	pthread_join(thread, NULL);
	assert_in_range(effort.whole, 1, 3);
	assert_true(effort.entered < 900 * 3);
}

/* --- other stacks --------------------------------------------------------------------------- */

static ucontext_t outside, fibers[3];
static char *fiber_stack[3];
static void (*in_fiber)(void);

static void fiber_run(int i)
{
	for (;;) {
		in_fiber();
		swapcontext(&fibers[i], &outside);
	}
}

static void fiber_make(int i, size_t bytes)
{
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fiber_stack[i] = stack;
	getcontext(&fibers[i]);
	fibers[i].uc_stack.ss_sp = stack;
	fibers[i].uc_stack.ss_size = bytes;
	fibers[i].uc_link = &outside;
	makecontext(&fibers[i], (void (*)(void))fiber_run, 1, i);
}

static void fiber_enter(int i, void (*f)(void))
{
	in_fiber = f;
	swapcontext(&outside, &fibers[i]);
}

FUNCTION void work(void)
{
	left(3);
	check();
	right(4);
	AFTER;
}

static void test_fibers_by_turns(void **state)
{
	struct harness_effort before = {0};

	(void)state;
	for (int i = 0; i < 3; i++)
		fiber_make(i, 16384);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 3; i++) {
			fiber_enter(i, work);
			work();
		}
		if (round == 3)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
	for (int i = 0; i < 3; i++)
		munmap(fiber_stack[i], 16384);
	assert_checked(10 * 6 * 3);
}

/* Smaller ones where larger ones were: what was known of these lies in unmapped memory. */
static void test_fibers_unmapped(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		size_t bytes = 16384 + 4096 * (size_t)(round * 7 % 5);

		for (int i = 0; i < 2; i++)
			fiber_make(i, bytes);
		for (int turn = 0; turn < 3; turn++) {
			fiber_enter(turn % 2, work);
			check();
		}
		/* Nothing but a hole where the saved stacks were; then their tops are gone. */
		munmap(fiber_stack[0], bytes);
		work();
		munmap(fiber_stack[1] + 8192, bytes - 8192);
		work();
		munmap(fiber_stack[1], 8192);
	}
	assert_checked(30 * (3 * 4 + 6));
}

static void on_signal(int number)
{
	(void)number;
	work();
}

FUNCTION void interrupted(void)
{
	raise(SIGUSR1);
	AFTER;
}

/* The handler's frames are the same, whatever it interrupts: a fiber that is gone by the next
 * time, or the thread itself. */
static void test_handler_over_unmapped(void **state)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t alternate = {.ss_sp = stack, .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	(void)state;
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int round = 0; round < 20; round++) {
		fiber_make(0, 16384);
		fiber_enter(0, interrupted);
		fiber_enter(0, interrupted);
		munmap(fiber_stack[0], 16384);
		interrupted();
		left(2);
		interrupted();
	}
	sigaltstack(&none, NULL);
	signal(SIGUSR1, SIG_DFL);
	munmap(stack, 65536);
	assert_checked(20 * (4 * 3 + 1));
}

/* Frames of the second tier but the full row: realigned ones, handlers on the same stack. */
FUNCTION void in_handler(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGUSR1, &action, NULL);
	for (int round = 0; round < 6; round++) {
		interrupted();
		raise(SIGUSR1);
	}
	signal(SIGUSR1, SIG_DFL);
}

static void test_odd_frames_again(void **state)
{
	struct harness_effort before = {0};

	(void)state;
	under(20, in_handler);
	assert_checked(6 * 2 * 3);
	for (int round = 0; round < 4; round++) {
		shapes_omit.realigned(3);
		if (round == 1)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
	for (int round = 0; round < 4; round++) {
		shapes_realign.realigned_arguments(2, 1, 2, 3, 4, 5, 6, 7, 8);
		if (round == 1)
			before = harness_effort();
	}
	assert_effort(before, 0, 0);
	assert_checked(8);
}

int unwind_again(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_met_again),
		cmocka_unit_test(test_one_new_frame),
		cmocka_unit_test(test_stale_words),
		cmocka_unit_test(test_places_by_turns),
		cmocka_unit_test(test_many_share_registers),
		cmocka_unit_test(test_outer_frames_differ),
		cmocka_unit_test(test_only_rbp_differs),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_below_what_is_known),
		cmocka_unit_test(test_fibers_by_turns),
		cmocka_unit_test(test_fibers_unmapped),
		cmocka_unit_test(test_handler_over_unmapped),
		cmocka_unit_test(test_odd_frames_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
