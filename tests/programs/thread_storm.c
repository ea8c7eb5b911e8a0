/*
 * thread_storm OUT THREADS CALLS: threads that make and free blocks, each under a 50 µs timer
 * of its own whose handler makes and frees one too, unless it has come into the C library or
 * the loader. Says its tally of what the threads did, and `handled`.
 */
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "tally.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { RANGES = 16, THREADS = 64, HELD = 32 };

static struct {
	uintptr_t start, stop;
} not_here[RANGES];
static int range_count;
static _Atomic uint64_t handled;
static uint64_t calls;
static struct tally tallies[THREADS];

static int note_range(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (strstr(info->dlpi_name, "libc.so") == NULL &&
	    strstr(info->dlpi_name, "ld-linux") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < RANGES; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		not_here[range_count].start = info->dlpi_addr + p->p_vaddr;
		not_here[range_count++].stop = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

SITE static void *in_handler(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *in_thread(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

static void on_alarm(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	for (int i = 0; i < range_count; i++)
		if (pc >= not_here[i].start && pc < not_here[i].stop)
			return;
	free(in_handler(40));
	atomic_fetch_add(&handled, 1);
}

static void *work(void *place)
{
	struct tally *t = place;
	uint64_t seed = (uint64_t)(t - tallies) + 1;
	void *held[HELD] = {NULL};
	size_t sizes[HELD];
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	struct itimerspec often = {{0, 50000}, {0, 50000}};

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
	    timer_settime(timer, 0, &often, NULL) != 0)
		_exit(3);
	for (uint64_t i = 0; i < calls; i++) {
		size_t k = random_below(&seed, HELD);

		if (held[k] == NULL) {
			sizes[k] = 16 + random_below(&seed, 500);
			held[k] = in_thread(sizes[k]);
			tally_in(t, sizes[k]);
		} else {
			tally_out(t, sizes[k]);
			free(held[k]);
			held[k] = NULL;
		}
	}
	timer_delete(timer);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
	pthread_t threads[THREADS];
	struct tally sum = {0};

	if (argc != 4)
		return 2;
	size_t count = number_of(argv[2]);

	if (count > THREADS)
		return 2;
	calls = number_of(argv[3]);
	say_open(argv[1]);
	dl_iterate_phdr(note_range, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, &tallies[i]) != 0)
			return 4;
	for (size_t i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		sum.allocations += tallies[i].allocations;
		sum.frees += tallies[i].frees;
		sum.allocated_bytes += tallies[i].allocated_bytes;
		sum.live_blocks += tallies[i].live_blocks;
		sum.live_bytes += tallies[i].live_bytes;
	}
	say_process();
	say_tally(&sum);
	say_count("handled", handled);
	say_flush();
	return 0;
}
