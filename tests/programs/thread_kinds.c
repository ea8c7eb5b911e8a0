/*
 * thread_kinds OUT HOW COUNT: COUNT unusual threads that allocate, as HOW tells:
 *   named         one after another, each by a name of its own before its first call
 *   strangers     likewise, by names that have nothing in common
 *   renamed       four at a time that change their names between any two calls
 *   smallest      on stacks of PTHREAD_STACK_MIN, with a signal handled on a stack of MINSIGSTKSZ
 *   reused        one after another, all of the same thread id (needs a pid namespace of its own)
 *   cloned        made by clone() with this thread's own thread-local storage, while it waits
 *   vm            likewise, but processes of their own that share the memory
 *   asynchronous  cancelled at any instruction, with a cleanup handler. Not of malloc and free, which
 *                 leave a lock of the C library behind, here and without a profiler
 * Says its tally of `made` and memory.
 * For reused `same`: how often a thread had the id of the one before it.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>
#include <time.h>

#include "resident.h"

enum { BLOCKS = 7, STACK = 128 << 10 };

static struct tally counts;
static uint64_t thread_count;

SITE static void *made(void *old, int way, size_t size)
{
	void *p = NULL;

	switch (way) {
	case 0:
		p = calloc(1, size);
		break;
	case 1:
		p = memalign(256, size);
		break;
	case 2:
		if (posix_memalign(&p, 64, size) != 0)
			_exit(3);
		break;
	case 3:
		p = realloc(old, size);
		break;
	default:
		p = malloc(size);
	}
	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	return p;
}

/* Seven blocks of which three stay, one of them grown. */
static void *allocate(void *together)
{
	void *p[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		p[i] = made(NULL, i, 100 + 10 * (size_t)i);
		if (together != NULL)
			prctl(PR_SET_NAME, i % 2 ? "odd" : "even");
	}
	p[2] = made(p[2], 3, 500);
	for (int i = 3; i < BLOCKS; i++)
		free(p[i]);
	return NULL;
}

static void count_one(void)
{
	for (uint64_t i = 0; i < BLOCKS; i++)
		tally_in(&counts, 100 + 10 * i);
	tally_out(&counts, 120);
	tally_in(&counts, 500);
	for (uint64_t i = 3; i < BLOCKS; i++)
		tally_out(&counts, 100 + 10 * i);
}

static void run(const pthread_attr_t *attributes, void *(*work)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, attributes, work, argument) != 0)
		_exit(4);
	pthread_join(thread, NULL);
}

/* --- names ---------------------------------------------------------------------------- */

static char *digits(char *to, uint64_t value, unsigned int base)
{
	do
		*to++ = (char)((base == 26 ? 'a' : '0') + value % base);
	while ((value /= base) != 0);
	*to = '\0';
	return to;
}

static void *named(void *number)
{
	char name[32] = "conn-";

	digits(name + 5, (uintptr_t)number, 10);
	prctl(PR_SET_NAME, name);
	return allocate(NULL);
}

/* The name begins with what differs. */
static void *stranger(void *number)
{
	char name[32];

	memcpy(digits(name, (uintptr_t)number, 26), "z", 2);
	prctl(PR_SET_NAME, name);
	return allocate(NULL);
}

static void renamed(void)
{
	pthread_t threads[4];

	for (uint64_t i = 0; i < thread_count; i += 4) {
		for (int j = 0; j < 4; j++)
			if (pthread_create(&threads[j], NULL, allocate, threads) != 0)
				_exit(4);
		for (int j = 0; j < 4; j++) {
			pthread_join(threads[j], NULL);
			count_one();
		}
	}
}

/* --- small stacks --------------------------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
	allocate(NULL);
}

static void *on_smallest(void *unused)
{
	size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + MINSIGSTKSZ;
	stack_t stack = {.ss_size = size};

	(void)unused;
	stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
	allocate(NULL);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	munmap(stack.ss_sp, size);
	return NULL;
}

static void smallest(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	pthread_attr_t attributes;

	sigaction(SIGUSR1, &action, NULL);
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0)
		_exit(5);
	for (uint64_t i = 0; i < thread_count; i++) {
		run(&attributes, on_smallest, NULL);
		count_one();
		count_one();
	}
}

/* --- ids ------------------------------------------------------------------------------ */

static pid_t last_id;
static uint64_t same;

static void *note_id(void *unused)
{
	pid_t id = (pid_t)syscall(SYS_gettid);

	same += id == last_id;
	last_id = id;
	return allocate(unused);
}

static void reused(void)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);

	for (uint64_t i = 0; i < thread_count; i++) {
		if (fd >= 0 && pwrite(fd, "200", 3, 0) != 3)
			_exit(6);
		run(NULL, note_id, NULL);
		count_one();
	}
}

/* --- clone ---------------------------------------------------------------------------- */

static int cloned(void *unused)
{
	allocate(unused);
	syscall(SYS_exit, 0);
	return 0;
}

static void clone_each(int flags)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static _Atomic pid_t alive;

	for (uint64_t i = 0; i < thread_count; i++) {
		alive = 1;
		pid_t id = clone(cloned, stack + STACK, flags, NULL, NULL, NULL, &alive);

		if (id < 0)
			_exit(7);
		for (pid_t now; (now = alive) != 0;)
			syscall(SYS_futex, &alive, FUTEX_WAIT, now, NULL, NULL, 0);
		if (!(flags & CLONE_THREAD) && waitpid(id, NULL, 0) != id)
			_exit(8);
		count_one();
	}
}

/* --- cancelled anywhere ---------------------------------------------------------------- */

static atomic_bool ready;

static void on_cancel(void *block)
{
	free(block);
	allocate(NULL);
}

static void *be_cancelled(void *unused)
{
	volatile uint64_t computed = 0;
	int old;

	(void)unused;
	pthread_cleanup_push(on_cancel, made(NULL, 4, 140));
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	ready = 1;
	for (;;)
		computed++;
	pthread_cleanup_pop(0);
	return NULL;
}

static void asynchronous(void)
{
	for (uint64_t i = 0; i < thread_count; i++) {
		struct timespec pause = {0, (long)(i * 977 % 40000)};
		pthread_t thread;
		void *result;

		ready = 0;
		if (pthread_create(&thread, NULL, be_cancelled, NULL) != 0)
			_exit(4);
		while (!ready)
			sched_yield();
		nanosleep(&pause, NULL);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			_exit(9);
		tally_in(&counts, 140);
		tally_out(&counts, 140);
		count_one();
	}
}

static void each(void *(*work)(void *))
{
	for (uint64_t i = 0; i < thread_count; i++) {
		run(NULL, work, (void *)(uintptr_t)i);
		count_one();
	}
}

int main(int argc, char **argv)
{
	enum { SHARED = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_CHILD_CLEARTID };

	if (argc != 4)
		return 2;
	const char *how = argv[2];

	thread_count = number_of(argv[3]);
	say_open(argv[1]);
	say_process();
#define IS(name) (strcmp(how, name) == 0)
	if (IS("named"))
		each(named);
	else if (IS("strangers"))
		each(stranger);
	else if (IS("renamed"))
		renamed();
	else if (IS("smallest"))
		smallest();
	else if (IS("reused"))
		reused();
	else if (IS("cloned"))
		clone_each(SHARED | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM);
	else if (IS("vm"))
		clone_each(SHARED | SIGCHLD);
	else if (IS("asynchronous"))
		asynchronous();
	else
		return 2;
	say_tally(&counts);
	say_count("same", same);
	say_resident();
	say_flush();
	return 0;
}
