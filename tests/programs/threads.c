/*
 * threads OUT HOW COUNT: COUNT threads that allocate, as HOW tells:
 *   turn      one after another; each makes 5 blocks, frees 3 (1 temporary), leaves 2
 *   once      all alive at once, the same blocks each
 *   crowd     COUNT random ones, 8 at a time, that also free each other's blocks
 *   handover  two threads pass blocks back and forth, so that an address counts as temporary only
 *             for the thread that made the block
 *   serial    COUNT threads, every call under one lock: the order, so the peak, is known
 *   loose     COUNT threads without a lock: bounds of the true peak are known
 *   withheld  all hold at once what is too little, each, to be told to the others; the peak is known
 *   inherit   each thread first frees the block the thread before it made last
 *   exiting   blocks made and freed in thread-specific destructors, the last calls of a thread
 * Says its tally (of the sites in this program) and memory; loose: `peak_low`, `peak_high`.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "resident.h"

static struct tally counts;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t thread_count;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	return p;
}

static void count_one_thread(void)
{
	const uint64_t sizes[5] = {24, 100, 4000, 32, 48};

	for (int i = 0; i < 5; i++)
		tally_in(&counts, sizes[i]);
	for (int i = 0; i < 3; i++)
		tally_out(&counts, sizes[i]);
	counts.temporary++;
}

static void *leave_two(void *together)
{
	void *a, *b;

	if (together != NULL)
		pthread_barrier_wait(&barrier);
	a = make(24);
	b = make(100);
	free(make(4000));
	free(a);
	free(b);
	make(32);
	make(48);
	if (together != NULL)
		pthread_barrier_wait(&barrier);
	return NULL;
}

static void start(pthread_t *thread, void *(*work)(void *), void *argument)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	if (pthread_create(thread, &attributes, work, argument) != 0)
		_exit(4);
}

static void in_turn(void)
{
	pthread_t thread;

	for (uint64_t i = 0; i < thread_count; i++) {
		start(&thread, leave_two, NULL);
		pthread_join(thread, NULL);
		count_one_thread();
	}
}

static void at_once(void)
{
	static pthread_t all[4096];

	pthread_barrier_init(&barrier, NULL, (unsigned)thread_count);
	for (uint64_t i = 0; i < thread_count; i++)
		start(&all[i], leave_two, &barrier);
	for (uint64_t i = 0; i < thread_count; i++) {
		pthread_join(all[i], NULL);
		count_one_thread();
	}
}

/* --- crowd ---------------------------------------------------------------------- */

static void *_Atomic shelf[64];

static void *exchange(void *seed_number)
{
	uint64_t seed = (uint64_t)(uintptr_t)seed_number;
	struct tally t = {0};

	for (int i = 0; i < 200; i++) {
		size_t size = 16 + random_below(&seed, 500);
		size_t *mine = make(size);
		size_t last = (uintptr_t)seed_number << 32 | (size_t)i;

		mine[0] = size;
		mine[1] = last;
		tally_in(&t, size);
		mine = atomic_exchange(&shelf[random_below(&seed, 64)], mine);
		if (mine == NULL)
			continue;
		/* Its own last only by what is written in it: the address may be another's now. */
		t.temporary += mine[1] == last;
		tally_out(&t, mine[0]);
		free(mine);
	}
	pthread_mutex_lock(&lock);
	counts.allocations += t.allocations;
	counts.frees += t.frees;
	counts.allocated_bytes += t.allocated_bytes;
	counts.temporary += t.temporary;
	counts.live_blocks += t.live_blocks;
	counts.live_bytes += t.live_bytes;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void crowd(void)
{
	pthread_t eight[8];

	for (uint64_t i = 0; i < thread_count; i += 8) {
		for (uint64_t j = 0; j < 8; j++)
			start(&eight[j], exchange, (void *)(uintptr_t)(i + j + 1));
		for (uint64_t j = 0; j < 8; j++)
			pthread_join(eight[j], NULL);
	}
}

/* --- handover -------------------------------------------------------------------- */

static sem_t to_helper, to_main;
static void *passed;
static uint64_t same_address;

/* Frees what it is given, makes a block of the same size, likely at the same address. */
static void *helper(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < thread_count; i++) {
		sem_wait(&to_helper);
		free(passed);
		passed = make(200);
		sem_post(&to_main);
	}
	return NULL;
}

static void handover(void)
{
	pthread_t thread;

	sem_init(&to_helper, 0, 0);
	sem_init(&to_main, 0, 0);
	start(&thread, helper, NULL);
	for (uint64_t i = 0; i < thread_count; i++) {
		void *mine = make(200);

		passed = mine;
		sem_post(&to_helper);
		sem_wait(&to_main);
		same_address += passed == mine;
		free(passed); /* made by the helper: not temporary, whatever its address */
		tally_in(&counts, 200);
		tally_out(&counts, 200);
		tally_in(&counts, 200);
		tally_out(&counts, 200);
	}
	pthread_join(thread, NULL);
}

