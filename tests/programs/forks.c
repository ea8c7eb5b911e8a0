/*
 * forks OUT HOW [COUNT]: a process and children of it that all allocate, as HOW tells:
 *   fork, raw (the system call), vfork_exec, spawn    COUNT children one after another
 *   inherit   COUNT children at one time, which free and reallocate what the parent made
 *   threads   4 threads that allocate and fork COUNT children each, at the same time
 *   chain     each child forks the next, COUNT deep
 *   handler, handler_raw   a signal handler forks COUNT children, mostly in mid-call, by _Fork or
 *             the system call; each returns from it, goes on with what its parent did, and
 *             ends by itself
 *   child     what vfork_exec and spawn start: allocates and says so
 * Every process says `process PID`, `role`, its tally since it began, and `inherited`, how
 * many frees of blocks it had from its parent are not in that tally.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tally.h"

extern char **environ;

enum { HELD = 64 };

static struct tally t;
static uint64_t inherited;
static void *held[HELD];
static size_t held_sizes[HELD];
static int held_here[HELD]; /* made by this process */
static uint64_t child_count;
static char **arguments;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	return p;
}

static int last = -1; /* where this process's last block is held */

static void new_process(void)
{
	last = -1;
	memset(&t, 0, sizeof(t));
	inherited = 0;
	memset(held_here, 0, sizeof(held_here));
}

static void drop(size_t i)
{
	if (held_here[i])
		tally_out(&t, held_sizes[i]);
	else
		inherited++;
	free(held[i]);
	held[i] = NULL;
}

static void churn(uint64_t seed, int calls)
{
	for (int i = 0; i < calls; i++) {
		size_t k = random_below(&seed, HELD);

		if (held[k] != NULL) {
			t.temporary += (int)k == last;
			last = (int)k == last ? -1 : last;
			drop(k);
			continue;
		}
		held_sizes[k] = 16 + random_below(&seed, 900);
		held[k] = make(held_sizes[k]);
		held_here[k] = 1;
		last = (int)k;
		tally_in(&t, held_sizes[k]);
	}
}

static void say(const char *role)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_tally(&t);
	say_count("inherited", inherited);
	say_flush();
}

static void wait_for(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		_exit(4);
}

static void one_child(const char *how, uint64_t seed)
{
	char *const child[] = {arguments[0], arguments[1], "child", arguments[3], NULL};
	pid_t pid;

	if (strcmp(how, "spawn") == 0) {
		if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, child, environ) != 0)
			_exit(5);
	} else if (strcmp(how, "vfork_exec") == 0) {
		pid = vfork();
		if (pid == 0) {
			execve("/proc/self/exe", child, environ);
			_exit(6);
		}
	} else {
		pid = strcmp(how, "raw") == 0
			      ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)
			      : fork();
		if (pid == 0) {
			new_process();
			churn(seed, 50 + (int)random_below(&seed, 200));
			say("child");
			_exit(0);
		}
	}
	wait_for(pid);
}

static void chain(uint64_t depth)
{
	pid_t pid = 0;

	for (;;) {
		churn(depth, 100);
		if (depth == 0 || (pid = fork()) != 0)
			break;
		new_process();
		depth--;
	}
	if (depth > 0) {
		wait_for(pid);
		/* What the child did must not show here. */
		churn(depth + 1000, 50);
	}
	say("link");
	_exit(0);
}

/* --- inheriting -------------------------------------------------------------------- */

enum { PILE = 4000 };
static void *pile[PILE];

static void pile_make(void)
{
	for (size_t i = 0; i < PILE; i++) {
		size_t size = 1 + i * 7 % 3000;

		pile[i] = make(size);
		tally_in(&t, size);
	}
}

/* Every seventh is made larger, some are given up by realloc, others freed. */
static void pile_use(uint64_t seed)
{
	for (size_t i = seed % 5; i < PILE; i += 5) {
		void *p = i % 7 == 0 ? realloc(pile[i], 3000 + i) : NULL;

		if (i % 7 != 0)
			free(pile[i]);
		else if (p == NULL)
			_exit(9);
		else
			tally_in(&t, 3000 + i);
		inherited++;
	}
}

