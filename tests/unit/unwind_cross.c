/*
 * The unwinder against libunwind, over stacks of every shape a program can have. Where
 * libunwind has no answer, unwind_known.c goes on.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind_compare.h"

struct harness_stack ours;
static uint64_t theirs[HARNESS_FRAMES];
static _Atomic unsigned checks, mismatches;
static char report[65536];

/* --- the comparison ---------------------------------------------------------------- */

static size_t walk_theirs(unw_context_t *context)
{
	unw_cursor_t cursor;
	unw_word_t pc;
	size_t n = 0;

	unw_init_local(&cursor, context);
	do {
		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0)
			break;
		theirs[n++] = pc;
	} while (n < HARNESS_FRAMES && unw_step(&cursor) > 0);
	return n;
}

static void describe(size_t n)
{
	size_t used = 0;

	for (size_t i = 0; (i < n || i < ours.count) && used < sizeof(report) - 200; i++)
		used += (size_t)snprintf(
			report + used, sizeof(report) - used, "  %16lx %6x  %16lx\n",
			i < ours.count ? ours.frame[i].pc : 0,
			i < ours.count ? ours.frame[i].where : 0, i < n ? theirs[i] : 0);
}

static void compare(size_t from, size_t n)
{
	bool same = ours.count == n;

	checks++;
	for (size_t i = from; same && i < n; i++)
		same = ours.frame[i].pc == theirs[i];
	if (!same && mismatches++ == 0)
		describe(n);
}

static volatile bool quiet;

__attribute__((noinline)) void check(void)
{
	unw_context_t context;

	if (quiet)
		return;
	unw_getcontext(&context);
	harness_hook(&ours);
	compare(1, walk_theirs(&context));
}

void forget_theirs(void) { unw_flush_cache(unw_local_addr_space, 0, 0); }

void assert_checked(unsigned at_least)
{
	unsigned n = atomic_exchange(&checks, 0);

	if (atomic_exchange(&mismatches, 0))
		fail_msg("ours, where, theirs:\n%s", report);
	if (n < at_least)
		fail_msg("%u checks, not %u", n, at_least);
}

/* --- shapes ------------------------------------------------------------------------ */

static const struct shapes *const all_shapes[] = {
	&shapes_omit, &shapes_keep, &shapes_plain, &shapes_realign, &shapes_size,
};
#define EVERY_SHAPE(s)                                        \
	for (const struct shapes *s, *const *at = all_shapes; \
	     at < all_shapes + sizeof(all_shapes) / sizeof(all_shapes[0]) && (s = *at); at++)

static jmp_buf before_noreturn;

static void leave(void)
{
	check();
	longjmp(before_noreturn, 1);
}

static void run_shapes(const struct shapes *s)
{
	for (int depth = 0; depth < 40; depth += 3)
		s->recursion(depth);
	s->sort();
	for (int bytes = 1; bytes < 3000; bytes = bytes * 3 + 1)
		s->variable(bytes);
	s->realigned(0);
	s->realigned(5);
	s->realigned_arguments(0, 1, 2, 3, 4, 5, 6, 7, 8);
	s->realigned_arguments(4, 1, 2, 3, 4, 5, 6, 7, 8);
	s->large(0);
	s->large(9);
	s->many_registers(2, 3, 5);
	if (setjmp(before_noreturn) == 0)
		s->never_returns(leave);
}

static void test_shapes(void **state)
{
	(void)state;
	EVERY_SHAPE(s)
	{
		for (int round = 0; round < 2; round++)
			run_shapes(s);
		assert_checked(40);
	}
}

static void test_exceptions(void **state)
{
	(void)state;
	for (int depth = 0; depth < 8; depth++)
		unwind_throw(depth);
	assert_checked(8 * 3);
}

static void *in_thread(void *unused)
{
	(void)unused;
	check();
	EVERY_SHAPE(s)
	run_shapes(s);
	return NULL;
}

static void test_threads(void **state)
{
	static char own_stack[1 << 20] __attribute__((aligned(4096)));
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
		pthread_join(thread, NULL);
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, own_stack, sizeof(own_stack));
	assert_int_equal(pthread_create(&thread, &attributes, in_thread, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	assert_checked(4 * 40);
}

/* --- odd frames ----------------------------------------------------------------------- */

void clobber_then_check(void)
{
	odd_clobber(check);
	__asm__ volatile("");
}

static void nested_odd(void)
{
	odd_r12(clobber_then_check);
	__asm__ volatile("");
}

static void twice_odd(void)
{
	odd_rbx(nested_odd);
	__asm__ volatile("");
}

/* The full-row tier: registers from the hook's entry, and from frames further in. */
static void test_odd_rows(void **state)
{
	uint64_t cut = harness_cut_stacks();

	(void)state;
	odd_r12(check);
	odd_rbx(check);
	odd_r12(clobber_then_check);
	odd_rbx(clobber_then_check);
	odd_clobber(nested_odd);
	odd_clobber(twice_odd);
	twice_odd();
	assert_checked(7);
	assert_int_equal(harness_cut_stacks(), cut);
}

/* --- signals -------------------------------------------------------------------------- */

static const struct shapes *in_handler = &shapes_omit;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		raise(SIGUSR2);
	in_handler->recursion(2);
	in_handler->realigned(1);
}

