/*
 * reload OUT LIB_A LIB_B ROUNDS: opens and closes the two libraries in turn, which the loader puts
 * at the same place, and has each make 3 blocks. Says `rounds`, `same_place`, `a_blocks` and
 * `b_blocks` (all freed by main).
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include "tally.h"

static uintptr_t last_base;
static uint64_t same_place;

SITE static void use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		_exit(3);
	void *(*make)(unsigned long) =
		(void *(*)(unsigned long))(uintptr_t)dlsym(library, "plugin_make");
	uintptr_t base = ((struct link_map *)library)->l_addr;

	if (make == NULL)
		_exit(4);
	same_place += base == last_base;
	last_base = base;
	for (int i = 0; i < 3; i++)
		free(make(700));
	if (dlclose(library) != 0)
		_exit(5);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	uint64_t rounds = number_of(argv[4]);

	say_open(argv[1]);
	for (uint64_t i = 0; i < rounds; i++) {
		use(argv[2]);
		use(argv[3]);
	}
	say_process();
	say_count("rounds", rounds);
	say_count("same_place", same_place);
	say_count("a_blocks", rounds * 3);
	say_count("b_blocks", rounds * 3);
	say_flush();
	return 0;
}
