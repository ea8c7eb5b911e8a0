/*
 * oracle_mix OUT SEED CALLS THREADS [FORKS [LARGEST [BLOCKS]]]: a seeded random mix of every
 * entry point, kept in exact counts of its own. FORKS > 0 runs it once in each of so
 * many children, one after another, with seeds counted up; CALLS are per thread.
 *
 * Says its tally; `site FUNCTION allocations frees allocated_bytes temporary moved live_blocks
 * live_bytes peak_blocks peak_bytes lifetime`; `class FUNCTION LOW allocations peak_blocks
 * peak_bytes` (LOW the smallest size of the class). With one thread the peak is kept by
 * brute force: at each new maximum the whole composition is copied. A lifetime is the
 * number of allocations from a block's own to its free; one thread only.
 *
 * FOREIGN_ALLOCATOR in the environment: leaves out what differs between allocators.
 * Every entry point is called from a function of its own, which names its blocks' sites.
 * Blocks are stamped at both ends and checked, so that the profiler hands over the right ones.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tally.h"

/* Not in every C library: the profiler's own names, or another allocator's, answer. */
extern void free_sized(void *p, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t align, size_t size) __attribute__((weak));
extern void cfree(void *p) __attribute__((weak));
extern void *reallocarray(void *p, size_t n, size_t size);

enum { THREADS = 64, BLOCKS = 2048, CLASSES = 112, NO_BLOCK = -1 };

enum entry {
	SITE_MALLOC,
	SITE_MALLOC_TOO,
	SITE_CALLOC,
	SITE_REALLOC,
	SITE_REALLOCARRAY,
	SITE_MEMALIGN,
	SITE_POSIX_MEMALIGN,
	SITE_ALIGNED_ALLOC,
	SITE_VALLOC,
	SITE_PVALLOC,
	SITES
};

static const char *const names[SITES] = {
	"by_malloc",   "by_malloc_too",     "by_calloc",        "by_realloc", "by_reallocarray",
	"by_memalign", "by_posix_memalign", "by_aligned_alloc", "by_valloc",  "by_pvalloc"};

struct cell {
	int64_t blocks;
	int64_t bytes;
};

struct counts {
	uint64_t allocations, frees, allocated_bytes, temporary, moved, lifetime;
	uint64_t classes[CLASSES];
	struct cell live[CLASSES];
};

struct worker {
	pthread_t thread;
	int index;
	uint64_t seed;
	uint64_t failed;
	uint64_t sequence; /* of its allocations */
	uint64_t last;     /* sequence of the block allocated last and not freed since */
	struct counts sites[SITES];
};

struct block {
	atomic_flag taken;
	unsigned char *at; /* NULL = none */
	size_t size;
	uint64_t sequence;
	int owner;
	enum entry site;
	uint64_t born;
	unsigned char stamp;
};

static struct worker workers[THREADS];
static struct block blocks[BLOCKS];
static struct cell peak[SITES][CLASSES];
static struct cell live_now, live_peak;
static int threads;
static int with_cfree, foreign;
static uint64_t calls, largest = 8 << 20, block_count = 512;

#define ENTRY(name, args, call)     \
	SITE static void *name args \
	{                           \
		void *p = call;     \
		KEEP_FRAME();       \
		return p;           \
	}

static void *posix_memalign_result(int error, void *p) { return error == 0 ? p : NULL; }

ENTRY(by_malloc, (size_t n), malloc(n))
ENTRY(by_malloc_too, (size_t n), malloc(n))
ENTRY(by_calloc, (size_t count, size_t n), calloc(count, n))
ENTRY(by_realloc, (void *old, size_t n), realloc(old, n))
ENTRY(by_reallocarray, (void *old, size_t count, size_t n), reallocarray(old, count, n))
ENTRY(by_memalign, (size_t align, size_t n), memalign(align, n))
ENTRY(by_aligned_alloc, (size_t align, size_t n), aligned_alloc(align, n))
ENTRY(by_valloc, (size_t n), valloc(n))
ENTRY(by_pvalloc, (size_t n), pvalloc(n))

SITE static void *by_posix_memalign(size_t align, size_t n)
{
	void *p = NULL;
	int error = posix_memalign(&p, align, n);

	KEEP_FRAME();
	return posix_memalign_result(error, p);
}

