/*
 * An allocator to preload that a signal handler may call wherever it interrupts it: blocks are
 * taken by one atomic add and never reused.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 << 20, STEP = 32 };

static _Alignas(4096) char room[ROOM];
static _Atomic size_t used;

static size_t *size_of(void *p) { return (size_t *)((char *)p - sizeof(size_t)); }

void *memalign(size_t align, size_t size)
{
	size_t bytes = (size + 2 * STEP + align) & ~(size_t)(STEP - 1);

	if (size > ROOM || align > ROOM)
		return errno = ENOMEM, NULL;
	size_t at = atomic_fetch_add(&used, bytes);

	if (at > ROOM - bytes)
		return errno = ENOMEM, NULL;
	uintptr_t p = ((uintptr_t)room + at + STEP + align - 1) & ~(uintptr_t)(align - 1);

	*size_of((void *)p) = size;
	return (void *)p;
}

void *malloc(size_t size) { return memalign(STEP, size); }

void free(void *p)
{
	if (p)
		*size_of(p) = 0;
}

void *calloc(size_t count, size_t size)
{
	return size && count > ROOM / size ? (errno = ENOMEM, NULL) : malloc(count * size);
}

void *realloc(void *old, size_t size)
{
	void *p = malloc(size);

	if (p && old)
		memcpy(p, old, *size_of(old) < size ? *size_of(old) : size);
	return p;
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **p, size_t align, size_t size)
{
	*p = memalign(align, size);
	return *p ? 0 : ENOMEM;
}
