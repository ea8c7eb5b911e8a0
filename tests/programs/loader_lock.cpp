/*
 * loader_lock OUT LIB_A LIB_B ROUNDS: three threads at once, each ROUNDS times: one opens and
 * closes the two libraries, one allocates, one throws. The loader holds its lock while it
 * allocates and while a throw looks for unwind tables: a profiler with a lock of its own
 * below these meets itself the other way round. Says `site FUNCTION allocations frees bytes`.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

extern "C" {
#include "tally.h"
}

static uint64_t rounds;
static const char *libraries[2];

extern "C" SITE void *by_loop(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

extern "C" SITE void *by_catcher(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

static void *open_and_close(void *)
{
	for (uint64_t i = 0; i < rounds / 20; i++) {
		void *library = dlopen(libraries[i % 2], RTLD_NOW | RTLD_LOCAL);
		void *(*make)(unsigned long) =
			library ? (void *(*)(unsigned long))dlsym(library, "plugin_make") : nullptr;

		if (!make)
			_exit(3);
		free(make(77));
		dlclose(library);
	}
	return nullptr;
}

static void *allocate(void *)
{
	for (uint64_t i = 0; i < rounds; i++)
		free(by_loop(64));
	return nullptr;
}

extern "C" SITE void throw_deep(int depth)
{
	if (depth == 0)
		throw depth;
	throw_deep(depth - 1);
	KEEP_FRAME();
}

static void *throw_and_catch(void *)
{
	for (uint64_t i = 0; i < rounds; i++) {
		try {
			throw_deep(5);
		} catch (int) {
			free(by_catcher(48));
		}
	}
	return nullptr;
}

static void say_site(const char *name, uint64_t size)
{
	say_word("site");
	say_word(name);
	say_number((int64_t)rounds);
	say_number((int64_t)rounds);
	say_number((int64_t)(rounds * size));
	say_end();
}

int main(int argc, char **argv)
{
	void *(*const work[3])(void *) = {open_and_close, allocate, throw_and_catch};
	pthread_t threads[3];

	if (argc != 5)
		return 2;
	say_open(argv[1]);
	libraries[0] = argv[2];
	libraries[1] = argv[3];
	rounds = number_of(argv[4]);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], nullptr, work[i], nullptr) != 0)
			return 4;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], nullptr);
	say_process();
	say_site("by_loop", 64);
	say_site("by_catcher", 48);
	say_flush();
	return 0;
}
