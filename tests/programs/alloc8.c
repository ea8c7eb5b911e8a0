/*
 * An allocator to preload whose blocks may stand 8 bytes apart, unlike glibc's. Small blocks come
 * from 64 KiB regions of one size each, larger ones from mappings of their own; both are
 * found again by the region's start. Memory of small blocks is reused, regions never go back.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGION = 1 << 16, SMALL = 4096, STEP = 8 };

struct region {
	size_t block;  /* bytes a block; 0 = one large block */
	size_t usable; /* large: bytes of the block */
	size_t mapped; /* large: bytes of the mapping */
	size_t used;
};

struct empty {
	struct empty *next;
};

static struct empty *empties[SMALL / STEP + 1];
static struct region *filling[SMALL / STEP + 1];
static atomic_flag lock = ATOMIC_FLAG_INIT;

static struct region *region_of(void *p)
{
	return (struct region *)((uintptr_t)p & ~(uintptr_t)(REGION - 1));
}

static void *map_aligned(size_t size)
{
	char *p = mmap(NULL, size + REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		return NULL;
	size_t before = (REGION - (uintptr_t)p % REGION) % REGION;

	if (before > 0)
		munmap(p, before);
	if (before < REGION)
		munmap(p + before + size, REGION - before);
	return p + before;
}

static void *large(size_t size, size_t align)
{
	size_t start = align > 64 ? align : 64;

	if (size > PTRDIFF_MAX - 4 * REGION || align > REGION / 2)
		return errno = ENOMEM, NULL;
	size_t mapped = (start + size + 4095) & ~(size_t)4095;
	struct region *r = map_aligned(mapped);

	if (r == NULL)
		return errno = ENOMEM, NULL;
	r->usable = size;
	r->mapped = mapped;
	return (char *)r + start;
}

static void *small(size_t size)
{
	size_t class = size == 0 ? 1 : (size + STEP - 1) / STEP;
	void *p = NULL;

	while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
		;
	struct region *r = filling[class];

	if (empties[class] != NULL) {
		p = empties[class];
		empties[class] = empties[class]->next;
	} else {
		if (r == NULL || r->used + class * STEP > REGION) {
			r = map_aligned(REGION);
			if (r != NULL) {
				r->block = class * STEP;
				r->used = sizeof(*r);
			}
			filling[class] = r;
		}
		if (r != NULL) {
			p = (char *)r + r->used;
			r->used += class * STEP;
		}
	}
	atomic_flag_clear_explicit(&lock, memory_order_release);
	if (p == NULL)
		errno = ENOMEM;
	return p;
}

void *malloc(size_t size) { return size <= SMALL ? small(size) : large(size, 16); }

void free(void *p)
{
	int error = errno;

	if (p == NULL)
		return;
	struct region *r = region_of(p);

	if (r->block == 0) {
		munmap(r, r->mapped);
	} else {
		struct empty *e = p;

		while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
			;
		e->next = empties[r->block / STEP];
		empties[r->block / STEP] = e;
		atomic_flag_clear_explicit(&lock, memory_order_release);
	}
	errno = error;
}

/* Old programs' only, but then the C library's would be called with a block of ours. */
void cfree(void *p);
void cfree(void *p) { free(p); }

void *calloc(size_t count, size_t size)
{
	size_t all;
	void *p;

	if (__builtin_mul_overflow(count, size, &all))
		return errno = ENOMEM, NULL;
	p = malloc(all);
	if (p != NULL)
		memset(p, 0, all);
	return p;
}

void *realloc(void *old, size_t size)
{
	if (old == NULL)
		return malloc(size);
	if (size == 0) {
		free(old);
		return NULL;
	}
	struct region *r = region_of(old);
	size_t has = r->block != 0 ? r->block : r->usable;

	if (size <= has && (size > has / 2 || r->block == 0)) {
		if (r->block == 0)
			r->usable = size;
		return old;
	}
	void *p = malloc(size);

	if (p == NULL)
		return NULL;
	memcpy(p, old, size < has ? size : has);
	free(old);
	return p;
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(count, size, &all))
		return errno = ENOMEM, NULL;
	return realloc(old, all);
}

void *memalign(size_t align, size_t size)
{
	return align <= STEP ? malloc(size) : large(size, align);
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **p, size_t align, size_t size)
{
	int error = errno;
	void *got;

	if (align % sizeof(void *) != 0 || (align & (align - 1)) != 0 || align == 0)
		return EINVAL;
	got = memalign(align, size);
	errno = error;
	if (got == NULL)
		return ENOMEM;
	*p = got;
	return 0;
}

void *valloc(size_t size) { return memalign(4096, size); }

void *pvalloc(size_t size)
{
	if (size > PTRDIFF_MAX)
		return errno = ENOMEM, NULL;
	return memalign(4096, (size + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *p)
{
	return p == NULL ? 0 : region_of(p)->block ? region_of(p)->block : region_of(p)->usable;
}
