/*
 * The unwinder against libunwind, over stacks of every shape a program can have, and
 * where libunwind has no answer, against what is known of the stack.
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
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind_check.h"
#include "unwind_harness.h"

static struct harness_stack ours;
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

static void assert_checked(unsigned at_least)
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

void odd_r12(void (*f)(void));
void odd_rbx(void (*f)(void));
void odd_clobber(void (*f)(void));

static void clobber_then_check(void)
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

static size_t steps, steps_unknown;

/* Every instruction of a stretch of code, prologues, PLT entries and assembly among it. */
static void on_step(int number, siginfo_t *info, void *context)
{
	bool guessed = false;
	unw_context_t here;

	(void)number;
	(void)info;
	(void)context;
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
	print_message("%zu instructions, %zu without CFI\n", steps, steps_unknown);
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

/* --- code without CFI ------------------------------------------------------------------------ */

/* Code that calls its first argument; with a frame pointer, or with rbp for something else
 * (its second argument). */
static const uint8_t jit_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static const uint8_t jit_bare[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
enum { JIT_RETURN = 6 }; /* offset of the call's return address in both */

typedef void jit_function(void (*f)(void), uint64_t bp);

static jit_function *jit_make(const uint8_t *code, size_t bytes)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, bytes);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	return (jit_function *)page;
}

static struct harness_stack outside;

static void take_inside(void)
{
	harness_hook(&ours);
	__asm__ volatile("");
}

__attribute__((noinline)) static void through(jit_function *f, uint64_t bp)
{
	harness_hook(&outside);
	f(take_inside, bp);
	__asm__ volatile("");
}

/* take_inside, the made code, then the frames outside. */
static void assert_guessed(jit_function *f)
{
	assert_int_equal(ours.count, outside.count + 2);
	assert_int_equal(ours.frame[1].pc, (uintptr_t)f + JIT_RETURN);
	assert_int_equal(ours.frame[1].where, 0);
	assert_int_equal(ours.frame[2].where & MGL_NODE_FP, MGL_NODE_FP);
	for (size_t i = 1; i < outside.count; i++)
		assert_int_equal(ours.frame[i + 2].pc, outside.frame[i].pc);
}

static void assert_cut_after(jit_function *f)
{
	assert_int_equal(ours.count, 3);
	assert_int_equal(ours.frame[1].pc, (uintptr_t)f + JIT_RETURN);
	assert_int_equal(ours.frame[2].where, MGL_NODE_CUT);
}

static void test_made_code(void **state)
{
	jit_function *frame = jit_make(jit_frame, sizeof(jit_frame));
	jit_function *bare = jit_make(jit_bare, sizeof(jit_bare));
	uint64_t cut = harness_cut_stacks();

	(void)state;
	for (int round = 0; round < 3; round++) {
		through(frame, 0);
		assert_guessed(frame);
	}
	assert_int_equal(harness_cut_stacks(), cut);
	static const uint64_t wild[] = {0,
					1,
					8,
					4096,
					0x7fffffffffff,
					UINT64_MAX,
					UINT64_MAX - 7,
					0x123456789abcdef0,
					UINT64_C(1) << 63};

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		through(bare, wild[i]);
		assert_cut_after(bare);
	}
	assert_int_equal(harness_cut_stacks(), cut + sizeof(wild) / sizeof(wild[0]));
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Near the stack, in code, in data, or anywhere. */
static uint64_t random_address(const char *unmapped)
{
	static void *const places[] = {(void *)check, (void *)&ours, (void *)qsort,
				       (void *)random_next};
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	switch (random_next() % 6) {
	case 0:
		return here + random_next() % 20000 - 1000;
	case 1:
		return (here + random_next() % 4000) & ~UINT64_C(7);
	case 2:
		return (uint64_t)(uintptr_t)places[random_next() % 4] + random_next() % 512;
	case 3:
		return (uint64_t)(uintptr_t)unmapped + 4096 - random_next() % 64 * 8;
	case 4:
		return random_next() >> random_next() % 64;
	default:
		return (uint64_t)(uintptr_t)unmapped + random_next() % 12288;
	}
}

