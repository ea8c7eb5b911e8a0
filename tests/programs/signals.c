/*
 * signals OUT HOW COUNT: blocks made and freed under a storm of signals, as HOW tells:
 *   jump     a handler leaves by siglongjmp, often from the middle of a profiler's hook, never from
 *            the C library, which would not bear it
 *   nested   a handler makes and frees blocks of its own, where the C library lets it
 *   plain    a handler does nothing; with libearly_timer preloaded the storm begins before main
 *            and its handler is that library's
 * Then COUNT blocks are made and freed in peace. Says its tally of `calm`; `stormed`, how many
 * calls in the storm returned; `jumps`; `nested`, blocks the handler made.
 */
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>

#include "tally.h"

enum { RANGES = 16 };

static struct tally t;
static struct {
	uintptr_t start, stop;
} not_here[RANGES];
static int range_count;
static sigjmp_buf back;
static volatile sig_atomic_t may_jump;
static volatile uint64_t jumps, nested, stormed;
static int jumping, nesting;

SITE static void *calm(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *in_storm(size_t size)
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

/* Where a handler must not jump from or allocate in: the C library and the loader. */
static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (strstr(info->dlpi_name, "libc.so") == NULL &&
	    strstr(info->dlpi_name, "ld-linux") == NULL && strstr(info->dlpi_name, "alloc") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || range_count == RANGES)
			continue;
		not_here[range_count].start = info->dlpi_addr + p->p_vaddr;
		not_here[range_count++].stop = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

static int in_library(const void *context)
{
	uintptr_t pc = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	for (int i = 0; i < range_count; i++)
		if (pc >= not_here[i].start && pc < not_here[i].stop)
			return 1;
	return 0;
}

/* A hook of the profiler that called the real function is below the C library's frame, and
 * the jump would leave both; so the pc alone decides. */
static void on_alarm(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (in_library(context))
		return;
	if (nesting) {
		free(in_handler(40));
		nested++;
	}
	if (jumping && may_jump) {
		may_jump = 0;
		jumps++;
		siglongjmp(back, 1);
	}
}

static void storm(uint64_t count)
{
	struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	sigsetjmp(back, 1);
	may_jump = 1;
	while (stormed < count || (jumping && jumps < 300)) {
		/* A block lost between these is the program's own loss, not the profiler's. */
		void *volatile p = in_storm(64);

		free(p);
		stormed++;
	}
	may_jump = 0;
	setitimer(ITIMER_REAL, &never, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	uint64_t count = number_of(argv[3]);

	jumping = strcmp(argv[2], "jump") == 0;
	nesting = strcmp(argv[2], "nested") == 0;
	say_open(argv[1]);
	dl_iterate_phdr(note_range, NULL);
	storm(count);
	for (uint64_t i = 0; i < count; i++) {
		void *p = calm(128);

		tally_in(&t, 128);
		if (i % 2 == 0) {
			free(p);
			tally_out(&t, 128);
			t.temporary++;
		}
	}
	say_process();
	say_tally(&t);
	say_count("stormed", stormed);
	say_count("jumps", jumps);
	say_count("nested", nested);
	say_flush();
	return 0;
}
