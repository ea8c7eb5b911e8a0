/*
 * A library to preload that counts what passes: the tests' own second opinion on a program
 * whose source they do not have. COUNT_OUT names a file, which gets the counts as they
 * are, as 64-bit words: struct counts; a forked child stops counting. Or COUNT_TREE names a
 * directory, where each process has a file of its own, PID.0, and PID.1 … of what that pid
 * executes; a child's frees of what it inherited are then `inherited`, and no others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum function {
	MALLOC,
	CALLOC,
	REALLOC,
	REALLOCARRAY,
	MEMALIGN,
	ALIGNED_ALLOC,
	POSIX_MEMALIGN,
	VALLOC,
	PVALLOC,
	FUNCTIONS,
};

struct counts {
	_Atomic uint64_t allocations, frees, failed, bytes, live_blocks, live_bytes;
	_Atomic uint64_t strange; /* frees of what was never allocated, blocks beyond the table */
	_Atomic uint64_t by_function[FUNCTIONS]; /* allocations */
	_Atomic uint64_t inherited;              /* frees of the parent's blocks */
};

static struct counts unwanted, *counts = &unwanted;

/* The blocks that live, by address, each as near behind its hash's place as was free. */
#define BLOCKS (UINT64_C(1) << 22)

static struct block {
	uintptr_t address;
	size_t size;
} * blocks;

static struct {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void (*cfree)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*reallocarray)(void *, size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
} real;

static __thread int inside __attribute__((tls_model("initial-exec")));

/* Of COUNT_TREE; the word reads 0 in a child that was forked in whatever way. */
static const char *tree;
static _Atomic int *is_mine;
static int is_child;

static void stop_counting(void) { counts = &unwanted; }

static void *pages(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void open_counts(const char *path)
{
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return;
	if (ftruncate(fd, 4096) == 0) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		blocks = pages(BLOCKS * sizeof(*blocks));
		if (p != MAP_FAILED && blocks != MAP_FAILED)
			counts = p;
	}
	close(fd);
}

static char *put_number(char *to, unsigned int number)
{
	if (number >= 10)
		to = put_number(to, number / 10);
	*to = (char)('0' + number % 10);
	return to + 1;
}

static void open_of_tree(void)
{
	char path[4096], *end;
	struct counts *before = counts;
	size_t length = strlen(tree);

	*is_mine = 1;
	counts = &unwanted;
	if (length > 4000)
		return;
	memcpy(path, tree, length);
	path[length] = '/';
	end = put_number(path + length + 1, (unsigned int)getpid());
	*end++ = '.';
	if (before != &unwanted)
		munmap(before, 4096);
	if (blocks != NULL)
		munmap(blocks, BLOCKS * sizeof(*blocks));
	for (unsigned int i = 0; i < 100 && counts == &unwanted; i++) {
		*put_number(end, i) = '\0';
		open_counts(path);
	}
}

static void begin(void)
{
	tree = getenv("COUNT_TREE");
	is_mine = tree == NULL ? MAP_FAILED : pages(4096);
	if (is_mine == MAP_FAILED || madvise(is_mine, 4096, MADV_WIPEONFORK) != 0) {
		tree = NULL;
		open_counts(getenv("COUNT_OUT"));
		pthread_atfork(NULL, NULL, stop_counting);
		return;
	}
	open_of_tree();
}

static void resolve(void)
{
	static int done;

	if (done) {
		if (tree != NULL && !*is_mine) {
			is_child = 1;
			open_of_tree();
		}
		return;
	}
	done = 1;
	real.calloc = dlsym(RTLD_NEXT, "calloc");
	real.malloc = dlsym(RTLD_NEXT, "malloc");
	real.free = dlsym(RTLD_NEXT, "free");
	real.cfree = dlsym(RTLD_NEXT, "cfree");
	real.realloc = dlsym(RTLD_NEXT, "realloc");
	real.reallocarray = dlsym(RTLD_NEXT, "reallocarray");
	real.memalign = dlsym(RTLD_NEXT, "memalign");
	real.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	real.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	real.valloc = dlsym(RTLD_NEXT, "valloc");
	real.pvalloc = dlsym(RTLD_NEXT, "pvalloc");
	begin();
}

static atomic_flag blocks_busy = ATOMIC_FLAG_INIT;

static void lock_blocks(void)
{
	while (atomic_flag_test_and_set_explicit(&blocks_busy, memory_order_acquire))
		sched_yield();
}

static void unlock_blocks(void) { atomic_flag_clear_explicit(&blocks_busy, memory_order_release); }

static uint64_t place_of(uintptr_t address)
{
	return (address * UINT64_C(0x9e3779b97f4a7c15)) >> 42;
}

