/* All processes of a session together: whatever they do between looks, the truth is between what
 * was seen and the bound. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collect/snapshot.h"
#include "collect/snapshot_tree.h"
#include "ledger_writer.h"

#define PROCESSES 6u
#define STEPS     400u

/* A process that is there and does nothing, so that one may say of it what one likes. */
struct actor {
	pid_t pid;
	struct writer_process *process;
	struct mgl_row *row;
	uint64_t live;
};

struct play {
	struct writer writer;
	struct actor actors[PROCESSES];
	unsigned int count; /* that have come */
	struct collect_snapshots *snapshots;
	uint64_t most;      /* that ever lived in all of them */
	uint64_t most_seen; /* at a look */
	uint64_t seed;
};

static uint64_t below(struct play *play, uint64_t limit)
{
	play->seed = play->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (play->seed >> 33) % limit;
}

static uint64_t live(const struct play *play)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < play->count; i++)
		sum += play->actors[i].live;
	return sum;
}

static void come(struct play *play)
{
	struct actor *actor = &play->actors[play->count++];
	uint32_t ref;

	actor->pid = fork();
	if (actor->pid == 0)
		for (;;)
			pause();
	assert_true(actor->pid > 0);
	actor->process =
		writer_process(&play->writer, MGL_HOW_FORK, actor->pid, getpid(), "/bin/x");
	actor->process->header->start_ns = clock_now_ns();
	actor->process->header->starttime = 0;
	struct mgl_slot *slot = writer_slot(actor->process, "x", &ref);

	actor->row = writer_row(actor->process, slot, ref, 0, MGL_API_MALLOC, 1, NULL);
}

static void go(struct actor *actor)
{
	kill(actor->pid, SIGKILL);
	waitpid(actor->pid, NULL, 0);
	actor->pid = 0;
	actor->live = 0; /* whatever its ledger has */
}

static void act(struct play *play, struct actor *actor)
{
	if (below(play, 2) || actor->live == 0) {
		uint64_t bytes = 1 + below(play, 1000);

		writer_allocs(actor->row, 1, bytes);
		actor->live += bytes;
		if (actor->live > actor->process->header->max)
			actor->process->header->max = actor->live;
	} else {
		uint64_t bytes = 1 + below(play, actor->live);

		writer_frees(actor->row, 1, bytes);
		actor->live -= bytes;
	}
}

static void look(struct play *play)
{
	assert_null(collect_snapshots_take(play->snapshots));
	if (live(play) > play->most_seen)
		play->most_seen = live(play);
}

static void step(struct play *play)
{
	uint64_t what = below(play, 100);
	struct actor *actor = play->count ? &play->actors[below(play, play->count)] : NULL;

	if (what < 4 && play->count < PROCESSES)
		come(play);
	else if (what < 5 && actor && actor->pid)
		go(actor);
	else if (what < 15)
		look(play);
	else if (actor && actor->pid)
		act(play, actor);
	if (live(play) > play->most)
		play->most = live(play);
}

static void perform(struct play *play, uint64_t seed)
{
	struct collect_together together;
	uint64_t sum = 0;

	*play = (struct play){.seed = seed};
	writer_begin(&play->writer, 64);
	come(play);
	come(play);
	assert_null(collect_snapshots_create(play->writer.fd, "test", 64, 0, &play->snapshots));
	for (unsigned int i = 0; i < STEPS; i++)
		step(play);
	for (unsigned int i = 0; i < play->count; i++)
		if (play->actors[i].pid)
			go(&play->actors[i]);
	assert_null(collect_snapshots_end(play->snapshots));
	assert_true(collect_snapshots_together(play->snapshots, &together));
	assert_int_equal(together.most.live_bytes, play->most_seen);
	assert_true(together.bound >= play->most);
	for (size_t i = 0; i < together.share_count; i++)
		sum += together.shares[i].live_bytes;
	assert_int_equal(sum, play->most_seen);
	for (size_t i = 1; i < together.count; i++)
		assert_true(together.snaps[i].ns >= together.snaps[i - 1].ns);
	collect_snapshots_free(play->snapshots);
	writer_end(&play->writer);
}

static void test_between_bounds(void **state)
{
	static struct play play;
	unsigned int told = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		perform(&play, seed);
		told += play.most > play.most_seen;
	}
	/* Else the bound was never needed. */
	assert_true(told > 20);
}

/* Those that were there one after the other are not summed. */
static void test_in_turn(void **state)
{
	struct snapshot_tree tree = {0};

	(void)state;
	for (uint64_t i = 0; i < 10; i++) {
		struct tree_stay stay = {
			.start_ns = 100 * i,
			.end_ns = 100 * i + 99,
			.bound = 1000 + i,
			.bound_across = 1000 + i,
		};

		assert_null(vector_push(&tree.stays, stay));
	}
	assert_null(snapshot_tree_close(&tree, 2000, 2100));
	assert_int_equal(tree.bound, 1009);

	/* While the look lasted, and after it. */
	struct tree_stay both = {
		.start_ns = 2050, .end_ns = UINT64_MAX, .bound = 5, .bound_across = 2000};
	struct tree_stay later = {
		.start_ns = 2200, .end_ns = 2300, .bound = 3000, .bound_across = 3000};

	assert_null(vector_push(&tree.stays, both));
	assert_null(vector_push(&tree.stays, later));
	assert_null(snapshot_tree_close(&tree, 2400, 2500));
	assert_int_equal(tree.bound, 3005);
	snapshot_tree_free(&tree);
}

/* Its pid is nobody's here, as in another namespace: it is taken for ended, and goes on. */
static void test_one_that_nobody_finds(void **state)
{
	static struct play play;
	struct collect_together together;

	(void)state;
	play = (struct play){.seed = 1};
	writer_begin(&play.writer, 64);
	come(&play);
	come(&play);
	struct actor *hidden = &play.actors[1];

	hidden->process->header->pid = 0x7ffffff0;
	assert_null(collect_snapshots_create(play.writer.fd, "test", 64, 0, &play.snapshots));
	look(&play);
	for (unsigned int i = 0; i < 2; i++) {
		writer_allocs(play.actors[i].row, 1, 1000);
		play.actors[i].process->header->max = 1000;
		look(&play);
	}
	writer_frees(hidden->row, 1, 1000);
	assert_null(collect_snapshots_end(play.snapshots));
	assert_true(collect_snapshots_together(play.snapshots, &together));
	assert_int_equal(together.most.live_bytes, 1000);
	assert_int_equal(together.bound, 2000);
	go(&play.actors[0]);
	go(hidden);
	collect_snapshots_free(play.snapshots);
	writer_end(&play.writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_bounds),
		cmocka_unit_test(test_in_turn),
		cmocka_unit_test(test_one_that_nobody_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
