/*
 * A library to preload that counts what passes: the tests' own second opinion on a program
 * whose source they do not have. COUNT_OUT names a file, which gets the counts as they
 * are, as four 64-bit words: allocations, frees, failed, allocated bytes. A forked child
 * stops counting.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct counts {
	_Atomic uint64_t allocations, frees, failed, bytes;
};

static struct counts unwanted, *counts = &unwanted;

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

static void stop_counting(void) { counts = &unwanted; }

static void open_counts(void)
{
	const char *path = getenv("COUNT_OUT");
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return;
	if (ftruncate(fd, 4096) == 0) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p != MAP_FAILED)
			counts = p;
	}
	close(fd);
	pthread_atfork(NULL, NULL, stop_counting);
}

static void resolve(void)
{
	static int done;

	if (done)
		return;
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
	open_counts();
}

static void *got(void *p, size_t bytes)
{
	if (p == NULL) {
		counts->failed++;
	} else {
		counts->allocations++;
		counts->bytes += bytes;
	}
	return p;
}

void *malloc(size_t size)
{
	resolve();
	return got(real.malloc(size), size);
}

void free(void *p)
{
	resolve();
	counts->frees += p != NULL;
	real.free(p);
}

/* Old programs' only; still exported by the C library. */
void cfree(void *p);
void cfree(void *p)
{
	resolve();
	counts->frees += p != NULL;
	(real.cfree != NULL ? real.cfree : real.free)(p);
}

void *calloc(size_t n, size_t size)
{
	resolve();
	return got(real.calloc(n, size), n * size);
}

static void *changed(void *old, void *p, size_t bytes)
{
	if (p == NULL && old != NULL && bytes == 0) {
		counts->frees++;
		return NULL;
	}
	counts->frees += p != NULL && old != NULL;
	return got(p, bytes);
}

void *realloc(void *old, size_t size)
{
	resolve();
	/* The C library's reallocarray comes through here: counted there. */
	return inside ? real.realloc(old, size) : changed(old, real.realloc(old, size), size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
	resolve();
	inside = 1;
	void *p = real.reallocarray(old, n, size);

	inside = 0;
	return changed(old, p, n * size);
}

void *memalign(size_t align, size_t size)
{
	resolve();
	return got(real.memalign(align, size), size);
}

void *aligned_alloc(size_t align, size_t size)
{
	resolve();
	return got(real.aligned_alloc(align, size), size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	resolve();
	int error = real.posix_memalign(p, align, size);

	got(error == 0 ? *p : NULL, size);
	return error;
}

void *valloc(size_t size)
{
	resolve();
	return got(real.valloc(size), size);
}

void *pvalloc(size_t size)
{
	resolve();
	return got(real.pvalloc(size), size);
}
