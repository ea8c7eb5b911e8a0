/*
 * own_family OUT SEED CALLS: a program with an allocator of its own, by the names of FAMILY (je_,
 * mi_, nothing …), which no preload sees. A random mix of every function of it, kept in exact
 * counts; those that take a block are called from functions named by_NAME.
 *
 * Compiled by the test, once a way: -DFAMILY=, -DWITH_X, -DWITH_MI, -DWITH_TC, -DWITH_TBB,
 * -DWITH_SN say which functions there are; -DHIDDEN hides them. Without -DAPART the compiler sees
 * both ends of a call, and may keep in registers what it knows the allocator does not use.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define FN(name)    JOIN(FAMILY, name)

#ifdef HIDDEN
#define LINKAGE __attribute__((visibility("hidden")))
#else
#define LINKAGE
#endif
#ifdef APART
#define OWN LINKAGE __attribute__((noipa, used))
#else
#define OWN LINKAGE __attribute__((noinline, noclone, used))
#endif

/* --- the allocator: from a pool, with a list of free blocks a size ------------------------- */

enum { SMALLEST = 32, SIZES = 12, POOL = 64 << 20 };

struct head {
	uint64_t class, size;
};

static char pool[POOL] __attribute__((aligned(64)));
static size_t used;
static void *unused[SIZES];

static unsigned class_of(size_t size)
{
	unsigned class = 0;

	while (class < SIZES && ((size_t)SMALLEST << class) < size)
		class ++;
	return class;
}

static inline struct head *head_of(void *p) { return (struct head *)p - 1; }

static inline void *take(size_t size)
{
	unsigned class = class_of(size);
	char *p;

	if (class == SIZES) {
		errno = ENOMEM;
		return NULL;
	}
	p = unused[class];
	if (p) {
		memcpy(&unused[class], p, sizeof(void *));
	} else {
		size_t bytes = ((size_t)SMALLEST << class) + 64;

		if (used + bytes > POOL)
			return NULL;
		p = pool + used + 64;
		used += bytes;
	}
	*head_of(p) = (struct head){class, size};
	return p;
}

static inline void give(void *p)
{
	unsigned class = (unsigned)head_of(p)->class;

	memcpy(p, &unused[class], sizeof(p));
	unused[class] = p;
}

static inline void *change(void *p, size_t size)
{
	void *q = take(size);

	if (q && p) {
		size_t old = head_of(p)->size;

		memcpy(q, p, old < size ? old : size);
		give(p);
	}
	return q;
}

OWN void *FN(malloc)(size_t size) { return take(size); }
OWN void FN(free)(void *p)
{
	if (p)
		give(p);
}
OWN void *FN(realloc)(void *p, size_t size) { return change(p, size); }
OWN void *FN(calloc)(size_t count, size_t size)
{
	void *p = take(count * size);

	return p ? memset(p, 0, count * size) : NULL;
}
OWN int FN(posix_memalign)(void **out, size_t align, size_t size)
{
	(void)align;
	*out = take(size);
	return *out ? 0 : ENOMEM;
}
OWN void *FN(aligned_alloc)(size_t align, size_t size)
{
	(void)align;
	return take(size);
}
#ifdef WITH_X
OWN void *FN(mallocx)(size_t size, int flags) { return flags ? NULL : take(size); }
OWN void *FN(rallocx)(void *p, size_t size, int flags) { return flags ? NULL : change(p, size); }
OWN size_t FN(xallocx)(void *p, size_t size, size_t extra, int flags)
{
	size_t room = (size_t)SMALLEST << head_of(p)->class;

	(void)extra;
	if (flags || size > room)
		return head_of(p)->size;
	head_of(p)->size = size;
	return size;
}
OWN void FN(dallocx)(void *p, int flags)
{
	if (!flags)
		give(p);
}
OWN void FN(sdallocx)(void *p, size_t size, int flags)
{
	if (!flags && head_of(p)->size == size)
		give(p);
}
#endif
#ifdef WITH_MI
OWN void *FN(zalloc)(size_t size) { return FN(calloc)(1, size); }
OWN void *FN(mallocn)(size_t count, size_t size) { return take(count * size); }
OWN void *FN(malloc_aligned)(size_t size, size_t align) { return align ? take(size) : NULL; }
OWN void *FN(heap_malloc)(void *heap, size_t size) { return heap ? take(size) : NULL; }
OWN void *FN(heap_realloc)(void *heap, void *p, size_t size)
{
	return heap ? change(p, size) : NULL;
}
OWN void *FN(reallocf)(void *p, size_t size)
{
	void *q = change(p, size);

	if (!q && p)
		give(p);
	return q;
}
OWN void FN(free_size)(void *p, size_t size)
{
	if (head_of(p)->size == size)
		give(p);
}
#endif
#ifdef WITH_TC
OWN void *FN(new)(size_t size) { return take(size); }
OWN void *FN(newarray)(size_t size) { return take(size); }
OWN void FN(delete)(void *p) { give(p); }
OWN void FN(deletearray_sized)(void *p, size_t size)
{
	if (size)
		give(p);
}
#endif
#ifdef WITH_TBB
OWN void *FN(aligned_malloc)(size_t size, size_t align) { return align ? take(size) : NULL; }
OWN void FN(aligned_free)(void *p) { give(p); }
#endif
#ifdef WITH_SN
OWN void *FN(rust_alloc)(size_t align, size_t size) { return align ? take(size) : NULL; }
OWN void *FN(rust_realloc)(void *p, size_t align, size_t old, size_t size)
{
	return align && old ? change(p, size) : NULL;
}
OWN void FN(rust_dealloc)(void *p, size_t align, size_t size)
{
	if (align && size)
		give(p);
}
#endif