static _Noreturn void broken(const char *what)
{
	say_word("broken");
	say_word(what);
	say_end();
	say_flush();
	_exit(70);
}

/* Exact below 16, then four steps a power of two. */
static int class_of(size_t size)
{
	int power = 4;

	if (size < 16)
		return (int)size;
	while (size >> (power + 1) != 0)
		power++;
	return 16 + 4 * (power - 4) + (int)(size >> (power - 2) & 3);
}

static size_t class_low(int class)
{
	if (class < 16)
		return (size_t) class;
	return (size_t)(4 + class % 4) << ((class - 16) / 4 + 2);
}

static void note_in(struct worker *w, struct block *b, enum entry site, void *p, size_t size)
{
	struct counts *c = &w->sites[site];
	int class = class_of(size);

	b->at = p;
	b->size = size;
	b->site = site;
	b->owner = w->index;
	b->sequence = w->last = ++w->sequence;
	b->stamp = (unsigned char)(w->sequence * 31 + 7);
	if (size > 0)
		b->at[0] = b->at[size - 1] = b->stamp;
	c->allocations++;
	c->allocated_bytes += size;
	c->classes[class]++;
	c->live[class].blocks++;
	c->live[class].bytes += (int64_t)size;
}

static void note_out(struct worker *w, const struct block *b)
{
	struct counts *c = &w->sites[b->site];
	int class = class_of(b->size);

	c->frees++;
	if (b->owner == w->index && b->sequence == w->last) {
		c->temporary++;
		w->last = 0;
	}
	c->live[class].blocks--;
	c->live[class].bytes -= (int64_t)b->size;
	c->lifetime += w->sequence - b->sequence;
}

static void note_peak(void)
{
	if (threads > 1)
		return;
	live_now = (struct cell){0, 0};
	for (int s = 0; s < SITES; s++)
		for (int c = 0; c < CLASSES; c++) {
			live_now.blocks += workers[0].sites[s].live[c].blocks;
			live_now.bytes += workers[0].sites[s].live[c].bytes;
		}
	if (live_now.bytes <= live_peak.bytes)
		return;
	live_peak = live_now;
	for (int s = 0; s < SITES; s++)
		memcpy(peak[s], workers[0].sites[s].live, sizeof(peak[s]));
}

static size_t random_size(struct worker *w)
{
	uint64_t kind = random_below(&w->seed, 32);
	int power, other;

	if (kind == 0)
		return 0;
	if (kind == 1 && largest > 40000)
		return 32768 - 64 + random_below(&w->seed, 128);
	for (power = 0; (uint64_t)2 << power < largest; power++)
		;
	other = (int)random_below(&w->seed, (uint64_t)power + 1);
	power = (int)random_below(&w->seed, (uint64_t)power + 1);
	power = other < power ? other : power;
	return ((uint64_t)1 << power) + random_below(&w->seed, (uint64_t)1 << power);
}

static void check_stamps(const struct block *b)
{
	if (b->size > 0 && (b->at[0] != b->stamp || b->at[b->size - 1] != b->stamp))
		broken("stamp");
}

static void allocate(struct worker *w, struct block *b)
{
	enum entry site = (enum entry)random_below(&w->seed, SITES);
	size_t size = random_size(w);
	size_t align = (size_t)8 << random_below(&w->seed, 10);
	size_t count = 1 + random_below(&w->seed, 4);
	size_t must = 1;
	void *p = NULL;

	switch (site) {
	case SITE_MALLOC:
		p = by_malloc(size);
		break;
	case SITE_MALLOC_TOO:
		p = by_malloc_too(size);
		break;
	case SITE_CALLOC:
		p = by_calloc(count, size);
		size *= count;
		for (size_t i = 0; i < size && i < 4096; i++)
			if (((unsigned char *)p)[i] != 0)
				broken("calloc");
		break;
	case SITE_REALLOC:
		p = by_realloc(NULL, size);
		break;
	case SITE_REALLOCARRAY:
		p = by_reallocarray(NULL, count, size);
		size *= count;
		break;
	case SITE_MEMALIGN:
		p = by_memalign(must = align, size);
		break;
	case SITE_POSIX_MEMALIGN:
		p = by_posix_memalign(must = align, size);
		break;
	case SITE_ALIGNED_ALLOC:
		p = by_aligned_alloc(must = align, size = size / align * align);
		break;
	case SITE_VALLOC:
		must = 4096;
		p = by_valloc(size);
		break;
	default:
		must = 4096;
		p = foreign ? by_memalign(4096, size) : by_pvalloc(size);
		site = foreign ? SITE_MEMALIGN : SITE_PVALLOC;
		break;
	}
	if (p == NULL)
		broken("refused");
	if ((uintptr_t)p % must != 0 && !foreign)
		broken("alignment");
	note_in(w, b, site, p, size);
}

