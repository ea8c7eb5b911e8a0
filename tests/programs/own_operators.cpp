/*
 * own_operators OUT: a program with operators new and delete of its own: from a pool, or with
 * -DBY_MALLOC through malloc, which is seen without them. With -DTHROWS one of them throws.
 * Says its tally.
 */
#include <cstddef>
#include <cstdint>
#include <new>
#ifdef BY_MALLOC
#include <cstdlib>
#endif

#include "tally.h"

#ifdef BY_MALLOC
#define TAKE(bytes) std::malloc(bytes)
#define GIVE(p)     std::free(p)
#else
static char pool[1 << 20] __attribute__((aligned(64)));
static std::size_t used;

static void *take(std::size_t bytes)
{
	std::size_t room = (bytes + 63) / 64 * 64;

	if (room > sizeof(pool) - used)
		return nullptr;
	used += room;
	return pool + used - room;
}
#define TAKE(bytes) take(bytes)
#define GIVE(p)     (void)(p)
#endif

static volatile int given;

#define OUTSIDE __attribute__((noinline, noclone)) /* as in a file of its own */

/* With code enough to hold a jump, as those that do anything have. */
#define OPERATOR_NEW(form)                                                              \
	OUTSIDE void *operator form(std::size_t bytes)                                  \
	{                                                                               \
		void *p = TAKE(bytes);                                                  \
		if (p == nullptr)                                                       \
			throw std::bad_alloc();                                         \
		return p;                                                               \
	}                                                                               \
	OUTSIDE void *operator form(std::size_t bytes, const std::nothrow_t &) noexcept \
	{                                                                               \
		return TAKE(bytes);                                                     \
	}
#define OPERATOR_DELETE(form)                                           \
	OUTSIDE void operator form(void *p) noexcept                    \
	{                                                               \
		given = given + 1;                                      \
		GIVE(p);                                                \
	}                                                               \
	OUTSIDE void operator form(void *p, std::size_t bytes) noexcept \
	{                                                               \
		given = given + (bytes != 0);                           \
		GIVE(p);                                                \
	}
OPERATOR_NEW(new)
OPERATOR_NEW(new[])
OPERATOR_DELETE(delete)
OPERATOR_DELETE(delete[])

struct thing {
	char bytes[200];
};

static tally counts;

SITE static void keep_some()
{
	for (int i = 0; i < 10; i++) {
		thing *volatile one = new thing;
		char *volatile many = new char[1000 + i];

		tally_in(&counts, sizeof(thing));
		tally_in(&counts, 1000 + i);
		if (i % 2 == 0) {
			delete[] many;
			tally_out(&counts, 1000 + i);
			counts.temporary++;
			delete one;
			tally_out(&counts, sizeof(thing));
		}
	}
	thing *volatile quiet = new (std::nothrow) thing;

	tally_in(&counts, sizeof(thing));
	KEEP_FRAME();
	(void)quiet;
}

SITE static void fail_some()
{
	for (int i = 0; i < 3; i++) {
		try {
			char *volatile most = new char[std::size_t(1) << 60];

			delete[] most;
		} catch (const std::bad_alloc &) {
			counts.failed++;
		}
	}
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	say_open(argc > 1 ? argv[1] : "/dev/null");
	keep_some();
#ifdef THROWS
	fail_some();
#else
	(void)fail_some;
#endif
	say_process();
	say_tally(&counts);
	say_flush();
	return 0;
}
