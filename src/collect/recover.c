#include "collect/recover.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "collect/output.h"
#include "collect/place.h"
#include "collect/processes.h"
#include "collect/keep.h"
#include "ledger/reader.h"

static struct error *open_session(const char *path, int *ret)
{
	CLEANUP_FD int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return error_create_system(errno, path, "cannot open the session file");
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return error_create_path(ERROR_REFUSED, path, "not a session file of yours");
	*ret = cleanup_steal_fd(&fd);
	return NULL;
}

/* Pid and program of the first process, for the ledger's name. */
static struct error *read_root(int fd, const char *path, pid_t *pid, char **program)
{
	struct ledger_reader *reader;

	TRY(ledger_reader_open_fd(fd, path, &reader));
	if (ledger_reader_process_count(reader) > 0) {
		const struct ledger_process *root = ledger_reader_process(reader, 0);

		*pid = root->pid;
		if (root->exe.length > 0)
			*program = strdup(root->exe.bytes);
	}
	ledger_reader_close(reader);
	if (!*program)
		*program = strdup("unknown");
	return *program ? NULL : error_no_memory();
}

static struct error *save(int fd, const struct collect_found *found, const char *pattern,
			  const struct collect_finish_options *options, char **ret_path)
{
	struct collect_output output = COLLECT_OUTPUT_CLOSED;
	CLEANUP_FREE char *program = NULL;
	pid_t pid = found->pid;

	TRY(read_root(fd, found->path, &pid, &program));
	struct error *error = collect_output_prepare(pattern, program, pid, &output);

	if (!error && !output.discard) {
		error = collect_keep(fd, found->path, options, &output);
	}
	if (!error)
		*ret_path = STEAL(output.path);
	collect_output_close(&output);
	return error;
}

static struct error *recover(int fd, const struct collect_found *found, const char *pattern,
			     const struct collect_finish_options *options,
			     const struct collect_processes *processes, enum collect_recovery *ret,
			     char **ret_path)
{
	bool starting = found->pid && found->starttime &&
			collect_process_starttime(found->pid) == found->starttime;

	if (starting || collect_processes_live(processes) > 0) {
		*ret = COLLECT_RECOVERY_RECORDING;
		return NULL;
	}
	if (processes->list.count == 0) {
		*ret = COLLECT_RECOVERY_EMPTY;
	} else {
		*ret = COLLECT_RECOVERY_SAVED;
		TRY(collect_processes_end(processes, fd, found->path, 0, NULL));
		TRY(save(fd, found, pattern, options, ret_path));
	}
	if (unlink(found->path) != 0)
		return error_create_system(errno, found->path, "cannot remove the session file");
	return NULL;
}

struct error *collect_recover(const struct collect_found *found, const char *output,
			      const struct collect_finish_options *options,
			      enum collect_recovery *ret, char **ret_path)
{
	CLEANUP_FD int fd = -1;
	struct collect_processes processes = {VECTOR_EMPTY};

	*ret_path = NULL;
	TRY(open_session(found->path, &fd));
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return error_create_system(errno, found->path,
						   "cannot lock the session file");
		*ret = COLLECT_RECOVERY_WATCHED;
		return NULL;
	}
	struct error *error = collect_processes_read(fd, found->path, &processes);

	if (!error)
		error = recover(fd, found, output, options, &processes, ret, ret_path);
	collect_processes_free(&processes);
	return error;
}
