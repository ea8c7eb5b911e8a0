/*
 * wander OUT SEED BLOCKS [simple]: BLOCKS blocks made on the way through random calls of functions with
 * frames of every kind, on the thread's stack, on alternate signal stacks and in fibers whose stacks
 * of many sizes lie where others were before, left by return, longjmp and exceptions. What a
 * profiler remembers of a stack is wrong here as often as can be.  With `simple` no
 * CFA is anywhere but in rsp and rbp. Says `blocks`, how many it made.
 */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tally.h"

typedef void function(void);

/* frames.S, wander_throw.cpp */
void by_r12(function *f);
void by_expression(function *f);
void rbp_by_expression(function *f);
void clobber(function *f);
void tail_caller(function *f);
void wander_throws(void);
void wander_catches(function *f);

enum {
	DEPTH = 14,
	FIBER_DEPTH = 4,
	FIBERS = 6,
	PAGE = 4096,
	PLACE = 32 * PAGE,
	ALTERNATE = 64 * 1024
};

static uint64_t seed, blocks, blocks_left;
static void *volatile kept[32];

/* Of the stack that runs. */
static struct state {
	unsigned depth; /* calls still to be made */
	sigjmp_buf *innermost;
	unsigned catchers; /* on the way in */
} now;

static unsigned draw(unsigned below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 20) % below;
}

SITE static void make(void)
{
	size_t size = 1 + draw(100), at = draw(32);

	if (blocks_left == 0)
		return;
	blocks++;
	blocks_left--;
	free(kept[at]);
	kept[at] = malloc(size);
	KEEP_FRAME();
}

SITE static void make_deeper(void)
{
	make();
	KEEP_FRAME();
}

/* From two places, in any order. */
SITE static void make_some(void)
{
	for (unsigned n = 1 + draw(5); n > 0; n--) {
		if (draw(2))
			make();
		else
			make_deeper();
	}
	KEEP_FRAME();
}

static void wander(void);

/* --- frames ------------------------------------------------------------------------------- */

/* Frames of one size, told apart by nothing but where they return to. */
SITE static void plain(function *f)
{
	f();
	KEEP_FRAME();
}

SITE static void as_plain(function *f)
{
	f();
	KEEP_FRAME();
	seed++;
}

/* Of a few sizes: 16 and 32 bytes are as much as 32 and 16. */

SITE static void with_rbp(function *f)
{
	char *p = alloca(16 * (1 + draw(3)));

	__asm__ volatile("" ::"r"(p) : "memory");
	f();
	KEEP_FRAME();
}

SITE static void large(function *f)
{
	char buffer[3000]; /* what was here before stays */

	__asm__ volatile("" ::"r"(buffer) : "memory");
	f();
	KEEP_FRAME();
}

SITE static void realigned(function *f)
{
	char buffer[64] __attribute__((aligned(64)));

	__asm__ volatile("" ::"r"(buffer) : "memory");
	f();
	KEEP_FRAME();
}

SITE static void realigned_arguments(function *f, ...)
{
	char buffer[64] __attribute__((aligned(64)));
	char *p = alloca(16 * (1 + draw(3)));
	va_list arguments;

	va_start(arguments, f);
	p[0] = (char)va_arg(arguments, int);
	__asm__ volatile("" ::"r"(buffer), "r"(p) : "memory");
	f();
	va_end(arguments);
	KEEP_FRAME();
}

SITE static void many_arguments(function *f)
{
	realigned_arguments(f, 1, 2, 3, 4, 5, 6, 7, 8);
	KEEP_FRAME();
}

static int compares(const void *a, const void *b)
{
	(void)a;
	(void)b;
	wander();
	return 0;
}

SITE static void sorts(function *f)
{
	int two[2] = {2, 1};

	(void)f;
	qsort(two, 2, sizeof(two[0]), compares);
	KEEP_FRAME();
}

/* --- leaving --------------------------------------------------------------------------------- */

SITE static void returns_twice(function *f)
{
	volatile struct state before = now;
	sigjmp_buf here;

	now.innermost = &here;
	if (sigsetjmp(here, 1) == 0)
		f();
	else
		make();
	now = before;
	KEEP_FRAME();
}

SITE static void catches(function *f)
{
	struct state before = now;

	now.catchers++;
	wander_catches(f);
	now = before;
	make();
}

/* --- signals ------------------------------------------------------------------------------------ */

