/*
 * soak OUT SEED SECONDS THREADS PLUGIN_A PLUGIN_B: everything at once, until the time is over.
 * THREADS threads churn blocks of their own and hand some on to each other; the first also starts
 * short-lived threads, the second forks children that churn by themselves and execute this
 * program again now and then, the third opens and closes two libraries in turn, which make
 * blocks; a signal comes every millisecond, and its handler looks at errno and changes it.
 *
 * Blocks are stamped at both ends. Says, of the sites in this program: its tally without a peak
 * and without temporaries; `plugin_blocks`, all freed; `children`, `handlers`; and, in KiB, what
 * its address space grew by in the second half (`grown`). Each child says its own tally.
 *   soak OUT SEED child   what is executed: churns alone
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "resident.h"

enum { THREADS = 16, HELD = 400, PASSED = 64, STAMP = 0x5a };

struct held {
	unsigned char *at;
	size_t size;
};

struct worker {
	struct tally tally; /* live_* may be below 0: what others made and it freed */
	struct held held[HELD];
	uint64_t seed;
	unsigned int number;
};

static char **arguments;
static struct worker workers[THREADS];
static unsigned int worker_count;
static struct tally others; /* of short-lived threads */
static struct held passed[PASSED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER; /* a fork copies whatever state it has */
static _Atomic uint64_t handlers, plugin_blocks, children;
static atomic_bool over;

static void handle(int number)
{
	(void)number;
	handlers++;
	errno = ENOTTY;
}

/* --- blocks ------------------------------------------------------------------------ */

static void stamp(struct held *block)
{
	if (block->size)
		block->at[0] = block->at[block->size - 1] = STAMP;
}

static void check(const struct held *block)
{
	if (block->size && (block->at[0] != STAMP || block->at[block->size - 1] != STAMP))
		_exit(10);
}

SITE static void *make(uint64_t way, size_t size)
{
	void *p = NULL;

	switch (way % 5) {
	case 0:
		p = calloc(1, size);
		break;
	case 1:
		if (posix_memalign(&p, 64, size) != 0)
			_exit(11);
		break;
	default:
		p = malloc(size);
	}
	KEEP_FRAME();
	if (p == NULL)
		_exit(12);
	return p;
}

SITE static void *change(void *old, size_t size)
{
	void *p = realloc(old, size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(13);
	return p;
}

static size_t random_size(uint64_t *seed)
{
	uint64_t kind = random_below(seed, 100);

	if (kind < 80)
		return 1 + random_below(seed, 300);
	return kind < 99 ? 1 + random_below(seed, 20000) : 1 + random_below(seed, 400000);
}

static void drop(struct tally *tally, struct held *block)
{
	check(block);
	tally_out(tally, block->size);
	free(block->at);
	block->at = NULL;
}

static void step(struct worker *worker)
{
	struct held *block = &worker->held[random_below(&worker->seed, HELD)];
	uint64_t what = random_below(&worker->seed, 10);

	if (block->at == NULL) {
		block->size = random_size(&worker->seed);
		block->at = make(what, block->size);
		tally_in(&worker->tally, block->size);
		stamp(block);
	} else if (what == 0) {
		size_t size = random_size(&worker->seed);

		check(block);
		tally_out(&worker->tally, block->size);
		block->at = change(block->at, size);
		block->size = size;
		tally_in(&worker->tally, size);
		stamp(block);
	} else if (what == 1) {
		struct held *other = &passed[random_below(&worker->seed, PASSED)];

		pthread_mutex_lock(&lock);
		struct held taken = *other;

		*other = *block;
		*block = taken;
		pthread_mutex_unlock(&lock);
	} else {
		drop(&worker->tally, block);
	}
}

static void churn(struct worker *worker, unsigned int steps)
{
	for (unsigned int i = 0; i < steps; i++)
		step(worker);
}

/* --- what some do beside that --------------------------------------------------------- */

static void *short_life(void *seed)
{
	static _Thread_local struct worker self;

	self.seed = (uint64_t)(uintptr_t)seed;
	for (unsigned int i = 0; i < 50; i++) {
		struct held block = {.size = random_size(&self.seed)};

		block.at = make(i, block.size);
		tally_in(&self.tally, block.size);
		stamp(&block);
		drop(&self.tally, &block);
	}
	pthread_mutex_lock(&lock);
	others.allocations += self.tally.allocations;
	others.frees += self.tally.frees;
	others.allocated_bytes += self.tally.allocated_bytes;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void start_threads(struct worker *worker)
{
	pthread_t threads[4];

	for (unsigned int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, short_life,
				   (void *)(uintptr_t)(random_below(&worker->seed, 1000000) + 1)))
			_exit(14);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void say(const struct tally *tally, const char *role)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_count("allocations", tally->allocations);
	say_count("frees", tally->frees);
	say_count("allocated_bytes", tally->allocated_bytes);
	say_count("live_blocks", tally->live_blocks);
	say_count("live_bytes", tally->live_bytes);
}

/* It has what its parent had, and leaves that alone. */
_Noreturn static void be_child(uint64_t seed)
{
	static struct worker self;

	memset(&self, 0, sizeof(self));
	self.seed = seed;
	self.number = THREADS;
	memset(passed, 0, sizeof(passed));
	churn(&self, 2000);
	/* What it passed to nobody is its own still. */
	say(&self.tally, "child");
	say_flush();
	_exit(0);
}

static void fork_one(struct worker *worker)
{
	uint64_t seed = random_below(&worker->seed, 1000000);
	char *const words[] = {arguments[0], arguments[1], "7", "child", NULL};
	int status;

	pthread_mutex_lock(&loader);
	pthread_mutex_lock(&lock);
	pid_t pid = fork();

	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&loader);
	if (pid == 0) {
		if (seed % 4 == 0) {
			execv("/proc/self/exe", words);
			_exit(15);
		}
		be_child(seed);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(16);
	if (status != 0)
		_exit(17);
	children++;
}

static void use_plugin(struct worker *worker)
{
	pthread_mutex_lock(&loader);
	void *library =
		dlopen(arguments[5 + random_below(&worker->seed, 2)], RTLD_NOW | RTLD_LOCAL);
	void *(*plugin)(unsigned long) =
		library ? (void *(*)(unsigned long))(uintptr_t)dlsym(library, "plugin_make") : NULL;

	if (plugin == NULL)
		_exit(18);
	for (unsigned int i = 0; i < 5; i++, plugin_blocks++)
		free(plugin(100 + i));
	dlclose(library);
	pthread_mutex_unlock(&loader);
}

static void *work(void *self)
{
	struct worker *worker = self;

	while (!over) {
		churn(worker, 3000);
		if (worker->number == 0)
			start_threads(worker);
		if (worker->number == 1)
			fork_one(worker);
		if (worker->number == 2)
			use_plugin(worker);
	}
	return NULL;
}

/* --- all of it ------------------------------------------------------------------------ */

static uint64_t memory(void)
{
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		_exit(19);
	close(fd);
	text[n] = '\0';
	return (status_value(text, "RssAnon:") + status_value(text, "RssShmem:")) / 1024;
}

static void sleep_ms(uint64_t ms)
{
	struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&left, &left) != 0)
		;
}

