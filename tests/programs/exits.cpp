/*
 * exits OUT HOW: a program that allocates before main, in the order of all constructors there are,
 * and after it, in all that runs at its end, with its blocks made and freed by libearly, which
 * says the counts at last. Ends as HOW tells:
 *   return, exit
 *   quick     by quick_exit, which runs at_quick_exit's functions alone
 *   _exit     without anything
 *   threads   by exit while 4 threads allocate, who go on until the last destructors
 *   thread    by exit in a thread, while main allocates
 *   last      by the end of its last thread, main having ended long ago
 *   signal    by exit in a signal handler
 *   nested    by exit in a function that runs at exit
 */
#include <atomic>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "early.h"

namespace
{

enum { THREADS = 4 };

void *resolved; /* made while the program was still being relocated */
void *of_constructor, *of_preinit, *given;
std::atomic<int> working, over;

/* --- before main ----------------------------------------------------------------------- */

struct with_block {
	void *block;

	with_block() : block(early_make(100)) {}
	~with_block()
	{
		early_free(block);
		early_free(early_make(110));
	}
};

with_block first, second;
thread_local with_block of_thread; /* ends before those, or with its thread */

void before_all(int, char **, char **) { of_preinit = early_make(120); }

__attribute__((section(".preinit_array"), used)) void (*preinit)(int, char **,
								 char **) = before_all;

__attribute__((constructor(101))) void construct()
{
	early_free(of_preinit);
	of_constructor = early_make(130);
}

/* --- after it ---------------------------------------------------------------------------- */

__attribute__((destructor(102))) void destroy()
{
	early_free(of_constructor);
	of_constructor = early_make(140);
}

void at_exit()
{
	static with_block made_at_exit; /* its destructor is registered while others run */

	early_free(given);
	given = early_make(150);
}

void at_exit_too()
{
	early_free(early_make(160));
	atexit(at_exit); /* once more */
}

void on_exit_given(int, void *block) { early_free(block); }

void at_quick() { early_free(early_make(170)); }

void at_quick_last()
{
	early_free(given);
	early_say();
}

void exit_again() { exit(7); }

/* --- threads ------------------------------------------------------------------------------ */

void work_until_over()
{
	void *held[32] = {NULL};

	for (size_t i = 0; !over; i++) {
		early_free(held[i % 32]);
		held[i % 32] = early_make(200 + i % 100);
	}
	/* Some stay. */
	for (int i = 0; i < 16; i++)
		early_free(held[i]);
}

void *work(void *)
{
	working++;
	work_until_over();
	working--;
	pause();
	return NULL;
}

void end_work()
{
	usleep(20000);
	over = 1;
	while (working != 0)
		usleep(100);
}

void start_work()
{
	pthread_t thread;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			_exit(80);
	while (working != THREADS)
		usleep(100);
	early_at_the_end(end_work);
}

void *exit_in_thread(void *)
{
	usleep(10000);
	exit(7);
}

pthread_t main_thread;

void *end_last(void *)
{
	pthread_join(main_thread, NULL);
	__asm__ volatile("" : : "r"(of_thread.block) : "memory");
	early_free(early_make(180));
	return NULL;
}

void on_signal(int) { exit(7); }

void in_main(const char *how)
{
	pthread_t thread;

	given = early_make(190);
	__asm__ volatile("" : : "r"(of_thread.block) : "memory");
	atexit(at_exit);
	atexit(at_exit_too);
	on_exit(on_exit_given, early_make(210));
	at_quick_exit(at_quick_last);
	at_quick_exit(at_quick);
#define IS(name) (strcmp(how, name) == 0)
	if (IS("exit"))
		exit(7);
	if (IS("quick"))
		quick_exit(7);
	if (IS("_exit")) {
		early_say();
		_exit(7);
	}
	if (IS("threads"))
		start_work();
	if (IS("thread") && pthread_create(&thread, NULL, exit_in_thread, NULL) == 0) {
		early_at_the_end(end_work);
		working++;
		work_until_over();
		working--;
		pause();
	}
	if (IS("last") && pthread_create(&thread, NULL, end_last, NULL) == 0)
		pthread_exit(NULL);
	if (IS("signal")) {
		signal(SIGUSR1, on_signal);
		raise(SIGUSR1);
	}
	if (IS("nested"))
		atexit(exit_again);
}

int seven() { return 7; }

} // namespace

/* An indirect function of the program's, whose resolver makes a block. */
extern "C" {
static int (*resolve_code(void))(void)
{
	resolved = malloc(1000);
	return seven;
}
int code(void) __attribute__((ifunc("resolve_code")));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	main_thread = pthread_self();
	early_say_to(argv[1]);
	in_main(argv[2]);
	return resolved != NULL ? code() : 81;
}