static char *alternate;
static unsigned on_alternate;

SITE static void on_signal(int number)
{
	(void)number;
	wander();
	KEEP_FRAME();
}

SITE static void raises(function *f)
{
	(void)f;
	raise(SIGUSR1);
	KEEP_FRAME();
}

/* On a stack that lies elsewhere each time. No fiber runs meanwhile, and no jump leaves. */
SITE static void raises_elsewhere(function *f)
{
	struct state before = now;

	(void)f;
	if (on_alternate++ == 0) {
		stack_t there = {.ss_sp = alternate + PAGE * draw(2), .ss_size = ALTERNATE};

		now.innermost = NULL;
		now.catchers = 0;
		sigaltstack(&there, NULL);
		raise(SIGUSR2);
		now = before;
	}
	on_alternate--;
	KEEP_FRAME();
}

/* --- fibers -------------------------------------------------------------------------------------- */

static struct fiber {
	ucontext_t context;
	char *stack; /* NULL = it has ended */
	size_t bytes;
	struct state state;
	bool ended;
} fibers[FIBERS], *running;

static ucontext_t outside;
static char *places;

static void fiber(void)
{
	wander();
	wander();
	running->ended = true;
}

static void fiber_start(struct fiber *f, size_t place)
{
	f->bytes = PAGE * (8 + draw(16));
	f->stack = mmap(places + place * PLACE + PAGE * 8 * draw(2), f->bytes,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	f->state = (struct state){.depth = FIBER_DEPTH};
	f->ended = false;
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = f->bytes;
	f->context.uc_link = &outside;
	makecontext(&f->context, fiber, 0);
}

/* Into a fiber, or back out of it. */
SITE static void switches(function *f)
{
	struct state before = now;
	unsigned which = draw(FIBERS);

	(void)f;
	if (on_alternate)
		return;
	if (running) {
		struct fiber *self = running;

		swapcontext(&self->context, &outside);
		running = self;
	} else {
		running = &fibers[which];
		if (!running->stack)
			fiber_start(running, which);
		now = running->state;
		swapcontext(&outside, &running->context);
		if (running->ended) {
			mmap(running->stack, running->bytes, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			running->stack = NULL;
		}
		running = NULL;
	}
	now = before;
	KEEP_FRAME();
}

/* --- the way --------------------------------------------------------------------------------------- */

static void (*const kinds[])(function *) = {
	plain,
	plain,
	plain,
	as_plain,
	as_plain,
	as_plain,
	with_rbp,
	with_rbp,
	with_rbp,
	large,
	realigned,
	many_arguments,
	sorts,
	clobber,
	raises,
	rbp_by_expression,
	switches,
	catches,
	returns_twice,
	raises_elsewhere,
	tail_caller,
	/* not simple */
	by_r12,
	by_expression,
};
static unsigned kinds_used = sizeof(kinds) / sizeof(kinds[0]);

SITE static void through(void)
{
	plain(wander);
	KEEP_FRAME();
}

SITE static void elsewhere(void)
{
	raises_elsewhere(NULL);
	KEEP_FRAME();
}

static function *const inside[] = {wander, wander, through, elsewhere};

SITE static void wander(void)
{
	struct state before = now;

	for (unsigned calls = 1 + draw(3); calls > 0 && now.depth > 0 && blocks_left > 0; calls--) {
		make_some();
		now.depth--;
		function *f = inside[draw(4)];

		if (draw(2))
			kinds[draw(kinds_used)](f);
		else
			kinds[draw(kinds_used)](f);
		now = before;
		if (draw(60) == 0 && now.innermost)
			siglongjmp(*now.innermost, 1);
		if (draw(60) == 0 && now.catchers)
			wander_throws();
	}
	make_some();
	KEEP_FRAME();
}

static void handle(int number, int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER | flags};

	sigaction(number, &action, NULL);
}

int main(int argc, char **argv)
{
	say_open(argv[1]);
	seed = number_of(argv[2]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	blocks_left = number_of(argv[3]);
	if (argc > 4)
		kinds_used -= 2;
	alternate = mmap(NULL, ALTERNATE + 16 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	places = mmap(NULL, FIBERS * PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_ONSTACK);
	while (blocks_left > 0) {
		now.depth = DEPTH;
		wander();
	}
	say_count("blocks", blocks);
	say_flush();
	return 0;
}