static void add(struct tally *sum, const struct tally *more)
{
	sum->allocations += more->allocations;
	sum->frees += more->frees;
	sum->allocated_bytes += more->allocated_bytes;
	sum->live_blocks += more->live_blocks;
	sum->live_bytes += more->live_bytes;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[THREADS];
	struct tally sum = {0};

	if (argc < 4)
		return 2;
	arguments = argv;
	say_open(argv[1]);
	if (strcmp(argv[3], "child") == 0)
		be_child(number_of(argv[2]));
	if (argc < 7)
		return 2;
	uint64_t ms = number_of(argv[3]) * 1000;

	worker_count = (unsigned int)number_of(argv[4]);
	if (worker_count < 3 || worker_count > THREADS)
		return 2;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned int i = 0; i < worker_count; i++) {
		workers[i].number = i;
		workers[i].seed = number_of(argv[2]) * 1000 + i;
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			return 20;
	}
	sleep_ms(ms / 2);
	uint64_t before = memory();

	sleep_ms(ms / 2);
	uint64_t after = memory();

	over = true;
	for (unsigned int i = 0; i < worker_count; i++) {
		pthread_join(threads[i], NULL);
		add(&sum, &workers[i].tally);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	add(&sum, &others);
	say(&sum, "parent");
	say_count("plugin_blocks", plugin_blocks);
	say_count("children", children);
	say_count("handlers", handlers);
	say_count("grown", after > before ? after - before : 0);
	say_flush();
	return 0;
}