static void handle(int number, int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

	sigaction(number, &action, NULL);
}

static void test_signals(void **state)
{
	(void)state;
	handle(SIGUSR2, 0);
	EVERY_SHAPE(s)
	{
		in_handler = s;
		handle(SIGUSR1, 0);
		raise(SIGUSR1);
		char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
		stack_t alternate = {.ss_sp = stack, .ss_size = 65536};
		stack_t none = {.ss_flags = SS_DISABLE};

		sigaltstack(&alternate, NULL);
		handle(SIGUSR1, SA_ONSTACK);
		raise(SIGUSR1);
		sigaltstack(&none, NULL);
		munmap(stack, 65536);
	}
	assert_checked(5 * 2 * 4);
}

static size_t steps, steps_unknown, steps_plt, steps_vdso;

/* A jump through memory, as PLT entries have it, with a prefix or without. */
static bool is_plt(const uint8_t *pc)
{
	return (pc[0] == 0xff && pc[1] == 0x25) ||
	       (pc[0] == 0xf2 && pc[1] == 0xff && pc[2] == 0x25);
}

/* Every instruction of a stretch of code, prologues, PLT entries and assembly among it. */
static void on_step(int number, siginfo_t *info, void *context)
{
	bool guessed = false;
	unw_context_t here;

	uint64_t pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	steps_plt += is_plt((const uint8_t *)pc);
	steps_vdso += pc - getauxval(AT_SYSINFO_EHDR) < 8192;
	unw_getcontext(&here);
	harness_hook(&ours);
	for (size_t i = 0; i < ours.count; i++)
		guessed |= (ours.frame[i].where & (MGL_NODE_CUT | MGL_NODE_FP)) != 0;
	steps++;
	if (guessed) /* no CFI there: libunwind guesses otherwise */
		steps_unknown++;
	else
		compare(1, walk_theirs(&here));
}

static void trap_flag(bool on)
{
	if (on)
		__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static void stepped(void)
{
	char text[200];
	int numbers[] = {5, 2, 9, 1};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%s %d %.2f", "text", 42, 2.5);
	free(strdup(text));
	memset(text, 'a', 150);
	text[150] = '\0';
	__asm__ volatile("" ::"r"(strchr(text, numbers[0])));
	shapes_omit.realigned_arguments(0, 1, 2, 3, 4, 5, 6, 7, 8);
	shapes_keep.variable(30);
	bsearch(numbers, numbers, 4, sizeof(int), (int (*)(const void *, const void *))strcmp);
	odd_r12(shapes_omit.sort);
}

static void test_every_instruction(void **state)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	void *library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
	double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");

	(void)state;
	sigaction(SIGTRAP, &action, NULL);
	quiet = true;
	trap_flag(true);
	stepped();
	cosine(0.5);
	trap_flag(false);
	quiet = false;
	signal(SIGTRAP, SIG_DFL);
	assert_checked(2000);
	print_message("%zu instructions, %zu of PLT entries, %zu of the vdso, %zu without CFI\n",
		      steps, steps_plt, steps_vdso, steps_unknown);
	assert_true(steps_plt > 3 && steps_vdso > 10);
	assert_true(steps_unknown * 50 < steps);
}

/* --- fibers ------------------------------------------------------------------------------ */

static ucontext_t main_context, fiber_context;

static void fiber(void)
{
	check();
	shapes_omit.recursion(5);
	shapes_keep.realigned(3);
	swapcontext(&fiber_context, &main_context);
	shapes_plain.sort();
}

static void test_fibers(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		size_t bytes = 16384 + 4096 * (size_t)(round % 3);
		char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		getcontext(&fiber_context);
		fiber_context.uc_stack.ss_sp = stack;
		fiber_context.uc_stack.ss_size = bytes;
		fiber_context.uc_link = &main_context;
		makecontext(&fiber_context, fiber, 0);
		swapcontext(&main_context, &fiber_context);
		check();
		swapcontext(&main_context, &fiber_context);
		munmap(stack, bytes);
		check();
	}
	assert_checked(20 * 6);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),  cmocka_unit_test(test_exceptions),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_odd_rows),
		cmocka_unit_test(test_signals), cmocka_unit_test(test_every_instruction),
		cmocka_unit_test(test_fibers),
	};

	(void)argc;
	return cmocka_run_group_tests(tests, NULL, NULL) + unwind_again() + unwind_known(argv[0]);
}
