/*
 * The island's head, and the C library that libunwind finds there: see island.h. Functions
 * libunwind calls for a process of its own alone are missing, and would be a jump to 0.
 */
#include "island.h"

extern char island_end[]; /* island.ld */

int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *table,
				       unw_proc_info_t *ret, int need_info, void *arg);
void _UIx86_64__mempool_init(void *pool, size_t bytes, size_t reserve);
void *_UIx86_64__mempool_alloc(void *pool);
void _UIx86_64__mempool_free(void *pool, void *object);

/* --- memory ------------------------------------------------------------------------------- */

static size_t used;

static void *take(size_t bytes)
{
	size_t at = used;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes > ISLAND_MORE - used)
		return NULL;
	used += bytes;
	return (char *)(((uintptr_t)island_end + 4095) & ~(uintptr_t)4095) + at;
}

void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void free(void *block);
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, long offset);
int munmap(void *at, size_t bytes);

void *malloc(size_t bytes) { return take(bytes); }
void *calloc(size_t count, size_t bytes) { return take(count * bytes); }
void free(void *block) { (void)block; }

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, long offset)
{
	(void)at;
	(void)prot;
	(void)flags;
	(void)offset;
	void *p = fd < 0 ? take(bytes) : NULL;

	return p ? p : (void *)-1;
}

int munmap(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	return 0;
}

/* --- pools ----------------------------------------------------------------------------------- */

/* Of both kinds of object there are a few at a time. */
union object {
	union object *next;
	char bytes[1024];
};
static union object *unused;

void _UIx86_64__mempool_init(void *pool, size_t bytes, size_t reserve)
{
	(void)pool;
	(void)reserve;
	if (bytes > sizeof(union object))
		__builtin_trap();
}

void *_UIx86_64__mempool_alloc(void *pool)
{
	union object *o = unused;

	(void)pool;
	if (!o)
		return take(sizeof(*o));
	unused = o->next;
	return o;
}

void _UIx86_64__mempool_free(void *pool, void *object)
{
	union object *o = object;

	(void)pool;
	o->next = unused;
	unused = o;
}

static void give_info(void *info) { _UIx86_64__mempool_free(NULL, info); }

/* --- the rest of a C library ------------------------------------------------------------------- */

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
size_t strlen(const char *s);
int *__errno_location(void);
int sigfillset(void *set);
int sigprocmask(int how, const void *set, void *old);
int getpagesize(void);
long sysconf(int name);
void abort(void);

void *memcpy(void *to, const void *from, size_t bytes)
{
	char *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
	char *d = to;
	const char *s = from;

	if (d <= s || d >= s + bytes)
		return memcpy(to, from, bytes);
	while (bytes-- > 0)
		d[bytes] = s[bytes];
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	char *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
	return to;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

int *__errno_location(void)
{
	static int own;

	return &own;
}

/* All signals are blocked where the island is entered. */
int sigfillset(void *set)
{
	(void)set;
	return 0;
}

int sigprocmask(int how, const void *set, void *old)
{
	(void)how;
	(void)set;
	(void)old;
	return 0;
}

int getpagesize(void) { return 4096; }

long sysconf(int name)
{
	(void)name;
	return 4096;
}

void abort(void) { __builtin_trap(); }

/* What libunwind sets up to look at its own process, which it does not do here. */
int absent(void);
int absent(void) { return -1; }
#define ABSENT(name) extern __typeof__(absent) name __attribute__((alias("absent")))
ABSENT(close);
ABSENT(mincore);
ABSENT(msync);
ABSENT(pipe2);
ABSENT(read);
ABSENT(write);

/* --- the head ------------------------------------------------------------------------------------ */

__attribute__((section(".head"), used)) const struct island island_head = {
	.bytes = (uint64_t)island_end - ISLAND_BASE,
	.create_addr_space = unw_create_addr_space,
	.set_caching_policy = unw_set_caching_policy,
	.flush_cache = unw_flush_cache,
	.init_remote = unw_init_remote,
	.get_reg = unw_get_reg,
	.step = unw_step,
	.search_unwind_table = _Ux86_64_dwarf_search_unwind_table,
	.give_info = give_info,
};
