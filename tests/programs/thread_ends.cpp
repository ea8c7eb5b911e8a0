/*
 * thread_ends OUT HOW COUNT: COUNT threads that allocate while they end, as HOW tells:
 *   local         in destructors of C++ thread_local objects, one of which is first used in another's
 *   registered    in functions given to __cxa_thread_atexit_impl, the C library's part of that
 *   tss           in destructors of C11's tss_create
 *   rounds        in a destructor of a pthread key that asks to be called again, as often as a thread
 *                 may, and each time frees a block of another thread
 *   detached      in a key's destructor, of threads that nobody waits for
 *   all           in all of these at once, 8 threads at a time
 *   cancelled     cancelled in nanosleep, read, fprintf, a condition's wait and between two calls, with
 *                 cleanup handlers
 *   main_first    when main has long ended; the last one says the counts
 * Says its tally (of the sites in this program).
 */
#include <atomic>

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

extern "C" {
#include "tally.h"

int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *dso_handle);
extern void *__dso_handle;
}

namespace
{

enum { SHELF = 16, TOGETHER = 8 };

std::atomic<uint64_t> allocations, frees, bytes_in, bytes_out, done;
std::atomic<void *> shelf[SHELF];
uint64_t thread_count;

SITE void *make(size_t size)
{
	void *p = malloc(size);

	KEEP_FRAME();
	if (p == NULL)
		_exit(3);
	memcpy(p, &size, sizeof(size));
	allocations++;
	bytes_in += size;
	return p;
}

void unmake(void *p)
{
	size_t size;

	if (p == NULL)
		return;
	memcpy(&size, p, sizeof(size));
	frees++;
	bytes_out += size;
	free(p);
}

/* Leaves a block for another thread, and frees what another one left. */
void exchange(size_t size) { unmake(shelf[size % SHELF].exchange(make(size))); }

/* --- destructors --------------------------------------------------------------------- */

struct late {
	void *block;

	late() : block(make(80)) {}
	~late()
	{
		unmake(block);
		exchange(90);
	}
	void use() const { __asm__ volatile("" : : "r"(block) : "memory"); }
};

thread_local late second;

struct early {
	void *block;

