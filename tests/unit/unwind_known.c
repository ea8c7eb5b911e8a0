/*
 * The unwinder against what is known of a stack, where libunwind knows no better: code
 * without CFI, wild registers, depth, the agent's own frames, modules.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "unwind_compare.h"

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

/* --- another stack, far below ------------------------------------------------------------------ */

static ucontext_t main_context, low_context;
static char *high_stack;
static uint64_t into_switch; /* a return address */
enum { OTHER_STACK = 65536 };

static void in_low_fiber(void)
{
	for (int round = 0; round < 3; round++) {
		harness_hook(&outside);
		odd_caller(take_inside, high_stack + OTHER_STACK);
	}
}

static void *low_pages(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
		    -1, 0);
}

/* take_inside, the function that switched, then with a guess its caller and the frames outside. */
static void test_from_one_stack_to_another(void **state)
{
	uint64_t cut = harness_cut_stacks();
	char *low_stack = low_pages(OTHER_STACK);

	(void)state;
	high_stack =
		mmap(NULL, OTHER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(low_stack < high_stack);
	getcontext(&low_context);
	low_context.uc_stack.ss_sp = low_stack;
	low_context.uc_stack.ss_size = OTHER_STACK;
	low_context.uc_link = &main_context;
	makecontext(&low_context, in_low_fiber, 0);
	swapcontext(&main_context, &low_context);
	assert_int_equal(ours.count, outside.count + 3);
	into_switch = ours.frame[1].pc;
	assert_in_range(ours.frame[2].pc, (uintptr_t)odd_caller, (uintptr_t)odd_caller + 16);
	assert_int_equal(ours.frame[2].where & MGL_NODE_FP, MGL_NODE_FP);
	for (size_t i = 1; i < outside.count; i++)
		assert_int_equal(ours.frame[i + 3].pc, outside.frame[i].pc);
	assert_int_equal(harness_cut_stacks(), cut);
	munmap(low_stack, OTHER_STACK);
	munmap(high_stack, OTHER_STACK);
}

/* A record like that, and then none any more: it is asked for each time. */
static void test_from_one_stack_to_none(void **state)
{
	uint64_t *record = low_pages(4096);

	(void)state;
	record[0] = 0;
	record[1] = into_switch;
	for (int round = 0; round < 3; round++) {
		odd_rbp(take_inside, record);
		assert_int_equal(ours.count, 3);
		assert_int_equal(ours.frame[2].pc, into_switch);
	}
	record[0] = (uintptr_t)record + 12;
	odd_rbp(take_inside, record);
	assert_int_equal(ours.frame[2].where, MGL_NODE_CUT);
	record[0] = 0;
	record[1] = into_switch + 1;
	odd_rbp(take_inside, record);
	assert_int_equal(ours.frame[2].where, MGL_NODE_CUT);
	munmap(record, 4096);
	odd_rbp(take_inside, record);
	assert_int_equal(ours.count, 3);
	assert_int_equal(ours.frame[2].where, MGL_NODE_CUT);
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
	forget_theirs(); /* libunwind is taken in by reloading */
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

int unwind_known(const char *program)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_odd_rows_deep),
		cmocka_unit_test(test_made_code),
		cmocka_unit_test(test_from_one_stack_to_another),
		cmocka_unit_test(test_from_one_stack_to_none),
		cmocka_unit_test(test_wild_registers),
		cmocka_unit_test(test_own_frames_are_hidden),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_module_records),
		cmocka_unit_test(test_frozen),
	};

	program_path = program;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