/* Calls that must fail, and leave everything as it was. */
static void fail(struct worker *w, struct block *b)
{
	size_t huge = SIZE_MAX - 64 - (size_t)random_below(&w->seed, 1 << 20);
	size_t half = SIZE_MAX / 2 + 2;
	void *p = NULL;
	int error = errno = 0;

	switch (random_below(&w->seed, 10)) {
	case 0:
		p = by_malloc(huge);
		break;
	case 1:
		p = by_calloc(half, 2);
		break;
	case 2:
		p = by_realloc(b->at, huge);
		break;
	case 3:
		p = by_reallocarray(b->at, half, 4);
		break;
	case 4:
		p = by_memalign(64, huge);
		break;
	case 5:
		error = posix_memalign(&p, 24, 100);
		break;
	case 6:
		error = posix_memalign(&p, 64, huge);
		break;
	case 7:
		p = by_aligned_alloc(64, huge & ~(size_t)63);
		break;
	case 8:
		p = by_valloc(huge);
		break;
	default:
		p = foreign ? by_malloc(huge) : by_pvalloc(huge);
		break;
	}
	if (p != NULL)
		broken("huge");
	if (error == 0 && errno != ENOMEM && !foreign)
		broken("errno");
	w->failed++;
	if (b->at != NULL)
		check_stamps(b);
}

static void release(struct worker *w, struct block *b)
{
	void *p = b->at;

	errno = 4711;
	/* Noted before the call: afterwards another thread may be handed the address. */
	note_out(w, b);
	b->at = NULL;
	switch (random_below(&w->seed, 5)) {
	case 0:
		if (free_sized != NULL && b->site <= SITE_REALLOCARRAY) {
			free_sized(p, b->size);
			break;
		}
		free(p);
		break;
	case 1:
		if (with_cfree)
			cfree(p);
		else
			free(p);
		break;
	case 2:
		/* Frees, and returns NULL, in the C library. */
		if (foreign)
			free(p);
		else if (by_realloc(p, 0) != NULL)
			broken("realloc to 0");
		break;
	default:
		free(p);
		break;
	}
	if (errno != 4711 && !foreign)
		broken("errno of free");
	free(NULL);
}

static void resize(struct worker *w, struct block *b)
{
	bool grows = random_below(&w->seed, 2) && b->size <= largest;
	size_t size = grows ? b->size + b->size / 8 + 1 : random_size(w);
	size_t count = 1;
	unsigned char *old = b->at, *p;
	size_t old_size = b->size;
	enum entry site = random_below(&w->seed, 4) ? SITE_REALLOC : SITE_REALLOCARRAY;

	if (site == SITE_REALLOCARRAY)
		count = 1 + random_below(&w->seed, 3);
	size = size ? size : 1;
	note_out(w, b);
	p = site == SITE_REALLOC ? by_realloc(old, size) : by_reallocarray(old, count, size);
	if (p == NULL)
		broken("realloc refused");
	size *= count;
	if (old_size > 0 && p[0] != b->stamp)
		broken("realloc lost the start");
	if (old_size > 0 && size >= old_size && p[old_size - 1] != b->stamp)
		broken("realloc lost the end");
	w->sites[site].moved += p != old;
	note_in(w, b, site, p, size);
}

