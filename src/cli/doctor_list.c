#include "cli/doctor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/view.h"
#include "collect/finish.h"
#include "collect/needed.h"
#include "collect/program.h"
#include "symbols/symbols.h"

#define AGENT_NAME "/libmallograph-agent.so"

void cli_doctor_list_free(struct cli_doctor_list *list)
{
	for (size_t i = 0; i < list->modules.count; i++) {
		free(list->modules.items[i].path);
		free(list->modules.items[i].build_id);
		free(list->modules.items[i].file);
	}
	for (size_t i = 0; i < list->absent.count; i++)
		free(list->absent.items[i]);
	vector_free(&list->modules);
	vector_free(&list->absent);
	free(list->subject);
	free(list->sysroot);
}

/* build_id and file may be NULL; file is taken over. */
static struct error *add(struct cli_doctor_list *list, const char *path, const char *build_id,
			 char *file)
{
	struct cli_doctor_module module = {
		.path = strdup(path),
		.build_id = build_id ? strdup(build_id) : NULL,
		.file = file,
	};
	struct error *error = module.path && (module.build_id || !build_id)
				      ? vector_push(&list->modules, module)
				      : error_no_memory();

	if (error) {
		free(module.path);
		free(module.build_id);
		free(module.file);
	}
	return error;
}

static struct error *set_text(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to ? NULL : error_no_memory();
}

/* --- a profile ---------------------------------------------------------------------- */

static struct error *add_module(struct cli_doctor_list *list, const struct analyze_model *model,
				size_t at)
{
	const struct analyze_module *module = &model->modules[at];
	bool is_used = false;

	for (size_t i = 1; i < model->place_count && !is_used; i++)
		is_used = model->places[i].module == at;
	if (!is_used || !module->is_file || !module->path.bytes)
		return NULL;
	return add(list, module->path.bytes,
		   module->build_id.length ? module->build_id.bytes : NULL, NULL);
}

static struct error *list_profile(const char *path, struct cli_doctor_list *ret)
{
	/* Of a ledger: they are looked for by us. */
	const struct collect_finish_options finish = {.no_symbols = true};
	struct store_reader *reader;
	struct analyze_model *model;
	struct error *error = NULL;

	ret->is_recorded = true;
	TRY(set_text(&ret->subject, path));
	TRY(cli_profile_open(path, &finish, &reader));
	TRY(analyze_model_load(reader, &model));
	for (size_t i = 1; i < model->module_count && !error; i++)
		error = add_module(ret, model, i);
	analyze_model_free(model);
	return error;
}

/* --- a process ---------------------------------------------------------------------- */

struct mapping {
	uint64_t start, end;
	const char *path;
};

/* "start-end perms offset dev inode path"; false = not code of a file. */
static bool parse_mapping(char *line, struct mapping *ret)
{
	char permissions[8];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %n", &ret->start, &ret->end,
		   permissions, &at) != 3 ||
	    at == 0 || line[at] != '/' || !strchr(permissions, 'x'))
		return false;
	ret->path = line + at;
	line[at + strcspn(line + at, "\n")] = '\0';
	return true;
}