/* Whatever the registers hold, nothing faults. */
static void test_wild_registers(void **state)
{
	char *page = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	jit_function *bare = jit_make(jit_bare, sizeof(jit_bare));
	struct unwind_regs regs;

	(void)state;
	munmap(page + 4096, 4096);
	for (int i = 0; i < 4096 / 8; i++)
		((uint64_t *)page)[i] = random_address(page);
	for (int i = 0; i < 60000; i++) {
		regs.pc = random_address(page);
		regs.sp = random_address(page);
		regs.bp = random_address(page);
		harness_unwind(&regs, &ours);
		assert_true(ours.count > 0);
		if (i % 8 == 0)
			through(bare, random_address(page));
		((uint64_t *)page)[random_next() % 512] = random_address(page);
	}
}

/* --- the agent's own frames ---------------------------------------------------------------- */

static void from_the_middle(void) { take_inside(); }

__attribute__((noinline)) static void interrupted(void)
{
	harness_hook(&outside);
	harness_during(from_the_middle);
	__asm__ volatile("");
}

static void test_own_frames_are_hidden(void **state)
{
	(void)state;
	interrupted();
	assert_int_equal(ours.count, outside.count + 2);
	for (size_t i = 1; i < outside.count; i++)
		assert_int_equal(ours.frame[i + 2].pc, outside.frame[i].pc);
}

/* --- depth ------------------------------------------------------------------------------------ */

__attribute__((noinline)) static void deep(int depth)
{
	if (depth == 0)
		harness_hook(&ours);
	else
		deep(depth - 1);
	__asm__ volatile("");
}

static void assert_depth(int depth, size_t kept)
{
	uint64_t cut = harness_cut_stacks();

	harness_hook(&outside);
	deep(depth);
	assert_int_equal(ours.count, kept + 1);
	for (size_t i = 0; i < ours.count; i++)
		assert_int_equal(ours.frame[i].where & MGL_NODE_CUT,
				 i == kept / 2 ? MGL_NODE_CUT : 0);
	assert_int_equal(ours.frame[kept / 2].pc, 0);
	/* The innermost frames, and the outermost: all but our own one are the same. */
	assert_int_equal(ours.frame[kept / 2 - 1].pc, ours.frame[1].pc);
	for (size_t i = 1; i < outside.count; i++)
		assert_int_equal(ours.frame[ours.count - i].pc,
				 outside.frame[outside.count - i].pc);
	assert_int_equal(harness_cut_stacks(), cut + 1);
}

static void test_depth(void **state)
{
	(void)state;
	harness_hook(&outside);
	deep(1024 - (int)outside.count - 1);
	assert_int_equal(ours.count, 1024);
	assert_depth(1024 - (int)outside.count, 1024);
	assert_depth(1500, 1024);
	assert_depth(20000, 1024);
	harness_depth(64);
	assert_depth(100, 64);
	harness_depth(1);
	assert_depth(100, 16);
	harness_depth(0);
	/* Beyond the bound of a walk the root is out of reach. */
	deep(70000);
	assert_int_equal(ours.count, 1024 + 2);
	assert_int_equal(ours.frame[512].where, MGL_NODE_CUT);
	assert_int_equal(ours.frame[1025].where, MGL_NODE_CUT);
}

/* The full-row tier deep in: a register is found through frames still kept. */
static void test_odd_rows_deep(void **state)
{
	uint64_t cut = harness_cut_stacks();

	(void)state;
	odd_r12(clobber_then_check);
	for (int depth = 3; depth < 400; depth *= 3)
		shapes_plain.recursion(depth);
	assert_checked(2);
	assert_int_equal(harness_cut_stacks(), cut);
}

/* --- modules --------------------------------------------------------------------------------- */

static char library_path[4096];