static void step(struct worker *w)
{
	struct block *b;

	do
		b = &blocks[random_below(&w->seed, block_count)];
	while (atomic_flag_test_and_set_explicit(&b->taken, memory_order_acquire));
	if (b->at != NULL)
		check_stamps(b);
	if (random_below(&w->seed, 24) == 0)
		fail(w, b);
	else if (b->at == NULL)
		allocate(w, b);
	else if (random_below(&w->seed, 5) < 2)
		resize(w, b);
	else
		release(w, b);
	note_peak();
	atomic_flag_clear_explicit(&b->taken, memory_order_release);
}

static void *work(void *worker)
{
	for (uint64_t i = 0; i < calls; i++)
		step(worker);
	return NULL;
}

static void say_site(int s, struct tally *t)
{
	struct counts sum = {0};
	struct cell live = {0, 0}, at_peak = {0, 0};

	for (int w = 0; w < threads; w++) {
		const struct counts *c = &workers[w].sites[s];

		sum.allocations += c->allocations;
		sum.frees += c->frees;
		sum.allocated_bytes += c->allocated_bytes;
		sum.temporary += c->temporary;
		sum.moved += c->moved;
		sum.lifetime += c->lifetime;
		for (int i = 0; i < CLASSES; i++) {
			sum.classes[i] += c->classes[i];
			live.blocks += c->live[i].blocks;
			live.bytes += c->live[i].bytes;
		}
	}
	for (int i = 0; i < CLASSES; i++) {
		at_peak.blocks += peak[s][i].blocks;
		at_peak.bytes += peak[s][i].bytes;
	}
	if (sum.allocations == 0)
		return;
	const int64_t numbers[] = {(int64_t)sum.allocations,
				   (int64_t)sum.frees,
				   (int64_t)sum.allocated_bytes,
				   (int64_t)sum.temporary,
				   (int64_t)sum.moved,
				   live.blocks,
				   live.bytes,
				   at_peak.blocks,
				   at_peak.bytes,
				   (int64_t)sum.lifetime};

	say_word("site");
	say_word(names[s]);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		say_number(numbers[i]);
	say_end();
	for (int i = 0; i < CLASSES; i++) {
		if (sum.classes[i] == 0)
			continue;
		say_word("class");
		say_word(names[s]);
		say_number((int64_t)class_low(i));
		say_number((int64_t)sum.classes[i]);
		say_number(peak[s][i].blocks);
		say_number(peak[s][i].bytes);
		say_end();
	}
	t->allocations += sum.allocations;
	t->frees += sum.frees;
	t->allocated_bytes += sum.allocated_bytes;
	t->temporary += sum.temporary;
	t->moved += sum.moved;
	t->live_blocks += (uint64_t)live.blocks;
	t->live_bytes += (uint64_t)live.bytes;
}

static void run(uint64_t seed)
{
	struct tally t = {0};

	for (int i = 0; i < threads; i++) {
		workers[i].index = i;
		workers[i].seed = seed * 1000 + (uint64_t)i;
	}
	for (int i = 1; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			broken("pthread_create");
	workers[0].last = 0;
	work(&workers[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	say_process();
	for (int s = 0; s < SITES; s++)
		say_site(s, &t);
	for (int i = 0; i < threads; i++)
		t.failed += workers[i].failed;
	t.peak_blocks = (uint64_t)live_peak.blocks;
	t.peak_bytes = (uint64_t)live_peak.bytes;
	say_tally(&t);
	say_flush();
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	uint64_t seed = number_of(argv[2]);
	uint64_t forks = argc > 5 ? number_of(argv[5]) : 0;

	calls = number_of(argv[3]);
	threads = (int)number_of(argv[4]);
	if (argc > 6)
		largest = number_of(argv[6]);
	if (argc > 7)
		block_count = number_of(argv[7]);
	if (threads < 1 || threads > THREADS || block_count < 1 || block_count > BLOCKS)
		return 2;
	/* Not every allocator has cfree and pvalloc, where the C library's would step in with its own
	 * heap; nor is every one as strict about errno and empty aligned blocks. */
	foreign = getenv("FOREIGN_ALLOCATOR") != NULL;
	with_cfree = cfree != NULL && !foreign;
	say_open(argv[1]);
	if (forks == 0)
		run(seed);
	for (uint64_t i = 0; i < forks; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			run(seed + i);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 4;
	}
	return 0;
}
