/*
 * live_blocks OUT BLOCKS REPLACED: BLOCKS live blocks of 16 to 128 bytes, REPLACED of which are
 * freed and made anew first, in an order unlike the one they were made in. The blocks
 * hold their own list, so the program's memory is theirs alone. Says its tally and memory.
 */
#include <stdlib.h>

#include "resident.h"

enum { LANES = 1024 };

struct link {
	struct link *next;
	uint64_t size;
};

static struct link *lanes[LANES], **ends[LANES];
static struct tally t;
static uint64_t seed = 7;
static uint64_t last_lane = LANES;

SITE static struct link *make(uint64_t size)
{
	struct link *l = malloc(size);

	KEEP_FRAME();
	if (l == NULL)
		_exit(3);
	return l;
}

static void append(void)
{
	uint64_t lane = random_below(&seed, LANES);
	uint64_t size = 16 + random_below(&seed, 113);
	struct link *l = make(size);

	l->next = NULL;
	l->size = size;
	*ends[lane] = l;
	ends[lane] = &l->next;
	tally_in(&t, size);
	/* The only block of its lane is the one whose free would be a temporary's. */
	last_lane = lanes[lane] == l ? lane : LANES;
}

static void drop(void)
{
	uint64_t lane = random_below(&seed, LANES);
	struct link *l = lanes[lane];

	if (l == NULL)
		return;
	lanes[lane] = l->next;
	if (l->next == NULL)
		ends[lane] = &lanes[lane];
	tally_out(&t, l->size);
	t.temporary += lane == last_lane;
	last_lane = LANES;
	free(l);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	uint64_t blocks = number_of(argv[2]);
	uint64_t replaced = number_of(argv[3]);

	say_open(argv[1]);
	for (int i = 0; i < LANES; i++)
		ends[i] = &lanes[i];
	while (t.live_blocks < blocks)
		append();
	for (uint64_t i = 0; i < replaced; i++) {
		drop();
		append();
	}
	while (t.live_blocks < blocks)
		append();
	say_process();
	say_tally(&t);
	say_resident();
	say_flush();
	return 0;
}
