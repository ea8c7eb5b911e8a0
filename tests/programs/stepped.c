/*
 * stepped OUT HOW: calls interrupted at each of the profiler's instructions in turn. Which they
 * are the processor's single-stepping tells; each then becomes a breakpoint once, whose handler
 * does what HOW tells:
 *   jump       leaves by siglongjmp
 *   alternate  the same, where the call itself runs in a handler, on its alternate stack
 *   fiber      the same, where the call runs on a fiber's stack, which is unmapped then
 *   nested     makes and frees a block
 *   jailed     the same, where no system call is allowed any more (seccomp's strict mode)
 *   inside     makes a block, which is freed when the call is over; the instructions are not the
 *              profiler's but libreentrant's, an allocator that bears it
 *   jump_inside leaves by siglongjmp, from there
 *   fork       forks by a bare system call; the child returns into the call, makes and frees
 *              blocks of its own, says so, and ends
 * After each jump blocks are made and freed from deeper than the call that was left was, and in
 * the fiber's case on a stack below its. Says its tally of those (`after`, or `child`'s), then
 * of what it holds (`kept`); `acts`, how many instructions were interrupted; `nested`, blocks made
 * where the handler does.
 */
#include <link.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tally.h"

enum { RANGES = 8, CALLS = 3, PLACES = 8192, STACK = 256 * 1024, DEPTH = 12, KEPT = 500 };

#define TRAP_FLAG 0x100

static struct tally t;
static struct {
	uintptr_t start, stop;
} here[RANGES];
static int range_count;
static sigjmp_buf back;
static ucontext_t main_context, fiber_context;
static unsigned char *places[PLACES]; /* instructions of the call, as first met */
static int place_count;
static unsigned char *volatile breakpoint;
static unsigned char covered; /* what stood there */
static volatile int stepping, acted, held, in_child;
static uint64_t acts, nested;
static int jumping, nesting, forking, jailed, with_fiber;
static const char *where = "mallograph-agent"; /* the library whose instructions count */
static void *volatile from_handler;

