/* Allocators inside of what was loaded after a process's start: the agent knows of none. */
#include "collect/finish_internal.h"

#include <fcntl.h>
#include <string.h>

#include "base/strbuf.h"
#include "collect/elf.h"

static struct error *look_at(const char *path, char **ret)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const char *function = fd < 0 ? NULL : collect_elf_allocator(fd);

	*ret = NULL;
	if (function && asprintf(ret, "%s (%s)", path, function) < 0) {
		*ret = NULL;
		return error_no_memory();
	}
	return NULL;
}

static struct error *program_of(struct finishing *finishing, const char *path,
				const struct finish_program **ret)
{
	struct finish_program program = {0};

	for (size_t i = 0; i < finishing->programs.count; i++) {
		*ret = &finishing->programs.items[i];
		if (strcmp((*ret)->path, path) == 0)
			return NULL;
	}
	program.path = strdup(path);
	if (!program.path)
		return error_no_memory();
	struct error *error = look_at(path, &program.inner);

	if (!error)
		error = vector_push(&finishing->programs, program);
	if (error) {
		free(program.path);
		free(program.inner);
		return error;
	}
	*ret = &finishing->programs.items[finishing->programs.count - 1];
	return NULL;
}

/* Whether the agent has looked at the module: what it says begins with its path. */
static bool is_looked_at(const struct ledger_text *inner, const char *path)
{
	for (size_t at = 0; at < inner->length; at += strlen(inner->bytes + at) + 1) {
		const char *said = inner->bytes + at;
		const char *as = path, *name = strrchr(said, '/');

		/* Opened by a relative name: where that led is known no more. */
		if (said[0] != '/' && name) {
			as = strrchr(path, '/');
			said = name;
		}
		if (as && strncmp(said, as, strlen(as)) == 0 &&
		    strncmp(said + strlen(as), " (", 2) == 0)
			return true;
	}
	return false;
}

/* Adds to *count a module with an allocator that nothing sees; *first: the first one's. */
static struct error *look_in(struct finish_process *process, const struct ledger_text *path,
			     uint64_t *count, const char **first)
{
	const struct finish_program *program = NULL;

	if (path->length == 0 || path->bytes[0] != '/' ||
	    is_looked_at(&process->from->inner, path->bytes))
		return NULL;
	TRY(program_of(process->finishing, path->bytes, &program));
	if (!program->inner)
		return NULL;
	if ((*count)++ == 0)
		*first = program->inner;
	return NULL;
}

struct error *collect_finish_allocators(struct finish_process *process)
{
	const struct ledger_process *from = process->from;
	const char *first = NULL;
	uint64_t count = 0;

	for (size_t i = 1; i < from->module_count; i++)
		TRY(look_in(process, &from->modules[i].path, &count, &first));
	if (count == 0)
		return NULL;
	return ledger_member_add_missing(process->member, "own_malloc", count,
					 &(struct ledger_text){first, strlen(first)});
}

void collect_finish_programs_free(struct finishing *finishing)
{
	for (size_t i = 0; i < finishing->programs.count; i++) {
		free(finishing->programs.items[i].path);
		free(finishing->programs.items[i].inner);
	}
	vector_free(&finishing->programs);
}
