#include "collect/recover.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "collect/output.h"
#include "collect/place.h"
#include "collect/processes.h"
#include "collect/keep.h"
#include "collect/mapped.h"
#include "collect/session.h"
#include "collect/wish.h"
#include "ledger/reader.h"
#include "store/store.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

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

/* For the profile's name. */
struct root {
	pid_t pid;
	char *program;
	char *kept; /* a profile of what is in the session file no more; NULL = there is none */
};

static void root_free(struct root *root)
{
	free(root->program);
	free(root->kept);
}

static struct error *read_first(struct store_reader *profile, struct root *root)
{
	struct store_cursor *cursor;
	struct store_process process;
	struct store_text text = {NULL, 0};
	struct error *error = NULL;

	TRY(store_cursor_open(profile, STORE_TABLE_PROCESS, STORE_ALL, &cursor));
	if (store_next(cursor, &process)) {
		error = store_string(profile, process.exe, &text);
		if (process.pid != STORE_UNKNOWN)
			root->pid = (pid_t)process.pid;
	}
	if (text.bytes) {
		free(root->program);
		root->program = strdup(text.bytes);
	}
	if (error)
		return error_free(store_cursor_close(cursor)), error;
	return store_cursor_close(cursor);
}

static struct error *read_kept(struct root *root)
{
	struct store_reader *profile;

	TRY(store_reader_open_kept(root->kept, &profile));
	struct error *error = read_first(profile, root);

	store_reader_close(profile);
	return error;
}

/* The first process: what is kept was there before what is not. */
static struct error *read_root(int fd, const char *path, struct root *root)
{
	struct ledger_reader *reader;

	TRY(ledger_reader_open_fd(fd, path, &reader));
	if (ledger_reader_process_count(reader) > 0) {
		const struct ledger_process *first = ledger_reader_process(reader, 0);

		root->pid = first->pid;
		if (first->exe.length > 0)
			root->program = strdup(first->exe.bytes);
	}
	bool is_here = ledger_reader_process_count(reader) > 0 &&
		       ledger_reader_process(reader, 0)->serial == 1;
	struct error *error =
		collect_session_kept(ledger_reader_session(reader), path, &root->kept);

	ledger_reader_close(reader);
	/* Damaged as it may be, what the first was called is not worth more than that. */
	if (!error && root->kept && !is_here)
		error_free(read_kept(root));
	if (!error && !root->program)
		root->program = strdup("unknown");
	return error || root->program ? error : error_no_memory();
}

/* Where the run was to save it, if that is still possible. */
static struct error *prepare(int fd, const char *pattern, const struct root *root,
			     struct collect_output *output)
{
	CLEANUP_FREE char *wish = pattern ? NULL : collect_wish_read(fd);

	if (wish) {
		struct error *error =
			collect_output_prepare(wish, root->program, root->pid, output);

		if (!error && !output->discard)
			return NULL;
		error_free(error);
		collect_output_close(output);
		*output = (struct collect_output)COLLECT_OUTPUT_CLOSED;
	}
	return collect_output_prepare(pattern, root->program, root->pid, output);
}

static struct error *save(int fd, const struct collect_found *found, const char *pattern,
			  const struct collect_finish_options *options, char **ret_path,
			  bool *keep_profile)
{
	struct collect_output output = COLLECT_OUTPUT_CLOSED;
	CLEANUP(root_free) struct root root = {.pid = found->pid};
	struct collect_finish_options with = *options;

	TRY(read_root(fd, found->path, &root));
	with.retired = root.kept;
	struct error *error = prepare(fd, pattern, &root, &output);

	if (!error && !output.discard)
		error = collect_keep(fd, found->path, &with, &output);
	/* What is kept may be damaged: the rest is worth having, and says what it lacks. */
	if (error && root.kept && (error->code == ERROR_DAMAGED || error->code == ERROR_FORMAT)) {
		log_warn("%s is left where it is: %s", root.kept, error->message);
		error_free(error);
		with.retired = NULL;
		*keep_profile = true;
		error = collect_keep(fd, found->path, &with, &output);
	}
	if (!error)
		*ret_path = STEAL(output.path);
	collect_output_close(&output);
	return error;
}

static bool has_kept(int fd, const char *path)
{
	struct ledger_reader *reader = NULL;
	CLEANUP_ERROR struct error *error = ledger_reader_open_fd(fd, path, &reader);
	bool has = !error && ledger_reader_session(reader)->retired > 0;

	ledger_reader_close(reader);
	return has;
}

static struct error *recover(int fd, const struct collect_found *found, const char *pattern,
			     const struct collect_finish_options *options,
			     const struct collect_processes *processes, enum collect_recovery *ret,
			     char **ret_path)
{
	bool starting = found->pid && found->starttime &&
			collect_process_starttime(found->pid) == found->starttime;
	bool keep_profile = false;

	if (starting || collect_processes_live(processes) > 0 || collect_is_mapped(fd)) {
		*ret = COLLECT_RECOVERY_RECORDING;
		return NULL;
	}
	if (processes->list.count == 0 && !has_kept(fd, found->path)) {
		*ret = COLLECT_RECOVERY_EMPTY;
	} else {
		*ret = COLLECT_RECOVERY_SAVED;
		TRY(collect_processes_end(processes, fd, found->path, 0, NULL));
		TRY(save(fd, found, pattern, options, ret_path, &keep_profile));
	}
	return collect_session_remove(found->path, !keep_profile);
}

struct error *collect_recover(const struct collect_found *found, const char *output,
			      const struct collect_finish_options *options,
			      enum collect_recovery *ret, char **ret_path)
{
	CLEANUP_FD int fd = -1;
	struct collect_processes processes = {.list = VECTOR_EMPTY};

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