	early() : block(make(100)) {}
	~early()
	{
		unmake(block);
		unmake(make(110));
		second.use(); /* made only now: its destructor is still to come */
	}
	void use() const { __asm__ volatile("" : : "r"(block) : "memory"); }
};

thread_local early first;

void on_end(void *block)
{
	unmake(block);
	unmake(make(120));
	exchange(130);
}

void again(void *block)
{
	unmake(block);
	unmake(make(140));
	/* Functions registered while they run are run too. */
	__cxa_thread_atexit_impl(on_end, make(150), &__dso_handle);
}

tss_t c11_key;
pthread_key_t key, rounds_key, last_key;

void on_round(void *block)
{
	uint64_t left;

	memcpy(&left, static_cast<char *>(block) + sizeof(size_t), sizeof(left));
	unmake(block);
	exchange(160 + left);
	if (left == 0)
		return;
	left--;
	block = make(200 + left);
	memcpy(static_cast<char *>(block) + sizeof(size_t), &left, sizeof(left));
	pthread_setspecific(rounds_key, block);
}

void start_rounds()
{
	uint64_t left = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
	void *block = make(200);

	memcpy(static_cast<char *>(block) + sizeof(size_t), &left, sizeof(left));
	pthread_setspecific(rounds_key, block);
}

void on_last(void *block)
{
	on_end(block);
	done++;
}

void *use_local(void *)
{
	first.use();
	return NULL;
}

void *use_registered(void *)
{
	__cxa_thread_atexit_impl(again, make(50), &__dso_handle);
	__cxa_thread_atexit_impl(again, make(60), &__dso_handle);
	return NULL;
}

void *use_tss(void *)
{
	tss_set(c11_key, make(70));
	return NULL;
}

void *use_rounds(void *)
{
	start_rounds();
	return NULL;
}

void *use_key(void *)
{
	pthread_setspecific(last_key, make(300));
	return NULL;
}

void *use_all(void *)
{
	use_local(NULL);
	use_registered(NULL);
	use_tss(NULL);
	use_rounds(NULL);
	pthread_setspecific(key, make(310));
	return NULL;
}

/* --- cancellation -------------------------------------------------------------------- */

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t never = PTHREAD_COND_INITIALIZER;
int pipes[2];
FILE *stuck; /* a pipe that nobody reads */
std::atomic<uint64_t> ready;

void on_cancel(void *block)
{
	unmake(block);
	exchange(400);
	unmake(make(410));
}

void unlock(void *) { pthread_mutex_unlock(&lock); }

void wait_in(uint64_t how)
{
	struct timespec hour = {3600, 0};
	char byte;

	ready++;
	if (how == 0) {
		nanosleep(&hour, NULL);
	} else if (how == 1) {
		if (read(pipes[0], &byte, 1) >= 0)
			_exit(5);
	} else if (how == 2) {
		for (;;)
			fprintf(stuck, "%5000d", 7);
	} else if (how == 3) {
		pthread_mutex_lock(&lock);
		pthread_cleanup_push(unlock, NULL);
		for (;;)
			pthread_cond_wait(&never, &lock);
		pthread_cleanup_pop(1);
	} else {
		for (;;) {
			unmake(make(420));
			pthread_testcancel();
		}
	}
}

void *be_cancelled(void *number)
{
	first.use();
	pthread_setspecific(key, make(430));
	pthread_cleanup_push(on_cancel, make(440));
	pthread_cleanup_push(on_cancel, make(450));
	wait_in(reinterpret_cast<uintptr_t>(number) % 5);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	_exit(6);
}

void cancel_each()
{
	pthread_t thread;
	void *result;
	int full[2];

	if (pipe(full) != 0)
		_exit(8);
	stuck = fdopen(full[1], "w");

	for (uint64_t i = 0; i < thread_count; i++) {
		ready = 0;
		if (pthread_create(&thread, NULL, be_cancelled, reinterpret_cast<void *>(i)) != 0)
			_exit(4);
		while (ready == 0)
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			_exit(7);
	}
	/* Or the C library waits for a reader at exit. */
	fcntl(full[1], F_SETFL, O_NONBLOCK);
}

/* --- all of it ------------------------------------------------------------------------ */

void say_all()
{
	struct tally t = {};

	t.allocations = allocations;
	t.frees = frees;
	t.allocated_bytes = bytes_in;
	t.live_blocks = allocations - frees;
	t.live_bytes = bytes_in - bytes_out;
	say_process();
	say_tally(&t);
	say_flush();
}

void each(void *(*work)(void *), uint64_t together)
{
	pthread_t threads[TOGETHER];

	for (uint64_t i = 0; i < thread_count; i += together) {
		for (uint64_t j = 0; j < together; j++)
			if (pthread_create(&threads[j], NULL, work, NULL) != 0)
				_exit(4);
		for (uint64_t j = 0; j < together; j++)
			pthread_join(threads[j], NULL);
	}
}

void detached()
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (uint64_t i = 0; i < thread_count; i++) {
		if (pthread_create(&thread, &attributes, use_key, NULL) != 0)
			_exit(4);
		while (done + 16 < i)
			sched_yield();
	}
	while (done < thread_count)
		sched_yield();
}

pthread_t main_thread;

void *outlive(void *)
{
	pthread_join(main_thread, NULL);
	each(use_all, TOGETHER);
	say_all();
	return NULL;
}

} // namespace

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 4 || pipe(pipes) != 0)
		return 2;
	const char *how = argv[2];

	thread_count = number_of(argv[3]);
	say_open(argv[1]);
	main_thread = pthread_self();
	tss_create(&c11_key, on_end);
	pthread_key_create(&key, on_end);
	pthread_key_create(&rounds_key, on_round);
	pthread_key_create(&last_key, on_last);

#define IS(name) (strcmp(how, name) == 0)
	if (IS("local"))
		each(use_local, 1);
	else if (IS("registered"))
		each(use_registered, 1);
	else if (IS("tss"))
		each(use_tss, 1);
	else if (IS("rounds"))
		each(use_rounds, 1);
	else if (IS("all"))
		each(use_all, TOGETHER);
	else if (IS("detached"))
		detached();
	else if (IS("cancelled"))
		cancel_each();
	else if (IS("main_first") && pthread_create(&thread, NULL, outlive, NULL) == 0)
		pthread_exit(NULL);
	else
		return 2;
	say_all();
	return 0;
}
