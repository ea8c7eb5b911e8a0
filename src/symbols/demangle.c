#include "symbols/demangle.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "base/strbuf.h"

/* libiberty's interface as its demangle.h has it, which not every distribution installs
 * with the library. */
#define DMGL_PARAMS           (1 << 0)
#define DMGL_ANSI             (1 << 1)
#define DMGL_RET_DROP         (1 << 6)
#define DMGL_NO_RECURSE_LIMIT (1 << 18)

typedef void demangle_callback(const char *text, size_t length, void *context);

extern int cplus_demangle_v3_callback(const char *name, int options, demangle_callback *callback,
				      void *context);
extern int rust_demangle_callback(const char *name, int options, demangle_callback *callback,
				  void *context);
extern char *dlang_demangle(const char *name, int options);

#define OPTIONS (DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP)

/* libiberty refuses C++ names longer than half its recursion limit, and knows no limit in
 * D. Above this length both run on a stack that the name's length bounds. */
#define SHORT_NAME 1000u

enum mangling { CXX, RUST, DLANG };

struct job {
	const char *name;
	enum mangling mangling;
	bool is_long;
	bool done;
	struct strbuf text;
	jmp_buf too_long;
};

/* The demanglers keep nothing but their stack, so leaving them by longjmp is clean; it is
 * the only way out of names whose text doubles with every few characters. */
static void collect(const char *text, size_t length, void *context)
{
	struct job *job = context;

	if (length > SYMBOLS_DEMANGLED_MAX - job->text.length)
		longjmp(job->too_long, 1);
	strbuf_append_bytes(&job->text, text, length);
}

static bool demangle_dlang(struct job *job)
{
	CLEANUP_FREE char *text = dlang_demangle(job->name, 0);

	if (!text || strlen(text) > SYMBOLS_DEMANGLED_MAX)
		return false;
	strbuf_append(&job->text, text);
	return true;
}

static void run(struct job *job)
{
	if (setjmp(job->too_long) != 0)
		return;
	switch (job->mangling) {
	case CXX:
		/* Rust's legacy names are C++ names that end in a hash. */
		job->done = rust_demangle_callback(job->name, 0, collect, job) != 0;
		if (job->done)
			break;
		strbuf_clear(&job->text);
		job->done = cplus_demangle_v3_callback(
				    job->name, OPTIONS | (job->is_long ? DMGL_NO_RECURSE_LIMIT : 0),
				    collect, job) != 0;
		break;
	case RUST:
		job->done = rust_demangle_callback(job->name, 0, collect, job) != 0;
		break;
	case DLANG:
		job->done = demangle_dlang(job);
		break;
	}
}

static void *run_thread(void *job)
{
	run(job);
	return NULL;
}

/* libiberty's arrays on the stack grow with the square of a name that is made for it
 * (template scopes times templates); its recursion with the length. Only what is touched
 * takes memory. */
static size_t stack_bytes(size_t length)
{
	return ((size_t)16 << 20) + length * 8192 + length * length / 2;
}

static void run_long(struct job *job)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (pthread_attr_init(&attributes) != 0)
		return;
	if (pthread_attr_setstacksize(&attributes, stack_bytes(strlen(job->name))) == 0 &&
	    pthread_create(&thread, &attributes, run_thread, job) == 0)
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
}

static bool classify(struct job *job)
{
	if (strncmp(job->name, "_R", 2) == 0)
		job->mangling = RUST;
	else if (strncmp(job->name, "_Z", 2) == 0 || strncmp(job->name, "_GLOBAL_", 8) == 0)
		job->mangling = CXX;
	else if (strncmp(job->name, "_D", 2) == 0)
		job->mangling = DLANG;
	else
		return false;
	return true;
}

struct error *symbols_demangle(const char *name, char **ret)
{
	struct job job = {.name = name, .text = STRBUF_EMPTY};
	size_t length = strlen(name);

	*ret = NULL;
	if (length > SYMBOLS_MANGLED_MAX || !classify(&job))
		return NULL;
	job.is_long = length > SHORT_NAME;
	if (job.is_long && job.mangling != RUST)
		run_long(&job);
	else
		run(&job);
	if (!job.done) {
		strbuf_free(&job.text);
		return NULL;
	}
	*ret = strbuf_take(&job.text);
	return *ret ? NULL : error_no_memory();
}