static void *inherit_one(void *unused)
{
	(void)unused;
	free(passed); /* not temporary, although its thread may have had this one's slot */
	passed = make(72);
	return NULL;
}

static void inherit(void)
{
	pthread_t thread;

	for (uint64_t i = 0; i < thread_count; i++) {
		start(&thread, inherit_one, NULL);
		pthread_join(thread, NULL);
		tally_in(&counts, 72);
		if (i > 0)
			tally_out(&counts, 72);
	}
}

/* --- peaks ------------------------------------------------------------------------ */

/* Blocks well below the step a thread publishes by, which is 1 KiB at least. */
enum { HELD = 48 };
static atomic_int_fast64_t low_now, high_now;
static _Atomic int64_t low_peak, high_peak;
static int serial;

static void raise_to(_Atomic int64_t *peak, int64_t value)
{
	int64_t old = atomic_load(peak);

	while (value > old && !atomic_compare_exchange_weak(peak, &old, value))
		;
}

static void *grow_and_shrink(void *seed_number)
{
	uint64_t seed = (uint64_t)(uintptr_t)seed_number;
	void *held[HELD] = {NULL};
	size_t sizes[HELD];
	size_t last = HELD; /* where its own last block is held */

	for (int i = 0; i < 3000; i++) {
		size_t k = random_below(&seed, HELD);
		size_t size = 16 + random_below(&seed, 200);

		if (serial)
			pthread_mutex_lock(&lock);
		if (held[k] == NULL) {
			sizes[k] = size;
			raise_to(&high_peak,
				 atomic_fetch_add(&high_now, (int64_t)size) + (int64_t)size);
			held[k] = make(size);
			raise_to(&low_peak,
				 atomic_fetch_add(&low_now, (int64_t)size) + (int64_t)size);
			last = k;
			if (serial)
				tally_in(&counts, size);
		} else {
			atomic_fetch_sub(&low_now, (int64_t)sizes[k]);
			free(held[k]);
			held[k] = NULL;
			atomic_fetch_sub(&high_now, (int64_t)sizes[k]);
			if (serial) {
				tally_out(&counts, sizes[k]);
				counts.temporary += k == last;
			}
			last = k == last ? HELD : last;
		}
		if (serial)
			pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void peaks(void)
{
	static pthread_t all[256];

	for (uint64_t i = 0; i < thread_count; i++)
		start(&all[i], grow_and_shrink, (void *)(uintptr_t)(i + 1));
	for (uint64_t i = 0; i < thread_count; i++)
		pthread_join(all[i], NULL);
	say_count("peak_low", (uint64_t)low_peak);
	say_count("peak_high", (uint64_t)high_peak);
}

static void *hold_little(void *unused)
{
	void *p = make(1000);

	(void)unused;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	free(p);
	return NULL;
}

static void withheld(void)
{
	static pthread_t all[256];

	free(make(100));
	pthread_barrier_init(&barrier, NULL, (unsigned)thread_count);
	for (uint64_t i = 0; i < thread_count; i++)
		start(&all[i], hold_little, NULL);
	for (uint64_t i = 0; i < thread_count; i++)
		pthread_join(all[i], NULL);
	counts.allocations = counts.frees = counts.temporary = thread_count + 1;
	counts.allocated_bytes = thread_count * 1000 + 100;
	counts.peak_bytes = thread_count * 1000;
}

/* --- exiting ----------------------------------------------------------------------- */

static pthread_key_t key;

static void on_exit_of_thread(void *block)
{
	free(block);
	free(make(300));
	make(10);
}

static void *hold_one(void *unused)
{
	(void)unused;
	pthread_setspecific(key, make(500));
	return NULL;
}

static void exiting(void)
{
	pthread_t thread;

	pthread_key_create(&key, on_exit_of_thread);
	for (uint64_t i = 0; i < thread_count; i++) {
		start(&thread, hold_one, NULL);
		pthread_join(thread, NULL);
		tally_in(&counts, 500);
		tally_out(&counts, 500);
		tally_in(&counts, 300);
		tally_out(&counts, 300);
		tally_in(&counts, 10);
		counts.temporary += 2;
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const char *how = argv[2];

	thread_count = number_of(argv[3]);
	say_open(argv[1]);
	say_process();
	if (strcmp(how, "turn") == 0)
		in_turn();
	else if (strcmp(how, "once") == 0)
		at_once();
	else if (strcmp(how, "crowd") == 0)
		crowd();
	else if (strcmp(how, "handover") == 0)
		handover();
	else if (strcmp(how, "withheld") == 0)
		withheld();
	else if (strcmp(how, "inherit") == 0)
		inherit();
	else if (strcmp(how, "exiting") == 0)
		exiting();
	else if ((serial = strcmp(how, "serial") == 0) || strcmp(how, "loose") == 0)
		peaks();
	else
		return 2;
	say_tally(&counts);
	say_count("same_address", same_address);
	say_resident();
	say_flush();
	return 0;
}
