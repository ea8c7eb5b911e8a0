#include "base/error.h"

#ifdef __clang_analyzer__
#undef error_create
#undef error_create_path
#undef error_create_system
#undef error_no_memory
#endif

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"

static char no_memory_message[] = "out of memory";
static struct error no_memory = {
	.code = ERROR_NO_MEMORY,
	.message = no_memory_message,
};

struct error *error_no_memory(void) { return &no_memory; }

static struct error *create(enum error_code code, int errnum, const char *path, const char *format,
			    va_list arguments)
{
	struct error *error = calloc(1, sizeof(*error));

	if (!error)
		return &no_memory;
	error->code = code;
	error->errnum = errnum;
	if (vasprintf(&error->message, format, arguments) < 0) {
		free(error);
		return &no_memory;
	}
	if (path)
		error->path = strdup(path); /* lost without memory, the message is not */
	return error;
}

struct error *error_create(enum error_code code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	struct error *error = create(code, 0, NULL, format, arguments);
	va_end(arguments);
	return error;
}

struct error *error_create_path(enum error_code code, const char *path, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	struct error *error = create(code, 0, path, format, arguments);
	va_end(arguments);
	return error;
}

struct error *error_create_system(int errnum, const char *path, const char *format, ...)
{
	enum error_code code = errnum == ENOENT   ? ERROR_NOT_FOUND
			       : errnum == ENOMEM ? ERROR_NO_MEMORY
						  : ERROR_SYSTEM;
	va_list arguments;

	va_start(arguments, format);
	struct error *error = create(code, errnum, path, format, arguments);
	va_end(arguments);
	if (errnum == EMFILE)
		return error_remedy(error, "Raise the limit of open files (ulimit -n).");
	return error;
}

struct error *error_context(struct error *error, const char *format, ...)
{
	if (!error || error == &no_memory)
		return error;

	va_list arguments;
	CLEANUP_FREE char *context = NULL;

	va_start(arguments, format);
	int length = vasprintf(&context, format, arguments);
	va_end(arguments);
	if (length < 0) {
		context = NULL;
		return error;
	}

	char *message;

	if (asprintf(&message, "%s: %s", context, error->message) >= 0) {
		free(error->message);
		error->message = message;
	}
	return error;
}

struct error *error_remedy(struct error *error, const char *format, ...)
{
	if (!error || error == &no_memory)
		return error;

	va_list arguments;
	char *remedy;

	va_start(arguments, format);
	int length = vasprintf(&remedy, format, arguments);
	va_end(arguments);
	if (length >= 0) {
		free(error->remedy);
		error->remedy = remedy;
	}
	return error;
}

void error_free(struct error *error)
{
	if (!error || error == &no_memory)
		return;
	free(error->message);
	free(error->path);
	free(error->remedy);
	free(error);
}

char *error_text(const struct error *error)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printable(&text, error->message, strlen(error->message));
	if (error->path) {
		strbuf_append(&text, ": ");
		strbuf_printable(&text, error->path, strlen(error->path));
	}
	if (error->errnum) {
		strbuf_append(&text, ": ");
		strbuf_append(&text, strerror(error->errnum));
	}
	return strbuf_take(&text);
}
