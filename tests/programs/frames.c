/*
 * frames OUT: blocks made in every kind of frame an unwinder meets. Says `stack COUNT FRAME…`, the
 * stack of COUNT blocks from the inside out: functions of this program by name, `made_code` for code
 * made at run time, `library` for any number of frames of libraries. There are no other stacks
 * with `made` innermost.
 */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "tally.h"

typedef void function(void);

/* frames.S */
void by_r12(function *f);
void by_expression(function *f);
void rbp_by_expression(function *f);
void clobber(function *f);
void tail_caller(function *f);
void last_call(function *f);
void faults_at_once(void);

/* frames_throw.cpp */
void catches(void);

enum { FIBER = 16384, ROUNDS = 3, KINDS = 64 };

static struct {
	const char *frames;
	uint64_t blocks;
} kinds[KINDS], *kind;

static void *volatile kept;
static volatile size_t some = 100;

void made(void);
SITE void made(void)
{
	kind->blocks++;
	kept = malloc(some);
	free(kept);
	KEEP_FRAME();
}

/* The stack of the next blocks. */
static void expect(const char *frames)
{
	for (kind = kinds; kind->frames && strcmp(kind->frames, frames) != 0; kind++)
		;
	kind->frames = frames;
}

/* --- what compilers make ------------------------------------------------------------------ */

SITE static void by_rsp(function *f)
{
	f();
	KEEP_FRAME();
}

SITE static void by_rbp(function *f)
{
	char *p = alloca(some);

	__asm__ volatile("" ::"r"(p) : "memory");
	f();
	KEEP_FRAME();
}

/* The CFA is *(rbp − k). */
SITE static void realigned(function *f)
{
	char buffer[64] __attribute__((aligned(64)));

	__asm__ volatile("" ::"r"(buffer) : "memory");
	f();
	KEEP_FRAME();
}

/* And is found by way of r10 in the prologue. */
SITE static void realigned_arguments(function *f, ...)
{
	char buffer[64] __attribute__((aligned(64)));
	char *p = alloca(some);
	va_list arguments;

	va_start(arguments, f);
	p[0] = (char)va_arg(arguments, int);
	__asm__ volatile("" ::"r"(buffer), "r"(p) : "memory");
	f();
	va_end(arguments);
	KEEP_FRAME();
}

SITE static void compiled(void)
{
	expect("made by_rsp compiled main library _start");
	by_rsp(made);
	expect("made by_rbp compiled main library _start");
	by_rbp(made);
	expect("made realigned compiled main library _start");
	realigned(made);
	expect("made realigned_arguments compiled main library _start");
	realigned_arguments(made, 1, 2, 3, 4, 5, 6, 7, 8);
}

/* --- what they do not ----------------------------------------------------------------------- */

SITE static void clobbers(void)
{
	clobber(made);
	KEEP_FRAME();
}

SITE static void expression_inside(void)
{
	by_expression(clobbers);
	KEEP_FRAME();
}

SITE static void written(void)
{
	expect("made clobber clobbers by_r12 written main library _start");
	by_r12(clobbers);
	expect("made clobber clobbers by_expression written main library _start");
	by_expression(clobbers);
	expect("made clobber clobbers by_expression expression_inside by_r12 written main library _start");
	by_r12(expression_inside);
	expect("made rbp_by_expression written main library _start");
	rbp_by_expression(made);
}

/* Code that keeps a frame pointer, calls its first argument and returns. */
SITE static void made_code(void)
{
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*volatile call)(function *) = (void (*)(function *))(uintptr_t)page;

	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	expect("made made_code made_code main library _start");
	call(made);
	munmap(page, 4096);
}

/* --- leaving ---------------------------------------------------------------------------------- */

static jmp_buf place;

SITE static void tail_target(void)
{
	made();
	KEEP_FRAME();
}

SITE static void makes_and_leaves(void)
{
	made();
	longjmp(place, 1);
}

SITE static int leaves_comparison(const void *a, const void *b)
{
	(void)a;
	(void)b;
	made();
	longjmp(place, 1);
}

