/*
 * stress OUT SEED STEPS THREADS WHAT PLUGIN_A PLUGIN_B: every entry point of the hooks at once. THREADS
 * threads take STEPS random steps each over one shelf of blocks: make one, by any of the C functions
 * and forms of operator new, of no bytes or many; free it, or another thread's, by any that fits;
 * reallocate it, to nothing, too; and ask for what must fail. WHAT has a letter for each that comes
 * beside that:
 *   s  a signal each 100 µs in every thread, for every second one on a stack of its own, and one by
 *      the clock of the process each ms, whose handlers make, grow and free blocks
 *   f  forks, whose children go on with what they have of the shelf, alone
 *   l  libraries opened and closed, whose blocks stay
 *   t  short-lived threads
 *   m  an address space that is full now and then, so that anything may fail
 *   o  an allocator that is not the C library's
 *   n  no operator new is asked for too much: an allocator's that is in C can only abort
 * Blocks are stamped at both ends. Says, of all sites in this program: its tally without a peak and
 * without temporaries, `failed` too, and `thrown`; `inherited`, frees in a child of what its parent had; `handled`,
 * `plugin_blocks` and of those `plugin_freed`, `children`.
 */
#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "stress_calls.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace
{

enum { THREADS = 64, SHELF = 1024, STASH = 4, RANGES = 32, ALTERNATE = 32 << 10 };

struct block {
	std::atomic_flag taken;
	unsigned char *at; /* NULL = none */
	size_t size;
	size_t align;
	kind how;
	pid_t owner;
	unsigned char stamp;
};

struct counts {
	uint64_t allocations, frees, bytes_in, bytes_out, failed, inherited;
	uint64_t plugin_blocks, plugin_freed, handled, thrown;
};

struct worker {
	counts own, in_handler;
	uint64_t seed;
	void *stash[STASH];
	size_t stash_size[STASH];
	uint64_t handler_seed;
	unsigned int number;
	alignas(16) char alternate[ALTERNATE];
};

block shelf[SHELF];
worker workers[THREADS], short_lived[THREADS], alone;
thread_local worker *self __attribute__((tls_model("initial-exec")));
uint64_t steps, seed, children;
unsigned int thread_count;
const char *plugins[2];
pid_t process;
bool signals, forks, libraries, more_threads, full, foreign, never_throws;
/* Who opens libraries, forks, starts threads or takes memory away. */
pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;

/* --- steps --------------------------------------------------------------------------- */

size_t random_size(uint64_t *random)
{
	uint64_t what = random_below(random, 100);

	if (what < 3)
		return 0;
	if (what < 80)
		return 1 + random_below(random, 400);
	return 1 + random_below(random, what < 98 ? 40000 : 600000);
}

void stamp(worker *w, block *b)
{
	b->stamp = static_cast<unsigned char>(random_next(&w->seed));
	if (b->size > 0)
		b->at[0] = b->at[b->size - 1] = b->stamp;
}

void check(const block *b)
{
	if (b->size > 0 && (b->at[0] != b->stamp || b->at[b->size - 1] != b->stamp))
		broken("stamp");
}

void count_in(counts *c, size_t size)
{
	c->allocations++;
	c->bytes_in += size;
}

void count_out(counts *c, const block *b)
{
	if (b->owner != process) {
		c->inherited++;
	} else if (b->how == PLUGIN) {
		c->plugin_freed++;
	} else {
		c->frees++;
		c->bytes_out += b->size;
	}
}

void allocate(worker *w, block *b)
{
	kind how = static_cast<kind>(random_below(&w->seed, KINDS));
	size_t size = random_size(&w->seed), count = 1 + random_below(&w->seed, 3);
	size_t align = static_cast<size_t>(8) << random_below(&w->seed, 8);

	if (how == PVALLOC && foreign)
		how = VALLOC;
	if (how == ALIGNED_ALLOC)
		size = size / align * align;
	if (size == 0 && (foreign || how >= NEW))
		size = align;
	if (how >= ALIGNED_NEW) /* the C++ library asks for as much */
		size = (size + align - 1) / align * align;
	b->at = static_cast<unsigned char *>(make_or_null(how, align, count, size, &w->own.thrown));
	if (b->at == NULL) {
		if (!full)
			broken("refused");
		w->own.failed++;
		return;
	}
	b->size = how == CALLOC || how == REALLOCARRAY ? size * count : size;
	b->align = align;
	b->how = how;
	b->owner = process;
	for (size_t i = 0; how == CALLOC && i < b->size; i += 64)
		if (b->at[i] != 0)
			broken("calloc");
	count_in(&w->own, b->size);
	stamp(w, b);
}

void release(worker *w, block *b)
{
	void *p = b->at;

	check(b);
	count_out(&w->own, b);
	b->at = NULL;
	unmake(p, b->how, b->align, b->size, foreign, random_below(&w->seed, 6));
}

void resize(worker *w, block *b)
{
	size_t size = random_size(&w->seed) + 1, count = 1 + random_below(&w->seed, 3);
	size_t kept = size * count < b->size ? 0 : b->size;

	check(b);
	void *p = change(b->at, count, size);

	if (p == NULL) {
		if (!full)
			broken("realloc refused");
		w->own.failed++;
		check(b);
		return;
	}
	count_out(&w->own, b);
	b->at = static_cast<unsigned char *>(p);
	if (b->size > 0 && (b->at[0] != b->stamp || (kept > 0 && b->at[kept - 1] != b->stamp)))
		broken("realloc lost something");
	b->size = size * count;
	b->how = REALLOC;
	b->owner = process;
	count_in(&w->own, b->size);
	stamp(w, b);
}

/* Asks for too much; what there is stays. */
void fail(worker *w, block *b)
{
	size_t huge = (SIZE_MAX / 2 - random_below(&w->seed, 1 << 20)) & ~static_cast<size_t>(63);
	kind how = static_cast<kind>(random_below(&w->seed, never_throws ? NEW : KINDS));

	if (b->at != NULL && b->how <= LAST_OF_C && random_below(&w->seed, 2)) {
		if (change(b->at, 1 + random_below(&w->seed, 2) * 7, huge) != NULL)
			broken("huge realloc");
		check(b);
	} else if (make_or_null(how == PVALLOC && foreign ? VALLOC : how, 64, 1, huge,
				&w->own.thrown) != NULL) {
		broken("huge");
	}
	w->own.failed++;
}

void step(worker *w)
{
	block *b;

	do
		b = &shelf[random_below(&w->seed, SHELF)];
	while (b->taken.test_and_set(std::memory_order_acquire));
	if (random_below(&w->seed, 40) == 0)
		fail(w, b);
	else if (b->at == NULL)
		allocate(w, b);
	else if (b->how <= LAST_OF_C && random_below(&w->seed, 5) < 2)
		resize(w, b);
	else
		release(w, b);
	b->taken.clear(std::memory_order_release);
}

/* --- signals ------------------------------------------------------------------------- */

struct {
	uintptr_t start, stop;
} not_here[RANGES];
int range_count;

/* Where a handler must not allocate in: the C library, the loader, an allocator. */
int note_range(struct dl_phdr_info *info, size_t, void *)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash != NULL ? slash : "";

	if (strstr(name, "libc.so") == NULL && strstr(name, "ld-linux") == NULL &&
	    strstr(name, "alloc") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < RANGES; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		not_here[range_count].start = info->dlpi_addr + p->p_vaddr;
		not_here[range_count++].stop = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	return 0;
}

SITE void *in_handler(void *old, uint64_t way, size_t size)
{
	void *p = NULL;

	if (old != NULL)
		p = realloc(old, size);
	else if (way == 0)
		p = calloc(1, size);
	else if (way == 1)
		p = posix_memalign(&p, 64, size) == 0 ? p : NULL;
	else
		p = malloc(size);
	KEEP_FRAME();
	return p;
}

void handle_one(worker *w)
{
	counts *c = &w->in_handler;
	uint64_t k = random_below(&w->handler_seed, STASH);
	size_t size = 1 + random_below(&w->handler_seed, 600);

	c->handled++;
	if (w->stash[k] != NULL && random_below(&w->handler_seed, 3) < 2) {
		c->frees++;
		c->bytes_out += w->stash_size[k];
		free(w->stash[k]);
		w->stash[k] = NULL;
		return;
	}
	void *p = in_handler(w->stash[k], random_below(&w->handler_seed, 4), size);

	if (p == NULL) {
		c->failed++;
		return;
	}
	if (w->stash[k] != NULL) {
		c->frees++;
		c->bytes_out += w->stash_size[k];
	}
	count_in(c, size);
	w->stash[k] = p;
	w->stash_size[k] = size;
}

void handle(int, siginfo_t *, void *context)
{
	uintptr_t pc = static_cast<uintptr_t>(
		static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
	int error = errno;

	for (int i = 0; i < range_count; i++)
		if (pc >= not_here[i].start && pc < not_here[i].stop)
			return;
	if (self != NULL)
		handle_one(self);
	errno = error;
}

void signals_prepare()
{
	struct sigaction action = {};
	struct itimerval often = {{0, 1000}, {0, 1000}};

	dl_iterate_phdr(note_range, NULL);
	action.sa_sigaction = handle;
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	/* One at a time: a handler's blocks are for one to change. */
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaddset(&action.sa_mask, SIGPROF);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
}

timer_t signals_start(worker *w)
{
	struct sigevent event = {};
	struct itimerspec often = {{0, 100000}, {0, 100000}};
	stack_t stack = {};
	timer_t timer;

	stack.ss_size = ALTERNATE;
	stack.ss_sp = w->alternate;
	if (w->number % 2)
		sigaltstack(&stack, NULL);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
	    timer_settime(timer, 0, &often, NULL) != 0)
		_exit(3);
	return timer;
}

/* --- what comes beside that ----------------------------------------------------------- */

void say(const char *role, const counts *c)
{
	say_process();
	say_word("role");
	say_word(role);
	say_end();
	say_count("allocations", c->allocations);
	say_count("frees", c->frees);
	say_count("allocated_bytes", c->bytes_in);
	say_count("live_blocks", c->allocations - c->frees);
	say_count("live_bytes", c->bytes_in - c->bytes_out);
	say_count("failed", c->failed);
	say_count("inherited", c->inherited);
	say_count("handled", c->handled);
	say_count("thrown", c->thrown);
	say_count("plugin_blocks", c->plugin_blocks);
	say_count("plugin_freed", c->plugin_freed);
	say_count("children", children);
	say_flush();
}

/* Blocks that other threads had taken stay as they are. */
[[noreturn]] void be_child(uint64_t number)
{
	block *b;

	self = NULL; /* no handlers */
	process = getpid();
	alone.own = {};
	alone.seed = number;
	for (int i = 0; i < 300; i++) {
		b = &shelf[random_below(&alone.seed, SHELF)];
		if (b->taken.test_and_set())
			continue;
		b->taken.clear();
		step(&alone);
	}
	children = 0;
	said.used = 0;
	say("child", &alone.own);
	_exit(0);
}

void fork_one(worker *w)
{
	uint64_t number = random_next(&w->seed);
	int status;

	pthread_mutex_lock(&loader);
	pid_t pid = fork();

	if (pid == 0)
		be_child(number);
	children += pid > 0;
	pthread_mutex_unlock(&loader);
	if (pid < 0)
		broken("fork");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(4);
	if (status != 0)
		broken("child");
}

void use_library(worker *w)
{
	pthread_mutex_lock(&loader);
	void *library = dlopen(plugins[random_below(&w->seed, 2)], RTLD_NOW | RTLD_LOCAL);
	void *(*function)(unsigned long) = NULL;

	if (library != NULL)
		function =
			reinterpret_cast<void *(*)(unsigned long)>(dlsym(library, "plugin_make"));
	if (function == NULL)
		broken("plugin");
	for (int i = 0; i < 20; i++) {
		block *b = &shelf[random_below(&w->seed, SHELF)];

		if (b->taken.test_and_set(std::memory_order_acquire))
			continue;
		if (b->at != NULL)
			release(w, b);
		b->size = 1 + random_below(&w->seed, 300);
		b->at = static_cast<unsigned char *>(function(b->size));
		b->how = PLUGIN;
		b->owner = process;
		w->own.plugin_blocks++;
		stamp(w, b);
		b->taken.clear(std::memory_order_release);
	}
	dlclose(library);
	pthread_mutex_unlock(&loader);
}

void take_steps(worker *w, uint64_t count)
{
	timer_t timer = signals ? signals_start(w) : timer_t();

	self = w;
	for (uint64_t i = 0; i < count; i++)
		step(w);
	self = NULL;
	if (signals)
		timer_delete(timer);
}

void *live_shortly(void *place)
{
	worker *w = static_cast<worker *>(place);

	take_steps(w, 100);
	return NULL;
}

/* What a thread of these counted goes on with the next in its place. */
void start_thread(worker *w)
{
	worker *next = &short_lived[w->number];
	pthread_t thread;

	next->number = w->number + random_below(&w->seed, 2);
	next->seed = random_next(&w->seed);
	pthread_mutex_lock(&loader);
	if (pthread_create(&thread, NULL, live_shortly, next) != 0)
		broken("thread");
	pthread_mutex_unlock(&loader);
	pthread_join(thread, NULL);
}

/* For as long as it takes another thread to come to a call or two. */
void fill_address_space()
{
	struct rlimit was, now;

	pthread_mutex_lock(&loader);
	getrlimit(RLIMIT_AS, &was);
	now = was;
	now.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_AS, &now);
	for (int i = 0; i < 20; i++)
		sched_yield();
	setrlimit(RLIMIT_AS, &was);
	pthread_mutex_unlock(&loader);
}

