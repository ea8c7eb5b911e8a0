#include <inttypes.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "cli/cli.h"
#include "collect/processes.h"
#include "collect/sessions.h"
#include "ledger/reader.h"
#include "store/store.h"

static bool is_digits(const char *word)
{
	return *word && word[strspn(word, "0123456789")] == '\0';
}

static struct error *find_newest(char **ret)
{
	struct collect_sessions here = {VECTOR_EMPTY};
	struct error *error = collect_sessions_list_directory(".", &here);

	for (size_t i = 0; i < here.list.count && !*ret && !error; i++) {
		CLEANUP_FD int fd =
			open(here.list.items[i].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd >= 0 && (store_reader_recognises(fd) || ledger_reader_recognises(fd)))
			*ret = STEAL(here.list.items[i].path);
	}
	collect_sessions_free(&here);
	if (error || *ret)
		return error;
	return error_remedy(error_create(ERROR_NOT_FOUND, "no profile in this directory"),
			    "mallograph PROGRAM makes one; or name a FILE.");
}

/* Whether one of the session's processes has the pid. */
static bool has_process(const char *path, pid_t pid)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct collect_processes processes = {.list = VECTOR_EMPTY};
	bool found = false;

	if (fd < 0)
		return false;
	struct error *error = collect_processes_read(fd, path, &processes);

	for (size_t i = 0; i < processes.list.count && !error; i++)
		found |= processes.list.items[i].pid == pid;
	error_free(error);
	collect_processes_free(&processes);
	return found;
}

static struct error *find_pid(const char *word, char **ret)
{
	struct collect_sessions sessions = {VECTOR_EMPTY};
	char *end;
	long pid = strtol(word, &end, 10);
	struct error *error = NULL;

	if (*end || pid <= 0 || pid > INT_MAX)
		return error_create(ERROR_USAGE, "%s is not a pid", word);
	error = collect_sessions_list(&sessions);
	for (size_t i = 0; i < sessions.list.count && !*ret && !error; i++) {
		struct collect_found *found = &sessions.list.items[i];

		if (found->pid == (pid_t)pid || has_process(found->path, (pid_t)pid))
			*ret = STEAL(found->path);
	}
	collect_sessions_free(&sessions);
	if (error || *ret)
		return error;
	return error_remedy(error_create(ERROR_NOT_FOUND, "process %ld is not being recorded", pid),
			    "For a file of that name, ./%ld.", pid);
}

struct error *cli_find_profile(const char *word, bool is_pid, char **ret)
{
	*ret = NULL;
	if (!word)
		return find_newest(ret);
	if (is_pid || is_digits(word))
		return find_pid(word, ret);
	*ret = strdup(word);
	return *ret ? NULL : error_no_memory();
}