SITE static void *after(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *kept(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *in_handler(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; strstr(info->dlpi_name, where) && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || range_count == RANGES)
			continue;
		uintptr_t start = info->dlpi_addr + p->p_vaddr, page = start & ~(uintptr_t)4095;

		here[range_count].start = start;
		here[range_count].stop = start + p->p_memsz;
		if (mprotect((void *)page, here[range_count++].stop - page,
			     PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
			_exit(6);
	}
	return 0;
}

static int is_here(uintptr_t pc)
{
	for (int i = 0; i < range_count; i++)
		if (pc >= here[i].start && pc < here[i].stop)
			return 1;
	return 0;
}

static void fork_here(void)
{
	long pid;

	/* No function of the C library's: the profiler sees nothing of it. */
	__asm__ volatile("syscall"
			 : "=a"(pid)
			 : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0)
			 : "rcx", "r11", "memory");
	if (pid == 0)
		in_child = 1;
}

/* A thread that has SIGTRAP blocked does not survive a step. */
static int blocks_signals(const greg_t *reg)
{
	const unsigned char *code = (const unsigned char *)reg[REG_RIP];

	return code[0] == 0x0f && code[1] == 0x05 && reg[REG_RAX] == SYS_rt_sigprocmask &&
	       reg[REG_RDI] == SIG_SETMASK;
}

static void step(greg_t *reg)
{
	unsigned char *pc = (unsigned char *)reg[REG_RIP];

	if (blocks_signals(reg)) {
		held = 1;
		reg[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	if (!is_here((uintptr_t)pc))
		return;
	for (int i = 0; i < place_count; i++)
		if (places[i] == pc)
			return;
	if (place_count == PLACES)
		_exit(5);
	places[place_count++] = pc;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	if (stepping) {
		step(reg);
		return;
	}
	*breakpoint = covered;
	reg[REG_RIP] = (greg_t)breakpoint;
	acted = 1;
	acts++;
	if (nesting && strcmp(where, "libreentrant") == 0) {
		from_handler = in_handler(40);
		nested++;
	} else if (nesting) {
		free(in_handler(40));
		nested++;
	}
	if (forking)
		fork_here();
	if (jumping)
		siglongjmp(back, 1);
}

#define FLAGS(operation)                                                                       \
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " operation ", (%%rsp); popfq; lea " \
			 "128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")

/* One of the calls. */
SITE static void one_call(int which, void *block)
{
	void *volatile p = block;

	if (stepping)
		FLAGS("orq $0x100");
	if (which == 0)
		p = malloc(64);
	else if (which == 1)
		free(p);
	else
		p = realloc(p, 200);
	if (stepping)
		FLAGS("andq $-257");
	if (which != 1)
		free(p);
}

/* --- what follows --------------------------------------------------------------------- */

SITE static void use_deeper(int depth)
{
	char frame[64];

	__asm__ volatile("" ::"r"(frame) : "memory");
	if (depth > 0) {
		use_deeper(depth - 1);
		KEEP_FRAME();
		return;
	}
	for (int i = 0; i < 3; i++) {
		void *p = after(24);

		tally_in(&t, 24);
		free(p);
		tally_out(&t, 24);
		t.temporary++;
	}
}

static void use_in_fiber(void) { use_deeper(DEPTH); }

static void run_fiber(char *stack, void (*function)(void))
{
	getcontext(&fiber_context);
	fiber_context.uc_stack.ss_sp = stack;
	fiber_context.uc_stack.ss_size = STACK;
	fiber_context.uc_link = &main_context;
	makecontext(&fiber_context, function, 0);
	swapcontext(&main_context, &fiber_context);
}

/* --- the loops ------------------------------------------------------------------------ */

static int fiber_which;
static void *fiber_block;

static void call_in_fiber(void) { one_call(fiber_which, fiber_block); }

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	return p;
}

/* Makes one of the calls; `block` is what it is called with. */
static void make_call(int which, char *stacks)
{
	void *block = which == 0 ? NULL : malloc(48);

	if (with_fiber) {
		fiber_which = which;
		fiber_block = block;
		run_fiber(stacks + STACK, call_in_fiber);
	} else {
		one_call(which, block);
	}
}

static char *stacks_for_call(void) { return with_fiber ? map(2 * STACK) : NULL; }

static void stacks_end(char *stacks)
{
	if (with_fiber)
		munmap(stacks, 2 * STACK);
}

/* Finds the instructions of a call that does nothing for the first time. So the second one that
 * is stepped counts: to the profiler its stack is another than that of calls that are not. What
 * only a new stack comes to may also run where signals are blocked, and a breakpoint there would
 * end the program. */
static void find_places(int which)
{
	char *stacks = stacks_for_call();

	for (int pass = 0; pass < 2 || held; pass++) {
		place_count = held = 0;
		/* Not one of the few after a pause, at which the profiler looks at the clock. */
		for (int i = 0; i < 500; i++)
			make_call(which, stacks);
		stepping = 1;
		make_call(which, stacks);
		stepping = 0;
	}
	stacks_end(stacks);
}

static void interrupt_at(int which, unsigned char *place)
{
	char *stacks = stacks_for_call();

	make_call(which, stacks);
	breakpoint = place;
	covered = *place;
	acted = 0;
	*place = 0xcc;
	if (sigsetjmp(back, jumping) == 0)
		make_call(which, stacks);
	*place = covered;
	free(from_handler);
	from_handler = NULL;
	if (with_fiber && acted) {
		/* Somebody else's, perhaps, from then on. */
		munmap(stacks + STACK, STACK);
		run_fiber(stacks, use_in_fiber);
		munmap(stacks, STACK);
		return;
	}
	if (acted && jumping)
		use_deeper(DEPTH);
	stacks_end(stacks);
}

static void child_ends(void)
{
	memset(&t, 0, sizeof(t));
	use_deeper(DEPTH);
	say_process();
	say_tally(&t);
	say_flush();
	_exit(0);
}

static void all(void)
{
	char *stacks = stacks_for_call();
	int status;

	/* What is made once is made before. */
	for (int i = 0; i < 200; i++) {
		make_call(i % CALLS, stacks);
		use_deeper(DEPTH);
		if (nesting && !jailed) {
			free(in_handler(40));
			nested++;
		}
	}
	stacks_end(stacks);
	if (jailed && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		_exit(7);
	for (int which = 0; which < CALLS; which++) {
		find_places(which);
		for (int i = 0; i < place_count; i++) {
			interrupt_at(which, places[i]);
			if (in_child)
				child_ends();
			if (forking && acted && (wait(&status) < 0 || status != 0))
				_exit(4);
		}
	}
}

static void on_user(int number)
{
	(void)number;
	all();
}

int main(int argc, char **argv)
{
	struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};

	if (argc != 3)
		return 2;
	with_fiber = strcmp(argv[2], "fiber") == 0;
	if (strstr(argv[2], "inside"))
		where = "libreentrant";
	jailed = strcmp(argv[2], "jailed") == 0;
	nesting = jailed || strcmp(argv[2], "nested") == 0 || strcmp(argv[2], "inside") == 0;
	forking = strcmp(argv[2], "fork") == 0;
	jumping = !nesting && !forking;
	say_open(argv[1]);

	uint64_t pid = (uint64_t)getpid(); /* cannot be asked for later, in jail */

	dl_iterate_phdr(note_range, NULL);
	if (strcmp(argv[2], "alternate") == 0) {
		stack_t alternate = {.ss_sp = map(STACK), .ss_size = STACK};

		sigaltstack(&alternate, NULL);
		trap.sa_flags |= SA_ONSTACK;
		sigaction(SIGUSR1, &user, NULL);
		sigaction(SIGTRAP, &trap, NULL);
		raise(SIGUSR1);
	} else {
		sigaction(SIGTRAP, &trap, NULL);
		all();
	}
	say_count("process", pid);
	say_tally(&t);
	for (int i = 0; i < KEPT; i++)
		kept(128);
	say_count("kept", KEPT);
	say_count("acts", acts);
	say_count("nested", nested);
	say_flush();
	if (jailed)
		syscall(SYS_exit, 0);
	return 0;
}