/* --- every function of it, called in one way ------------------------------------------------ */

#define MAKE(name, call)                         \
	SITE static void *by_##name(size_t size) \
	{                                        \
		void *p = call;                  \
		KEEP_FRAME();                    \
		return p;                        \
	}
#define MOVE(name, call)                                              \
	SITE static void *by_##name(void *p, size_t old, size_t size) \
	{                                                             \
		void *q = call;                                       \
		(void)old;                                            \
		KEEP_FRAME();                                         \
		return q;                                             \
	}
#define GIVE(name, call)                                   \
	SITE static void with_##name(void *p, size_t size) \
	{                                                  \
		(void)size;                                \
		call;                                      \
		KEEP_FRAME();                              \
	}

MAKE(malloc, FN(malloc)(size))
MAKE(calloc, FN(calloc)(2, size / 2))
MAKE(realloc_of_nothing, FN(realloc)(NULL, size))
MAKE(aligned_alloc, FN(aligned_alloc)(16, size))
SITE static void *by_posix_memalign(size_t size)
{
	void *p = NULL;
	int error = FN(posix_memalign)(&p, 16, size);

	KEEP_FRAME();
	return error == 0 ? p : NULL;
}
MOVE(realloc, FN(realloc)(p, size))
GIVE(free, FN(free)(p))
#ifdef WITH_X
MAKE(mallocx, FN(mallocx)(size, 0))
MOVE(rallocx, FN(rallocx)(p, size, 0))
SITE static void *by_xallocx(void *p, size_t old, size_t size)
{
	size_t now = FN(xallocx)(p, size, 0, 0);

	(void)old;
	KEEP_FRAME();
	return now >= size ? p : NULL;
}
GIVE(dallocx, FN(dallocx)(p, 0))
GIVE(sdallocx, FN(sdallocx)(p, size, 0))
#endif
#ifdef WITH_MI
MAKE(zalloc, FN(zalloc)(size))
MAKE(mallocn, FN(mallocn)(2, size / 2))
MAKE(malloc_aligned, FN(malloc_aligned)(size, 16))
MAKE(heap_malloc, FN(heap_malloc)(pool, size))
MOVE(heap_realloc, FN(heap_realloc)(pool, p, size))
GIVE(free_size, FN(free_size)(p, size))
#endif
#ifdef WITH_TC
MAKE(new, FN(new)(size))
MAKE(newarray, FN(newarray)(size))
GIVE(delete, FN(delete)(p))
GIVE(deletearray_sized, FN(deletearray_sized)(p, size))
#endif
#ifdef WITH_TBB
MAKE(aligned_malloc, FN(aligned_malloc)(size, 16))
GIVE(aligned_free, FN(aligned_free)(p))
#endif
#ifdef WITH_SN
MAKE(rust_alloc, FN(rust_alloc)(16, size))
MOVE(rust_realloc, FN(rust_realloc)(p, 16, old, size))
GIVE(rust_dealloc, FN(rust_dealloc)(p, 16, size))
#endif

static const struct {
	const char *name;
	void *(*make)(size_t);
} makes[] = {
#define M(name)                        \
	{                              \
		"by_" #name, by_##name \
	}
	M(malloc),
	M(calloc),
	M(realloc_of_nothing),
	M(aligned_alloc),
	M(posix_memalign),
#ifdef WITH_X
	M(mallocx),
#endif
#ifdef WITH_MI
	M(zalloc),
	M(mallocn),
	M(malloc_aligned),
	M(heap_malloc),
#endif
#ifdef WITH_TC
	M(new),
	M(newarray),
#endif
#ifdef WITH_TBB
	M(aligned_malloc),
#endif
#ifdef WITH_SN
	M(rust_alloc),
#endif
};