static const char *library(const char *program, const char *name)
{
	const char *slash = strrchr(program, '/');
	int directory = slash ? (int)(slash - program) + 1 : 0;

	snprintf(library_path, sizeof(library_path), "%.*slibunwind_%s.so", directory, program,
		 name);
	return library_path;
}

static const char *program_path;

/* The index of the library's module as the stack names it. */
static uint32_t through_library(const char *name, uint64_t *base)
{
	void *handle = dlopen(library(program_path, name), RTLD_NOW | RTLD_LOCAL);
	void (*call)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(handle, "reloaded_call");
	Dl_info info;

	assert_non_null(call);
	unw_flush_cache(unw_local_addr_space, 0, 0); /* libunwind is taken in by reloading */
	dladdr((void *)call, &info);
	*base = (uint64_t)(uintptr_t)info.dli_fbase;
	call(check);
	uint32_t index = ours.frame[1].where & MGL_NODE_MODULE_MASK;
	const struct mgl_module *m = harness_module(index);

	assert_non_null(m);
	assert_string_equal(harness_module_path(m), library_path);
	assert_int_equal(m->bias, *base);
	assert_true(ours.frame[1].pc >= m->start && ours.frame[1].pc < m->stop);
	assert_int_equal(m->unloaded_ns, 0);
	dlclose(handle);
	harness_unloaded();
	assert_true(m->unloaded_ns >= m->loaded_ns);
	return index;
}

static void test_reload(void **state)
{
	uint64_t base_a, base_b;
	uint32_t a = through_library("a", &base_a);
	uint32_t generation = harness_generation();
	uint32_t b = through_library("b", &base_b);

	(void)state;
	assert_int_equal(base_a, base_b); /* else this test shows nothing */
	assert_int_not_equal(a, b);
	assert_int_equal(harness_generation(), generation + 1);
	for (int round = 0; round < 20; round++) {
		/* The same library back at its place is the same module. */
		assert_int_equal(through_library("a", &base_a), a);
		assert_int_equal(through_library("b", &base_b), b);
	}
	assert_checked(42);
}

static void test_module_records(void **state)
{
	bool program = false, libc = false, agent = false, vdso = false;
	const struct mgl_module *m;

	(void)state;
	harness_reset();
	for (uint32_t index = 1; (m = harness_module(index)) != NULL; index++) {
		const char *path = harness_module_path(m);

		assert_true(m->start < m->stop);
		if (m->flags & MGL_MODULE_PROGRAM) {
			program = true;
			assert_string_equal(path, "");
			assert_in_range((uintptr_t)check, m->start, m->stop);
			assert_int_equal(m->build_id_bytes, 20);
		}
		if (strstr(path, "/libc.so.6")) {
			libc = true;
			assert_in_range((uintptr_t)dlsym(RTLD_DEFAULT, "qsort"), m->start, m->stop);
			assert_int_equal(m->build_id_bytes, 20);
		}
		agent |= (m->flags & MGL_MODULE_AGENT) && strstr(path, "unwind-harness");
		vdso |= (m->flags & MGL_MODULE_VDSO) != 0;
	}
	assert_true(program && libc && agent && vdso);
	shapes_omit.sort();
	assert_checked(1);
}

/* Where no system call is allowed, the stack known so far still serves. */
static void test_frozen(void **state)
{
	(void)state;
	check();
	harness_freeze(true);
	shapes_omit.sort();
	shapes_keep.recursion(30);
	odd_r12(clobber_then_check);
	harness_freeze(false);
	assert_checked(4);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_exceptions),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_odd_rows),
		cmocka_unit_test(test_odd_rows_deep),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_every_instruction),
		cmocka_unit_test(test_fibers),
		cmocka_unit_test(test_made_code),
		cmocka_unit_test(test_wild_registers),
		cmocka_unit_test(test_own_frames_are_hidden),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_module_records),
		cmocka_unit_test(test_frozen),
	};

	(void)argc;
	program_path = argv[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
