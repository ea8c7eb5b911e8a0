/*
 * script OUT STEP…: does the steps in order. Counts are exact at every `say`.
 *   make:N:SIZE   N blocks of SIZE bytes, kept          free:N   the N newest of them
 *   fill:N:SIZE   the same, and written to
 *   tree:N        N blocks of 40 bytes, kept, each from a stack of its own
 *   churn:N       N blocks of 100 bytes, each freed at once
 *   busy:N        N threads that hold one more or one less block each, without end
 *   say           says the tally                        wait     says `ready`, reads a line
 *   close         closes every descriptor but the one it says to
 *   chroot:DIR    setuid:ID    fsize:N    nofile:N      as:N (bytes over what is mapped now)
 *   lock:FLAGS    all memory, as mlockall does          memlock:N
 *   undumpable    by prctl
 *   stack:N       the rest on a thread of N bytes of stack
 *   kill          by SIGKILL                            exit:N   abort
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "resident.h"

enum { KEPT = 1 << 20 };

static void *kept[KEPT];
static uint32_t sizes[KEPT];
static uint64_t used;
static struct tally t;

SITE static void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	return p;
}

static void keep(void *p, size_t size)
{
	if (used == KEPT)
		_exit(4);
	kept[used] = p;
	sizes[used++] = (uint32_t)size;
	tally_in(&t, size);
}

static void drop(uint64_t n)
{
	for (; n > 0 && used > 0; n--) {
		tally_out(&t, sizes[--used]);
		free(kept[used]);
	}
	/* Whether the first was a temporary's free depends on the step before. */
}

/* Two ways down at every level: 2^18 stacks. */
SITE static void *left(uint64_t path, int depth);
SITE static void *right(uint64_t path, int depth);

static void *deeper(uint64_t path, int depth)
{
	if (depth == 0)
		return make(40);
	return path & 1 ? left(path >> 1, depth - 1) : right(path >> 1, depth - 1);
}

SITE static void *left(uint64_t path, int depth)
{
	void *p = deeper(path, depth);

	KEEP_FRAME();
	return p;
}

SITE static void *right(uint64_t path, int depth)
{
	void *p = deeper(path, depth);

	KEEP_FRAME();
	return p;
}

SITE static void *make_busy(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	return p;
}

static void *busy(void *unused)
{
	(void)unused;
	for (;;) {
		void *a = make_busy(1000), *b = make_busy(24);

		free(a);
		free(b);
	}
	return NULL;
}

static void limit(int what, rlim_t value)
{
	struct rlimit l = {value, value};

	if (setrlimit((__rlimit_resource_t)what, &l) != 0)
		_exit(5);
}

static uint64_t mapped_now(void)
{
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		_exit(6);
	close(fd);
	return status_value(text, "VmSize:");
}

static void keep_waiting(void)
{
	char c;

	say_count("ready", 1);
	say_flush();
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static void close_all(void)
{
	if ((said.fd > 0 && syscall(SYS_close_range, 0, said.fd - 1, 0) != 0) ||
	    syscall(SYS_close_range, said.fd + 1, ~0u, 0) != 0)
		_exit(7);
}

static void *steps(void *list);

static int step(const char *s, char **rest)
{
	const char *colon = strchr(s, ':');
	uint64_t n = colon ? number_of(colon + 1) : 0;
	const char *second = colon ? strchr(colon + 1, ':') : NULL;
	size_t size = second ? number_of(second + 1) : 0;
	pthread_attr_t attributes;
	pthread_t thread;

#define IS(word) (strncmp(s, word, sizeof(word) - 1) == 0)
	if (IS("make:") || IS("fill:")) {
		for (uint64_t i = 0; i < n; i++) {
			keep(make(size), size);
			if (*s == 'f')
				memset(kept[used - 1], 1, size);
		}
	} else if (IS("free:")) {
		drop(n);
	} else if (IS("tree:")) {
		for (uint64_t i = 0; i < n; i++)
			keep(deeper(i, 18), 40);
	} else if (IS("churn:")) {
		for (uint64_t i = 0; i < n; i++) {
			free(make(100));
			tally_in(&t, 100);
			tally_out(&t, 100);
			t.temporary++;
		}
	} else if (IS("busy:")) {
		for (uint64_t i = 0; i < n; i++)
			if (pthread_create(&thread, NULL, busy, NULL) != 0)
				_exit(8);
	} else if (IS("say")) {
		say_process();
		say_tally(&t);
		say_flush();
	} else if (IS("wait")) {
		keep_waiting();
	} else if (IS("close")) {
		close_all();
	} else if (IS("chroot:")) {
		if (chroot(colon + 1) != 0 || chdir("/") != 0)
			_exit(9);
	} else if (IS("setuid:")) {
		if (setgid((gid_t)n) != 0 || setuid((uid_t)n) != 0)
			_exit(10);
	} else if (IS("fsize:")) {
		limit(RLIMIT_FSIZE, n);
	} else if (IS("nofile:")) {
		limit(RLIMIT_NOFILE, n);
	} else if (IS("as:")) {
		limit(RLIMIT_AS, mapped_now() + n);
	} else if (IS("memlock:")) {
		limit(RLIMIT_MEMLOCK, n);
	} else if (IS("lock:")) {
		if (mlockall((int)n) != 0)
			_exit(77);
	} else if (IS("undumpable")) {
		prctl(PR_SET_DUMPABLE, 0);
	} else if (IS("abort")) {
		abort();
	} else if (IS("kill")) {
		raise(SIGKILL);
	} else if (IS("exit:")) {
		_exit((int)n);
	} else if (IS("stack:")) {
		pthread_attr_init(&attributes);
		if (pthread_attr_setstacksize(&attributes, n) != 0 ||
		    pthread_create(&thread, &attributes, steps, rest) != 0)
			_exit(8);
		pthread_join(thread, NULL);
		return 0;
	} else {
		_exit(2);
	}
	return 1;
}

static void *steps(void *list)
{
	for (char **s = list; *s != NULL; s++)
		if (!step(*s, s + 1))
			break;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	say_open(argv[1]);
	steps(argv + 2);
	return 0;
}
