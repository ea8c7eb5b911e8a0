/*
 * Errors of the tool side: every fallible function returns a struct error *, NULL for
 * success, which the caller must look at. Only the command line prints one or exits.
 *
 * Owner: whoever received it; ended by error_free() or handed on. CLEANUP_ERROR frees
 * one at the end of a scope. Making an error never fails: without memory the answer is
 * a static one, which error_free() leaves alone. No thread safety beyond that of malloc.
 *
 * What it prints as:  message: path: strerror(errnum)
 * where error_context() puts "what was being done: " before the message, once a layer.
 */
#ifndef MALLOGRAPH_BASE_ERROR_H
#define MALLOGRAPH_BASE_ERROR_H

#include <stdbool.h>

#include "base/cleanup.h"

enum error_code {
	ERROR_SYSTEM = 1, /* a system call failed: errnum says how */
	ERROR_NO_MEMORY,
	ERROR_USAGE,     /* the user asked for something that makes no sense */
	ERROR_NOT_FOUND, /* no such file, process, profile */
	ERROR_REFUSED,   /* cannot be done here, or must not: static, setuid, 32-bit … */
	ERROR_FORMAT,    /* not one of our files */
	ERROR_VERSION,   /* ours, of a layout this program does not know */
	ERROR_DAMAGED,   /* ours, but what stands in it contradicts itself */
};

/* Read the members freely; change them only through the functions below. */
struct error {
	enum error_code code;
	int errnum;    /* 0 = none */
	char *message; /* never NULL */
	char *path;    /* the file in question, or NULL */
	char *remedy;  /* a sentence: what to do about it, or NULL */
};

#define ERROR_MUST_CHECK      __attribute__((warn_unused_result))
#define ERROR_PRINTF(fmt, va) __attribute__((format(printf, fmt, va)))
#define CLEANUP_ERROR         CLEANUP(error_cleanup)

/* Return from the calling function with the error of an expression that has one. */
#define TRY(expression)                                  \
	do {                                             \
		struct error *try_error_ = (expression); \
		if (try_error_)                          \
			return try_error_;               \
	} while (0)

struct error *error_create(enum error_code code, const char *format, ...) ERROR_MUST_CHECK
	ERROR_PRINTF(2, 3);
/* About a file; path is copied, NULL = none. */
struct error *error_create_path(enum error_code code, const char *path, const char *format,
				...) ERROR_MUST_CHECK ERROR_PRINTF(3, 4);
/* A failed system call: pass errno. ENOENT's code is ERROR_NOT_FOUND, ENOMEM's NO_MEMORY. */
struct error *error_create_system(int errnum, const char *path, const char *format,
				  ...) ERROR_MUST_CHECK ERROR_PRINTF(3, 4);
/* The static error; for when memory was refused. */
struct error *error_no_memory(void) ERROR_MUST_CHECK;

/* These never return NULL. The analyser of clang-tidy cannot see that across files, and
 * would follow the paths on which they do. */
#ifdef __clang_analyzer__
static inline struct error *error_never_null(struct error *error)
{
	if (!error)
		__builtin_unreachable();
	return error;
}
#define error_create(...)        error_never_null(error_create(__VA_ARGS__))
#define error_create_path(...)   error_never_null(error_create_path(__VA_ARGS__))
#define error_create_system(...) error_never_null(error_create_system(__VA_ARGS__))
#define error_no_memory()        error_never_null(error_no_memory())
#endif

/* Both take the error over and return it (or NULL for NULL, so that they can stand
 * around a call: return error_context(f(), "opening %s", name)). */
struct error *error_context(struct error *error, const char *format, ...) ERROR_MUST_CHECK
	ERROR_PRINTF(2, 3);
struct error *error_remedy(struct error *error, const char *format, ...) ERROR_MUST_CHECK
	ERROR_PRINTF(2, 3);

void error_free(struct error *error);

/* The whole as one line without its remedy, safe for a terminal; malloc'd, NULL without
 * memory. */
char *error_text(const struct error *error);

static inline void error_cleanup(struct error **error) { error_free(*error); }

#endif