void *work(void *place)
{
	worker *w = static_cast<worker *>(place);
	uint64_t part = 1000;

	for (uint64_t done = 0; done < steps; done += part) {
		take_steps(w, part);
		uint64_t what = random_below(&w->seed, 4);

		if (what == 0 && forks)
			fork_one(w);
		if (what == 1 && libraries)
			use_library(w);
		if (what == 2 && more_threads)
			start_thread(w);
		if (what == 3 && full)
			fill_address_space();
	}
	return NULL;
}

void add(counts *sum, const counts *more)
{
	sum->allocations += more->allocations;
	sum->frees += more->frees;
	sum->bytes_in += more->bytes_in;
	sum->bytes_out += more->bytes_out;
	sum->failed += more->failed;
	sum->inherited += more->inherited;
	sum->plugin_blocks += more->plugin_blocks;
	sum->plugin_freed += more->plugin_freed;
	sum->handled += more->handled;
	sum->thrown += more->thrown;
}

} // namespace

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct itimerval never = {};
	counts sum = {};

	if (argc != 8)
		return 2;
	seed = number_of(argv[2]);
	steps = number_of(argv[3]);
	thread_count = static_cast<unsigned int>(number_of(argv[4]));
	signals = strchr(argv[5], 's') != NULL;
	forks = strchr(argv[5], 'f') != NULL;
	libraries = strchr(argv[5], 'l') != NULL;
	more_threads = strchr(argv[5], 't') != NULL;
	full = strchr(argv[5], 'm') != NULL;
	foreign = strchr(argv[5], 'o') != NULL;
	never_throws = strchr(argv[5], 'n') != NULL;
	plugins[0] = argv[6];
	plugins[1] = argv[7];
	process = getpid();
	if (thread_count < 1 || thread_count > THREADS)
		return 2;
	say_open(argv[1]);
	if (signals)
		signals_prepare();
	for (unsigned int i = 0; i < thread_count; i++) {
		workers[i].number = i;
		workers[i].seed = seed * 1000 + i;
		/* Those that run already may have left no address space, for a moment. */
		for (int tries = 1; pthread_create(&threads[i], NULL, work, &workers[i]) != 0;
		     tries++) {
			if (tries == 1000)
				return 4;
			usleep(1000);
		}
	}
	for (unsigned int i = 0; i < thread_count; i++) {
		pthread_join(threads[i], NULL);
		add(&sum, &workers[i].own);
		add(&sum, &workers[i].in_handler);
		add(&sum, &short_lived[i].own);
		add(&sum, &short_lived[i].in_handler);
	}
	setitimer(ITIMER_PROF, &never, NULL);
	say("parent", &sum);
	return 0;
}