static void from_a_pile(void)
{
	pile_make();
	for (uint64_t i = 0; i < child_count; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			new_process();
			churn(i, 100);
			pile_use(i);
			churn(i + 1, 100);
			say("child");
			_exit(0);
		}
		if (pid < 0)
			_exit(10);
	}
	while (wait(NULL) > 0)
		;
	last = -1;
}

/* --- threads ---------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *fork_and_allocate(void *seed_number)
{
	uint64_t seed = (uint64_t)(uintptr_t)seed_number;
	struct tally own = {0};

	for (uint64_t i = 0; i < child_count; i++) {
		for (int j = 0; j < 50; j++) {
			size_t size = 16 + random_below(&seed, 300);

			free(make(size));
			tally_in(&own, size);
			tally_out(&own, size);
			own.temporary++;
		}
		pid_t pid = fork();

		if (pid == 0) {
			new_process();
			/* The slots of `held` are empty: only children use them here. */
			churn(seed, 100);
			/* The line buffer is its own copy, and empty: parents say at the end. */
			say("child");
			_exit(0);
		}
		wait_for(pid);
	}
	pthread_mutex_lock(&lock);
	t.allocations += own.allocations;
	t.frees += own.frees;
	t.allocated_bytes += own.allocated_bytes;
	t.temporary += own.temporary;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void from_threads(void)
{
	pthread_t all[4];

	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&all[i], NULL, fork_and_allocate, (void *)(i + 1)) != 0)
			_exit(7);
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
}

/* --- handler ----------------------------------------------------------------------- */

static volatile sig_atomic_t forked, in_child;
static int by_system_call;

static void fork_in_handler(int signal_number)
{
	(void)signal_number;
	if (in_child || (uint64_t)forked >= child_count)
		return;
	forked++;
	/* Not fork(): its handlers would take malloc's locks, which the call below may hold. */
	pid_t pid = by_system_call ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)
				   : _Fork();

	if (pid == 0)
		in_child = 1;
	else if (pid < 0)
		_exit(8);
}

static void in_handler(void)
{
	struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	uint64_t seed = 3;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while ((uint64_t)forked < child_count && !in_child) {
		size_t k = random_below(&seed, HELD);

		if (held[k] == NULL) {
			held_sizes[k] = 16 + random_below(&seed, 5000);
			held[k] = make(held_sizes[k]);
			tally_in(&t, held_sizes[k]);
		} else {
			tally_out(&t, held_sizes[k]);
			free(held[k]);
			held[k] = NULL;
		}
	}
	if (in_child) {
		/* The call the fork fell into is the parent's or this one's: told apart by `say`. */
		new_process();
		for (int i = 0; i < 100; i++) {
			free(make(777));
			tally_in(&t, 777);
			tally_out(&t, 777);
			t.temporary++;
		}
		say("handler_child");
		_exit(0);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	t.temporary = 0;
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *how = argv[2];

	arguments = argv;
	child_count = argc > 3 ? number_of(argv[3]) : 1;
	say_open(argv[1]);
	if (strcmp(how, "child") == 0) {
		churn((uint64_t)getpid(), 150);
		say("child");
		return 0;
	}
	if (strcmp(how, "chain") == 0)
		chain(child_count);
	if (strcmp(how, "threads") == 0) {
		from_threads();
		say("parent_of_threads");
		return 0;
	}
	by_system_call = strcmp(how, "handler_raw") == 0;
	if (strncmp(how, "handler", 7) == 0) {
		in_handler();
		say("parent_of_handler");
		return 0;
	}
	if (strcmp(how, "inherit") == 0)
		from_a_pile();
	for (uint64_t i = 0; i < child_count && strcmp(how, "inherit") != 0; i++) {
		churn(i + 1, 20);
		one_child(how, i + 500);
	}
	churn(99, 20);
	say("parent");
	return 0;
}
