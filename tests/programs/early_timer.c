/*
 * A library to preload that starts a 20 µs storm of signals in its constructor. The handler
 * makes and frees a block unless it interrupted the C library, the loader or an allocator.
 * EARLY_TIMER_OUT names a file that gets one byte per thousand signals, so that a test can
 * tell there was a storm.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static struct {
	uintptr_t start, stop;
} not_here[16];
static int range_count, out = -1;
static volatile unsigned signals;

static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (strstr(info->dlpi_name, "libc.so") == NULL &&
	    strstr(info->dlpi_name, "ld-linux") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < 16; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		not_here[range_count].start = info->dlpi_addr + p->p_vaddr;
		not_here[range_count++].stop = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

static void on_alarm(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	void *volatile p;

	(void)number;
	(void)info;
	if (++signals % 1000 == 0 && out >= 0 && write(out, ".", 1) != 1)
		_exit(90);
	for (int i = 0; i < range_count; i++)
		if (pc >= not_here[i].start && pc < not_here[i].stop)
			return;
	p = malloc(56);
	free(p);
}

__attribute__((constructor(101))) static void begin(void)
{
	struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 20}, {0, 20}};
	const char *path = getenv("EARLY_TIMER_OUT");

	if (path != NULL)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	dl_iterate_phdr(note_range, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	/* Enough time for the first signals to come before anything else starts. */
	while (signals < 20)
		;
}
