/*
 * atforks OUT THREADS COUNT: forks COUNT children, one after another, while THREADS threads make
 * and free blocks of their own. Three sets of pthread_atfork's handlers make blocks before the
 * fork, which parent and child each free after it, in handlers too, beside blocks of their own.
 * Every process says `process PID`, `role`, its tally since it began (with threads without a peak),
 * and `inherited`, how many frees of blocks it had from its parent are not in that tally.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tally.h"

enum { SETS = 3, THREADS = 16, HELD = 64 };

static struct tally t, tallies[THREADS];
static uint64_t inherited;
static void *before[SETS]; /* made by the handlers before */
static void *after[SETS];  /* and by those of a child */
static atomic_bool over;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	return p;
}

/* One that is gone at once. */
static void make_temporary(size_t size)
{
	free(make(size));
	tally_in(&t, size);
	tally_out(&t, size);
	t.temporary++;
}

static void prepare(int set)
{
	make_temporary(300 + (size_t)set);
	before[set] = make(100 + (size_t)set);
	tally_in(&t, 100 + (size_t)set);
	if (set == 1)
		make_temporary(40000);
}

static void in_parent(int set)
{
	make_temporary(400 + (size_t)set);
	free(before[set]);
	tally_out(&t, 100 + (size_t)set);
}

static void in_child(int set)
{
	if (set == 0) {
		memset(&t, 0, sizeof(t));
		inherited = 0;
	}
	free(before[set]);
	inherited++;
	after[set] = make(200 + (size_t)set);
	tally_in(&t, 200 + (size_t)set);
	make_temporary(500);
}

#define SET(n)                                            \
	static void prepare_##n(void) { prepare(n); }     \
	static void in_parent_##n(void) { in_parent(n); } \
	static void in_child_##n(void) { in_child(n); }
SET(0)
SET(1)
SET(2)

static void say(const char *role)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_tally(&t);
	say_count("inherited", inherited);
	say_flush();
}

_Noreturn static void be_child(void)
{
	for (int i = 0; i < SETS; i++) {
		make_temporary(600);
		free(after[i]);
		tally_out(&t, 200 + (size_t)i);
	}
	say("child");
	_exit(0);
}

static void *work(void *place)
{
	struct tally *own = place;
	uint64_t seed = (uint64_t)(own - tallies);
	void *held[HELD] = {NULL};
	size_t sizes[HELD], last = HELD;

	while (!over) {
		size_t k = random_below(&seed, HELD);

		if (held[k] == NULL) {
			sizes[k] = 16 + random_below(&seed, 900);
			held[k] = make(sizes[k]);
			tally_in(own, sizes[k]);
			last = k;
		} else {
			free(held[k]);
			held[k] = NULL;
			tally_out(own, sizes[k]);
			own->temporary += k == last;
			last = k == last ? HELD : last;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int status;

	if (argc != 4)
		return 2;
	uint64_t count = number_of(argv[2]), children = number_of(argv[3]);

	say_open(argv[1]);
	pthread_atfork(prepare_0, in_parent_0, in_child_0);
	pthread_atfork(prepare_1, in_parent_1, in_child_1);
	pthread_atfork(prepare_2, in_parent_2, in_child_2);
	for (uint64_t i = 0; i < count && i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &tallies[i]) != 0)
			return 4;
	for (uint64_t i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid == 0)
			be_child();
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 5;
	}
	over = 1;
	for (uint64_t i = 0; i < count && i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		t.allocations += tallies[i].allocations;
		t.frees += tallies[i].frees;
		t.allocated_bytes += tallies[i].allocated_bytes;
		t.temporary += tallies[i].temporary;
		t.live_blocks += tallies[i].live_blocks;
		t.live_bytes += tallies[i].live_bytes;
	}
	say("parent");
	return 0;
}