SITE static void leaving(void)
{
	int numbers[] = {2, 1};

	expect("made tail_target leaving main library _start");
	tail_caller(tail_target);
	expect("made makes_and_leaves last_call leaving main library _start");
	if (setjmp(place) == 0)
		last_call(makes_and_leaves);
	expect("made leaves_comparison library leaving main library _start");
	if (setjmp(place) == 0)
		qsort(numbers, 2, sizeof(numbers[0]), leaves_comparison);
	expect("made by_rbp leaving main library _start");
	by_rbp(made);
}

/* --- signals ------------------------------------------------------------------------------------ */

static bool handler_leaves;

SITE static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	made();
	if (handler_leaves)
		siglongjmp(place, 1);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

SITE static void on_outer(int number)
{
	(void)number;
	faults_at_once();
	KEEP_FRAME();
}

static void handle(int number, int flags)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags};

	sigaction(number, &action, NULL);
}

SITE static void interrupted(void)
{
	faults_at_once();
	KEEP_FRAME();
}

SITE static void signals(void)
{
	stack_t none = {.ss_flags = SS_DISABLE};

	handle(SIGILL, 0);
	expect("made on_fault library faults_at_once interrupted signals main library _start");
	interrupted();
	handle(SIGILL, SA_ONSTACK);
	expect("made on_fault library faults_at_once interrupted signals main library _start");
	for (int round = 0; round < ROUNDS; round++) {
		void *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
		stack_t alternate = {.ss_sp = stack, .ss_size = 65536};

		sigaltstack(&alternate, NULL);
		interrupted();
		sigaltstack(&none, NULL);
		munmap(stack, 65536);
	}
	signal(SIGUSR1, on_outer);
	expect("made on_fault library faults_at_once on_outer library signals main library _start");
	raise(SIGUSR1);
	handler_leaves = true;
	if (sigsetjmp(place, 1) == 0)
		raise(SIGUSR1);
	handler_leaves = false;
	expect("made by_rsp signals main library _start");
	by_rsp(made);
}

/* Every instruction of the kernel's own code, which is in no file. */
static uintptr_t vdso;

SITE static void on_step(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (pc - vdso < 2 * 4096)
		made();
}

SITE static void asks_the_time(void)
{
	struct timespec now;

	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	clock_gettime(CLOCK_MONOTONIC, &now);
	__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

SITE static void steps(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	vdso = getauxval(AT_SYSINFO_EHDR);
	sigaction(SIGTRAP, &action, NULL);
	expect("made on_step library asks_the_time steps main library _start");
	asks_the_time();
	signal(SIGTRAP, SIG_DFL);
}

/* --- exceptions --------------------------------------------------------------------------- */

void caught(void);
SITE void caught(void)
{
	expect("made caught catches exceptions main library _start");
	made();
	KEEP_FRAME();
}

SITE static void exceptions(void)
{
	expect("made ~holder throws catches exceptions main library _start");
	catches();
}

/* --- roots ------------------------------------------------------------------------------------ */

SITE static void *thread(void *unused)
{
	made();
	KEEP_FRAME();
	return unused;
}

static ucontext_t main_context, fiber_context;

SITE static void fiber(void)
{
	made();
	swapcontext(&fiber_context, &main_context);
	made();
	KEEP_FRAME();
}

SITE static void roots(void)
{
	pthread_t id;

	expect("made thread library");
	for (int round = 0; round < ROUNDS; round++) {
		pthread_create(&id, NULL, thread, NULL);
		pthread_join(id, NULL);
	}
	expect("made fiber library");
	for (int round = 0; round < ROUNDS; round++) {
		void *stack = mmap(NULL, FIBER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		getcontext(&fiber_context);
		fiber_context.uc_stack.ss_sp = stack;
		fiber_context.uc_stack.ss_size = FIBER;
		fiber_context.uc_link = &main_context;
		makecontext(&fiber_context, fiber, 0);
		swapcontext(&main_context, &fiber_context);
		swapcontext(&main_context, &fiber_context);
		munmap(stack, FIBER);
	}
	expect("made by_rsp roots main library _start");
	by_rsp(made);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	say_open(argv[1]);
	for (int round = 0; round < ROUNDS; round++) {
		compiled();
		written();
		made_code();
		leaving();
		signals();
		steps();
		exceptions();
		roots();
	}
	for (kind = kinds; kind->frames; kind++) {
		say_word("stack");
		say_number((int64_t)kind->blocks);
		say_word(kind->frames);
		say_end();
	}
	say_flush();
	return 0;
}
