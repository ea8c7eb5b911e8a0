#include "collect/whose.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collect/mapped.h"
#include "collect/place.h"

static bool can_be(uint64_t starttime, const struct ledger_process *process,
		   const struct ledger_session *session)
{
	if (starttime == 0)
		return false;
	if (process->starttime)
		return process->starttime == starttime;
	return clock_began_before(starttime, process->start_ns) &&
	       (process->how == MGL_HOW_ATTACH ||
		!clock_began_long_before(starttime, session->start_ns));
}

/* The last of what a process is called from here inwards; 0 = it has one name only. */
static pid_t inner_pid(const char *pid)
{
	char path[64], text[4096];

	if (snprintf(path, sizeof(path), "/proc/%s/status", pid) >= (int)sizeof(path))
		return 0;
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (bytes <= 0)
		return 0;
	text[bytes] = '\0';
	char *line = strstr(text, "\nNSpid:\t");

	if (!line)
		return 0;
	line += strlen("\nNSpid:\t");
	line[strcspn(line, "\n")] = '\0';
	const char *last = strrchr(line, '\t');

	return last ? atoi(last + 1) : 0;
}

static struct error *list(struct collect_whose *whose)
{
	DIR *directory = opendir("/proc");
	struct error *error = NULL;
	struct dirent *entry;

	whose->list.count = 0;
	whose->is_fresh = true;
	while (directory && !error && (entry = readdir(directory))) {
		pid_t inner =
			isdigit((unsigned char)entry->d_name[0]) ? inner_pid(entry->d_name) : 0;
		struct collect_namesake one = {.here = atoi(entry->d_name), .inner = inner};

		if (inner <= 0)
			continue;
		one.starttime = collect_process_starttime(one.here);
		error = vector_push(&whose->list, one);
	}
	if (directory)
		closedir(directory);
	return error;
}

/* Of several that are called the same the one that began last: the others' ledgers are older. */
static pid_t find_inner(const struct collect_whose *whose, const struct ledger_process *process,
			const struct ledger_session *session, int fd)
{
	const struct collect_namesake *found = NULL;

	for (size_t i = 0; i < whose->list.count; i++) {
		const struct collect_namesake *one = &whose->list.items[i];

		if (one->inner == process->pid && can_be(one->starttime, process, session) &&
		    (!found || found->starttime < one->starttime) &&
		    collect_is_mapped_by(one->here, fd))
			found = one;
	}
	return found ? found->here : 0;
}

void collect_whose_begin(struct collect_whose *whose) { whose->is_fresh = false; }

struct error *collect_whose(struct collect_whose *whose, const struct ledger_process *process,
			    const struct ledger_session *session, int fd, pid_t *ret)
{
	uint64_t starttime = process->pid > 0 ? collect_process_starttime(process->pid) : 0;

	*ret = 0;
	/* The first process of a namespace is its 1, and its parent is in none that it knows. */
	whose->has_spaces |= process->pid == 1 || process->ppid == 0;
	if (can_be(starttime, process, session)) {
		*ret = process->pid;
		return NULL;
	}
	whose->has_spaces |= starttime != 0;
	if (!whose->has_spaces)
		return NULL;
	if (!whose->is_fresh)
		TRY(list(whose));
	*ret = find_inner(whose, process, session, fd);
	return NULL;
}

void collect_whose_free(struct collect_whose *whose) { vector_free(&whose->list); }
