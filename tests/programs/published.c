/*
 * published PAGE CHILDREN SEED: forks children that allocate without end, and kills each
 * at a random instant, every fourth maybe before its first call. Every child keeps its counts in its own part of the shared file
 * PAGE, with CHILDREN = 0 the process itself does, until somebody kills it.
 *
 * A part is a struct published. The counts as they will be after a call are stored before it,
 * then `started` grows; `finished` follows when the call has returned. So at any death
 * the truth is states[finished & 3], or states[started & 3] if the call had taken effect.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tally.h"

struct published {
	int64_t pid;
	_Atomic uint64_t started;
	_Atomic uint64_t finished;
	struct tally states[4];
};

#define LIVE 256

static void *blocks[LIVE];
static size_t sizes[LIVE];

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *make_again(void *old, size_t size)
{
	void *p = realloc(old, size);

	KEEP_FRAME();
	return p;
}

static void start(struct published *p, const struct tally *next)
{
	uint64_t n = atomic_load_explicit(&p->started, memory_order_relaxed) + 1;

	p->states[n & 3] = *next;
	atomic_store_explicit(&p->started, n, memory_order_release);
}

static void finish(struct published *p)
{
	atomic_store_explicit(&p->finished, p->started, memory_order_release);
}

static _Noreturn void work(struct published *p, uint64_t seed)
{
	struct tally t = {0};
	int last = -1;

	p->pid = getpid();
	for (;;) {
		int i = (int)random_below(&seed, LIVE);
		size_t size = 16 + random_below(&seed, 3000);

		if (blocks[i] == NULL) {
			tally_in(&t, size);
			start(p, &t);
			blocks[i] = make(size);
			sizes[i] = size;
			last = i;
		} else if (random_below(&seed, 3) == 0) {
			/* The peak sees only the difference. */
			t.frees++;
			t.temporary += last == i;
			t.live_bytes -= sizes[i];
			t.live_blocks--;
			tally_in(&t, size);
			start(p, &t);
			blocks[i] = make_again(blocks[i], size);
			sizes[i] = size;
			last = i;
		} else {
			tally_out(&t, sizes[i]);
			t.temporary += last == i;
			start(p, &t);
			free(blocks[i]);
			blocks[i] = NULL;
			last = last == i ? -1 : last;
		}
		finish(p);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	uint64_t children = number_of(argv[2]);
	uint64_t seed = number_of(argv[3]);
	size_t parts = children ? children : 1;
	int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || ftruncate(fd, (off_t)(parts * sizeof(struct published))) != 0)
		return 3;
	struct published *all =
		mmap(NULL, parts * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (all == MAP_FAILED)
		return 3;
	if (children == 0)
		work(all, seed);
	for (uint64_t i = 0; i < children; i++) {
		struct timespec nap = {0, (long)random_below(&seed, 4000000)};
		uint64_t own = random_next(&seed);
		pid_t pid = fork();

		if (pid == 0)
			work(&all[i], own);
		/* Most are past their first call, however busy the machine is. */
		while (pid > 0 && i % 4 != 0 && !atomic_load(&all[i].finished))
			sched_yield();
		nanosleep(&nap, NULL);
		if (pid < 0 || kill(pid, SIGKILL) != 0 || waitpid(pid, NULL, 0) != pid)
			return 4;
	}
	return 0;
}