static const struct {
	const char *name;
	void *(*move)(void *, size_t, size_t);
} moves[] = {
	M(realloc),
#ifdef WITH_X
	M(rallocx),      M(xallocx),
#endif
#ifdef WITH_MI
	M(heap_realloc),
#endif
#ifdef WITH_SN
	M(rust_realloc),
#endif
};

static void (*const gives[])(void *, size_t) = {
	with_free,
#ifdef WITH_X
	with_dallocx,      with_sdallocx,
#endif
#ifdef WITH_MI
	with_free_size,
#endif
#ifdef WITH_TC
	with_delete,       with_deletearray_sized,
#endif
#ifdef WITH_TBB
	with_aligned_free,
#endif
#ifdef WITH_SN
	with_rust_dealloc,
#endif
};

/* --- the mix -------------------------------------------------------------------------------- */

enum {
	BLOCKS = 512,
	MAKES = sizeof(makes) / sizeof(makes[0]),
	MOVES = sizeof(moves) / sizeof(moves[0])
};
#define GIVES (sizeof(gives) / sizeof(gives[0]))

static struct {
	unsigned char *p;
	size_t size;
	unsigned char stamp;
} block[BLOCKS];
static struct tally tally;
static struct tally by_make[MAKES], by_move[MOVES];
static void *last; /* allocated, and nothing since */

/* Even, and now and then more than there is. */
static size_t some_size(uint64_t *state)
{
	return random_below(state, 50) == 0 ? 1 << 20 : (random_below(state, 3000) + 1) * 2;
}

static void entered(unsigned at, void *p, size_t size, struct tally *site)
{
	tally_in(&tally, size);
	site->allocations++;
	site->allocated_bytes += size;
	block[at].p = last = p;
	block[at].size = size;
	block[at].stamp = (unsigned char)(tally.allocations * 7);
	memset(p, block[at].stamp, size);
}

static void check(unsigned at, size_t bytes)
{
	if (block[at].p[0] != block[at].stamp || block[at].p[bytes - 1] != block[at].stamp)
		_exit(3);
}

static void left(unsigned at)
{
	tally_out(&tally, block[at].size);
	if (block[at].p != last)
		return;
	tally.temporary++;
	last = NULL;
}

static void step(uint64_t *state)
{
	unsigned at = (unsigned)random_below(state, BLOCKS);
	size_t size = some_size(state);

	if (!block[at].p) {
		unsigned how = (unsigned)random_below(state, MAKES);
		void *p = makes[how].make(size);

		if (p)
			entered(at, p, size, &by_make[how]);
		else
			tally.failed++;
	} else if (random_below(state, 3) == 0) {
		unsigned how = (unsigned)random_below(state, MOVES);
		void *p = moves[how].move(block[at].p, block[at].size, size);

		if (!p) {
			tally.failed++;
			return;
		}
		left(at);
		block[at].p = p;
		check(at, 1);
		entered(at, p, size, &by_move[how]);
	} else {
		check(at, block[at].size);
		left(at);
		gives[random_below(state, GIVES)](block[at].p, block[at].size);
		block[at].p = NULL;
	}
}

static void say_site(const char *name, const struct tally *site)
{
	if (site->allocations == 0)
		return;
	say_word("site");
	say_word(name);
	say_number((int64_t)site->allocations);
	say_number((int64_t)site->allocated_bytes);
	say_end();
}

int main(int argc, char **argv)
{
	uint64_t state = argc > 3 ? number_of(argv[2]) : 1;
	uint64_t calls = argc > 3 ? number_of(argv[3]) : 0;

	say_open(argv[1]);
	for (uint64_t i = 0; i < calls; i++)
		step(&state);
#ifdef WITH_MI
	/* What cannot be grown is gone. */
	void *p = by_malloc(100);

	by_make[0].allocations++;
	by_make[0].allocated_bytes += 100;
	tally_in(&tally, 100);
	tally_out(&tally, 100);
	tally.temporary++;
	tally.failed++;
	if (FN(reallocf)(p, 1 << 20))
		return 4;
#endif
	say_process();
	say_tally(&tally);
	for (unsigned i = 0; i < MAKES; i++)
		say_site(makes[i].name, &by_make[i]);
	for (unsigned i = 0; i < MOVES; i++)
		say_site(moves[i].name, &by_move[i]);
	say_flush();
	return 0;
}