static void live(void *p, size_t size)
{
	uint64_t at = place_of((uintptr_t)p);

	if (counts == &unwanted)
		return;
	lock_blocks();
	if (counts->live_blocks == BLOCKS / 2) {
		counts->strange++;
	} else {
		while (blocks[at].address != 0)
			at = (at + 1) % BLOCKS;
		blocks[at] = (struct block){(uintptr_t)p, size};
		counts->live_blocks++;
		counts->live_bytes += size;
	}
	unlock_blocks();
}

/* Behind a gap nothing may stand that would be looked for from before it. */
static void close_gap(uint64_t gap)
{
	for (uint64_t at = (gap + 1) % BLOCKS; blocks[at].address != 0; at = (at + 1) % BLOCKS) {
		if ((at - place_of(blocks[at].address)) % BLOCKS < (at - gap) % BLOCKS)
			continue;
		blocks[gap] = blocks[at];
		gap = at;
	}
	blocks[gap].address = 0;
}

/* Before the allocator may give it out again; its size. */
static size_t dead(void *p)
{
	uint64_t at = place_of((uintptr_t)p);
	size_t size = 0;

	if (p == NULL || counts == &unwanted)
		return 0;
	lock_blocks();
	while (blocks[at].address != 0 && blocks[at].address != (uintptr_t)p)
		at = (at + 1) % BLOCKS;
	if (blocks[at].address == 0 && is_child) {
		counts->inherited++;
	} else if (blocks[at].address == 0) {
		counts->strange++;
	} else {
		size = blocks[at].size;
		close_gap(at);
		counts->live_blocks--;
		counts->live_bytes -= size;
	}
	unlock_blocks();
	return size;
}

static void count_free(void *p)
{
	uint64_t inherited = counts->inherited;

	dead(p);
	counts->frees += p != NULL && counts->inherited == inherited;
}

static void *got(enum function function, void *p, size_t bytes)
{
	if (p == NULL) {
		counts->failed++;
	} else {
		counts->allocations++;
		counts->bytes += bytes;
		counts->by_function[function]++;
		live(p, bytes);
	}
	return p;
}

void *malloc(size_t size)
{
	resolve();
	return got(MALLOC, real.malloc(size), size);
}

void free(void *p)
{
	resolve();
	count_free(p);
	real.free(p);
}

/* Old programs' only; still exported by the C library. */
void cfree(void *p);
void cfree(void *p)
{
	resolve();
	count_free(p);
	(real.cfree != NULL ? real.cfree : real.free)(p);
}

void *calloc(size_t n, size_t size)
{
	resolve();
	return got(CALLOC, real.calloc(n, size), n * size);
}

typedef void *resize(void *old, size_t n, size_t size);

static void *call_realloc(void *old, size_t n, size_t size)
{
	(void)n;
	return real.realloc(old, size);
}

static void *call_reallocarray(void *old, size_t n, size_t size)
{
	inside = 1;
	void *p = real.reallocarray(old, n, size);

	inside = 0;
	return p;
}

static void *change(enum function function, resize *call, void *old, size_t n, size_t size)
{
	uint64_t inherited = counts->inherited;
	size_t before = dead(old);
	void *p = call(old, n, size);

	bool own = old != NULL && counts->inherited == inherited;

	if (p == NULL && old != NULL && n * size == 0) {
		counts->frees += own;
		return NULL;
	}
	/* A failed one leaves the block where it was. */
	if (p == NULL && own)
		live(old, before);
	if (p == NULL && old != NULL && !own)
		counts->inherited--;
	counts->frees += p != NULL && own;
	return got(function, p, n * size);
}

void *realloc(void *old, size_t size)
{
	resolve();
	/* The C library's reallocarray comes through here: counted there. */
	return inside ? real.realloc(old, size) : change(REALLOC, call_realloc, old, 1, size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
	resolve();
	return change(REALLOCARRAY, call_reallocarray, old, n, size);
}

void *memalign(size_t align, size_t size)
{
	resolve();
	return got(MEMALIGN, real.memalign(align, size), size);
}

void *aligned_alloc(size_t align, size_t size)
{
	resolve();
	return got(ALIGNED_ALLOC, real.aligned_alloc(align, size), size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	resolve();
	int error = real.posix_memalign(p, align, size);

	got(POSIX_MEMALIGN, error == 0 ? *p : NULL, size);
	return error;
}

void *valloc(size_t size)
{
	resolve();
	return got(VALLOC, real.valloc(size), size);
}

void *pvalloc(size_t size)
{
	resolve();
	return got(PVALLOC, real.pvalloc(size), size);
}