static bool is_listed(const struct cli_doctor_list *list, const char *path)
{
	for (size_t i = 0; i < list->modules.count; i++)
		if (strcmp(list->modules.items[i].path, path) == 0)
			return true;
	return false;
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Where a file that is gone from its path can still be read. NULL = not gone, or no memory. */
static char *live_file(const char *pid, const struct mapping *mapping)
{
	char link[64], target[PATH_MAX], *path = NULL;
	ssize_t length;

	if (!ends_in(mapping->path, SYMBOLS_DELETED))
		return NULL;
	snprintf(link, sizeof(link), "/proc/%.12s/exe", pid);
	length = readlink(link, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	if (strcmp(target, mapping->path) == 0)
		return strdup(link);
	if (asprintf(&path, "/proc/%.12s/map_files/%" PRIx64 "-%" PRIx64, pid, mapping->start,
		     mapping->end) < 0)
		return NULL;
	return path;
}

/* A process in a container or a changed root has files of its own. */
static struct error *find_root(const char *pid, struct cli_doctor_list *ret)
{
	char path[64];
	struct stat its, ours;

	snprintf(path, sizeof(path), "/proc/%.12s/root", pid);
	if (stat(path, &its) != 0 || stat("/", &ours) != 0 ||
	    (its.st_dev == ours.st_dev && its.st_ino == ours.st_ino))
		return NULL;
	return set_text(&ret->sysroot, path);
}

static struct error *list_process(const char *pid, struct cli_doctor_list *ret)
{
	CLEANUP_FREE char *line = NULL;
	char path[64];
	size_t size = 0;
	struct mapping mapping;
	struct error *error = NULL;

	if (strlen(pid) > 10 || strspn(pid, "0123456789") != strlen(pid) || !*pid)
		return error_create(ERROR_USAGE, "%s is not a pid", pid);
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	TRY(find_root(pid, ret));
	CLEANUP_FILE FILE *maps = fopen(path, "re");

	if (!maps)
		return error_remedy(error_create_system(errno, path, "no look at process %s", pid),
				    "For a file of that name, ./%s.", pid);
	if (asprintf(&ret->subject, "process %s", pid) < 0) {
		ret->subject = NULL;
		return error_no_memory();
	}
	while (!error && getline(&line, &size, maps) > 0)
		if (parse_mapping(line, &mapping) && !is_listed(ret, mapping.path) &&
		    !ends_in(mapping.path, AGENT_NAME))
			error = add(ret, mapping.path, NULL, live_file(pid, &mapping));
	return error;
}

/* --- a program ---------------------------------------------------------------------- */

static struct error *add_library(struct cli_doctor_list *list,
				 const struct collect_library *library)
{
	char *text;

	if (library->path)
		return add(list, library->path, NULL, NULL);
	if (asprintf(&text, "%s: not found; %s needs it", library->name,
		     library->from ? library->from : "it") < 0)
		return error_no_memory();
	struct error *error = vector_push(&list->absent, text);

	if (error)
		free(text);
	return error;
}

static struct error *list_needed(const char *path, const char *sysroot, struct cli_doctor_list *ret)
{
	struct collect_needed needed = {VECTOR_EMPTY};
	struct error *error = collect_needed(path, sysroot, &needed);

	for (size_t i = 0; i < needed.list.count && !error; i++)
		error = add_library(ret, &needed.list.items[i]);
	collect_needed_free(&needed);
	return error;
}

static bool is_elf(const char *path)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char magic[4];

	return fd >= 0 && pread(fd, magic, 4, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0;
}

/* What a word starts: as run would find it, a script's interpreter too. */
static struct error *find_program(const char *word, char **ret)
{
	struct collect_program program = {NULL};
	int exit_code;

	if (strchr(word, '/') && is_elf(word)) {
		*ret = realpath(word, NULL);
		return *ret ? NULL : error_create_system(errno, word, "cannot find");
	}
	TRY(collect_program_find(word, &program, &exit_code));
	*ret = realpath(program.image, NULL);
	collect_program_free(&program);
	return *ret ? NULL : error_create_system(errno, word, "cannot find");
}

static struct error *list_program(const char *word, const char *sysroot,
				  struct cli_doctor_list *ret)
{
	CLEANUP_FREE char *path = NULL, *below = NULL;

	if (sysroot && asprintf(&below, "%s/%s", sysroot, word) < 0) {
		below = NULL;
		return error_no_memory();
	}
	if (below && is_elf(below))
		path = strdup(word);
	else
		TRY(find_program(word, &path));
	if (!path)
		return error_no_memory();
	TRY(set_text(&ret->subject, path));
	return list_needed(path, below && is_elf(below) ? sysroot : "", ret);
}

/* ------------------------------------------------------------------------------------ */

struct error *cli_doctor_list(const char *word, bool is_pid, const char *sysroot,
			      struct cli_doctor_list *ret)
{
	CLEANUP_FREE char *path = NULL;

	if (is_pid || (word && *word && strspn(word, "0123456789") == strlen(word)))
		return list_process(word, ret);
	if (word && !cli_profile_is(word))
		return list_program(word, sysroot, ret);
	TRY(cli_find_profile(word, false, &path));
	return list_profile(path, ret);
}
