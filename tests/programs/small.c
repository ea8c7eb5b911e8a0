/*
 * small OUT: what a small program is: a thousand blocks from a few places, most of them
 * freed. Says its tally and memory.
 */
#include <stdlib.h>

#include "resident.h"

SITE static void *node(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

SITE static void *table(size_t count, size_t size)
{
	void *p = calloc(count, size);

	KEEP_FRAME();
	return p;
}

int main(int argc, char **argv)
{
	static void *blocks[1000];
	struct tally t = {0};

	if (argc != 2)
		return 2;
	say_open(argv[1]);
	for (size_t i = 0; i < 1000; i++) {
		size_t size = 16 + i % 200;

		blocks[i] = i % 3 ? node(size) : table(2, size / 2);
		tally_in(&t, i % 3 ? size : size / 2 * 2);
	}
	for (size_t i = 0; i < 1000; i++) {
		size_t size = 16 + i % 200;

		if (i % 10 == 0)
			continue;
		free(blocks[i]);
		t.temporary += i == 999;
		tally_out(&t, i % 3 ? size : size / 2 * 2);
	}
	say_process();
	say_tally(&t);
	say_resident();
	say_flush();
	return 0;
}
