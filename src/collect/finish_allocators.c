/* Allocators inside of programs, of which the agent knows nothing. */
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

struct error *collect_finish_allocators(struct finish_process *process)
{
	const struct ledger_text *exe = &process->from->exe;
	const struct finish_program *program = NULL;

	/* What the agent sees of it, it has said. */
	if (exe->length == 0 || exe->bytes[0] != '/' ||
	    process->from->losses[MGL_LOSS_OWN_MALLOC].count)
		return NULL;
	TRY(program_of(process->finishing, exe->bytes, &program));
	if (!program->inner)
		return NULL;
	return ledger_member_add_missing(
		process->member, "own_malloc", 1,
		&(struct ledger_text){program->inner, strlen(program->inner)});
}

void collect_finish_programs_free(struct finishing *finishing)
{
	for (size_t i = 0; i < finishing->programs.count; i++) {
		free(finishing->programs.items[i].path);
		free(finishing->programs.items[i].inner);
	}
	vector_free(&finishing->programs);
}
