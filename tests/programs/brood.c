/*
 * brood OUT HOW COUNT SIZE [HOLD]: children that hold memory, which parent and children say.
 *   together  COUNT children, each with SIZE bytes in ten blocks, all at one time and for
 *             HOLD ms (a third of a second); so the tree had COUNT × SIZE, and its parent nothing
 *   in_turn   one after the other, so the tree never had more than SIZE
 *   waiting   in turn; then the parent allocates SIZE bytes, says `ready`, and waits for its input
 *             to end
 *   running   in turn for as long as the input is open, at least COUNT of them
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tally.h"

enum { BLOCKS = 10 };

static struct tally t;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	tally_in(&t, size);
	return p;
}

static void say(const char *role)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_tally(&t);
	say_flush();
}

static void hold(size_t size, int ready, int until)
{
	void *blocks[BLOCKS];
	char byte = 0;

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = make(size / BLOCKS);
	if (ready >= 0 && (write(ready, "r", 1) != 1 || read(until, &byte, 1) != 0))
		_exit(4);
	for (int i = 0; i < BLOCKS; i++) {
		free(blocks[i]);
		tally_out(&t, size / BLOCKS);
	}
	say("child");
	_exit(0);
}

static void together(uint64_t count, size_t size, uint64_t hold_ms)
{
	int ready[2], until[2];
	char byte;

	if (pipe(ready) != 0 || pipe(until) != 0)
		_exit(5);
	for (uint64_t i = 0; i < count; i++)
		if (fork() == 0) {
			close(until[1]);
			hold(size, ready[1], until[0]);
		}
	for (uint64_t i = 0; i < count; i++)
		if (read(ready[0], &byte, 1) != 1)
			_exit(6);
	usleep((useconds_t)hold_ms * 1000);
	close(until[1]);
	while (wait(NULL) > 0)
		;
}

static void one(size_t size)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		hold(size, -1, -1);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		_exit(7);
}

static int input_is_open(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) == 0;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	uint64_t count = number_of(argv[3]);
	size_t size = number_of(argv[4]);
	char byte;

	say_open(argv[1]);
	if (strcmp(argv[2], "together") == 0)
		together(count, size, argc > 5 ? number_of(argv[5]) : 333);
	for (uint64_t i = 0; strcmp(argv[2], "together") != 0 && i < count; i++)
		one(size);
	if (strcmp(argv[2], "waiting") == 0) {
		make(size);
		say_count("ready", 1);
		say_flush();
		if (read(0, &byte, 1) != 0)
			return 8;
	}
	if (strcmp(argv[2], "running") == 0) {
		say_count("ready", 1);
		say_flush();
		while (input_is_open())
			one(size);
	}
	say("parent");
	return 0;
}
