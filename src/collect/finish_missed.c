/* Why programs that ran unrecorded did: what their files tell is said beside their names. */
#include "collect/finish_internal.h"

#include <string.h>

#include "base/strbuf.h"
#include "collect/program.h"

#define MOST 256u /* programs that are looked at: a profile may have any number */

static struct error *path_of(const struct ledger_process *process, const struct ledger_text *name,
			     struct strbuf *ret)
{
	bool has_slash = memchr(name->bytes, '/', name->length) != NULL;

	if (has_slash && name->bytes[0] != '/') {
		strbuf_append_bytes(ret, process->cwd.bytes, process->cwd.length);
		strbuf_append_char(ret, '/');
	}
	strbuf_append_bytes(ret, name->bytes, name->length);
	return strbuf_result(ret);
}

static struct error *look_at(struct finishing *finishing, const char *path, const char **ret)
{
	struct finish_missed missed = {.path = NULL};

	*ret = NULL;
	for (size_t i = 0; i < finishing->missed.count; i++) {
		*ret = finishing->missed.items[i].why;
		if (strcmp(finishing->missed.items[i].path, path) == 0)
			return NULL;
	}
	*ret = NULL;
	if (finishing->missed.count >= MOST)
		return NULL;
	missed.path = strdup(path);
	if (!missed.path)
		return error_no_memory();
	*ret = missed.why = collect_program_why_missed(path);
	struct error *error = vector_push(&finishing->missed, missed);

	if (error)
		free(missed.path);
	return error;
}

/* Allocators in it are the sanitizer's. */
static struct error *is_sanitized(const struct finish_process *process, bool *ret)
{
	const struct ledger_text *exe = &process->from->exe;
	const char *why = NULL;

	if (exe->length && exe->bytes[0] == '/')
		TRY(look_at(process->finishing, exe->bytes, &why));
	*ret = why && strcmp(why, COLLECT_PROGRAM_SANITIZED) == 0;
	return NULL;
}

struct error *collect_finish_why_missed(const struct finish_process *process,
					const struct ledger_missing *missing, struct strbuf *detail)
{
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;
	const struct ledger_text *name = &missing->detail;
	const char *why = NULL;
	bool sanitized = false;

	/* The agent may have said why itself. */
	if (strcmp(missing->kind, "missed_process") == 0 && name->length &&
	    name->bytes[name->length - 1] != ')') {
		TRY(path_of(process->from, name, &path));
		TRY(look_at(process->finishing, path.text, &why));
	} else if (strcmp(missing->kind, "own_malloc") == 0) {
		TRY(is_sanitized(process, &sanitized));
	}
	if (sanitized)
		strbuf_append(detail, "its sanitizer's: build it without -fsanitize");
	else
		strbuf_append_bytes(detail, name->bytes, name->length);
	if (why)
		strbuf_printf(detail, " (%s)", why);
	return strbuf_result(detail);
}

void collect_finish_missed_free(struct finishing *finishing)
{
	for (size_t i = 0; i < finishing->missed.count; i++)
		free(finishing->missed.items[i].path);
	vector_free(&finishing->missed);
}
