#include "collect/run.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "collect/launch.h"
#include "collect/preload.h"
#include "collect/processes.h"
#include "collect/save.h"
#include "ledger/reader.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

/* Ours is sparse and TiB; the program keeps its own limit. */
static struct rlimit raise_file_size(void)
{
	struct rlimit before, raised;

	getrlimit(RLIMIT_FSIZE, &before);
	raised = before;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(RLIMIT_FSIZE, &raised);
	return before;
}

static bool wants_profile(const struct collect_output *output)
{
	size_t length = strlen(output->path);

	return length > 4 && strcmp(output->path + length - 4, ".mgp") == 0;
}

static struct error *prepare(const struct collect_run_options *options, struct collect_run *run)
{
	TRY(collect_output_prepare(options->output, options->argv[0], run->pid, &run->output));
	TRY(collect_session_create(run->pid, options->max_ledger, &run->session));
	if (!wants_profile(&run->output))
		return NULL;
	return collect_snapshots_create(run->session.fd, run->session.path, 0, 0, &run->snapshots);
}

static struct error *launch(const struct collect_run_options *options, struct collect_run *run,
			    int *exit_code)
{
	CLEANUP_FREE char *agent = NULL;
	struct collect_launch launched;

	TRY(collect_session_check_kernel());
	TRY(collect_preload_find(&agent));
	TRY(collect_program_find(options->argv[0], &run->program, exit_code));
	TRY(collect_signals_take(&run->signals));
	*exit_code = COLLECT_EXIT_FAILED;
	TRY(collect_launch_fork(
		&(struct collect_launch_options){
			.path = run->program.path,
			.argv = options->argv,
			.agent = agent,
			.signals = &run->signals,
			.file_size = raise_file_size(),
		},
		&launched));
	run->pid = launched.pid;
	struct error *error = prepare(options, run);

	if (error) {
		collect_launch_cancel(&launched);
		return error;
	}
	log_debug("session file %s", run->session.path);
	return collect_launch_start(&launched, run->session.path, run->program.path, exit_code);
}

static struct error *save_ledger(struct collect_run *run)
{
	struct collect_output *output = &run->output;

	TRY(collect_save(run->session.fd, run->session.path, output->fd, output->path));

	CLEANUP_FD int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return error_create_system(errno, NULL, "cannot keep the ledger open");
	TRY(collect_output_finish(output));
	run->ledger_fd = cleanup_steal_fd(&fd);
	return NULL;
}

static struct error *save_profile(struct collect_run *run,
				  const struct collect_finish_options *options)
{
	struct collect_finish_options finish = *options;
	CLEANUP_FREE char *path = NULL;
	struct ledger_reader *reader;

	if (asprintf(&path, "%s/%s", run->output.directory, run->output.temporary) < 0) {
		path = NULL;
		return error_no_memory();
	}
	TRY(ledger_reader_open_fd(run->session.fd, run->session.path, &reader));
	finish.snapshots = run->snapshots;
	struct error *error = collect_finish(reader, &finish, path, run->output.path);

	ledger_reader_close(reader);
	TRY(error);
	return collect_output_finish(&run->output);
}

static struct error *save(struct collect_run *run, const struct collect_run_options *options)
{
	TRY(collect_output_begin(&run->output));
	TRY(run->snapshots ? save_profile(run, &options->finish) : save_ledger(run));
	run->saved = true;
	return NULL;
}

static struct error *finish(struct collect_run *run)
{
	struct collect_processes processes = {VECTOR_EMPTY};
	struct error *error =
		collect_processes_read(run->session.fd, run->session.path, &processes);

	run->recorded = processes.list.count;
	run->running = collect_processes_live(&processes);
	/* What the kernel counted is the children's too. */
	if (!collect_processes_only(&processes, run->pid))
		run->end.rss_peak = run->end.rss_seen;
	if (!error)
		error = collect_processes_end(&processes, run->session.fd, run->session.path,
					      run->pid, &run->end);
	collect_processes_free(&processes);
	return error;
}

struct error *collect_run(const struct collect_run_options *options, struct collect_run *ret,
			  int *exit_code)
{
	*ret = (struct collect_run){
		.output = COLLECT_OUTPUT_CLOSED,
		.session = COLLECT_SESSION_CLOSED,
		.signals = {.fd = -1},
		.ledger_fd = -1,
	};
	*exit_code = COLLECT_EXIT_FAILED;

	struct error *error = launch(options, ret, exit_code);

	if (error) {
		ret->leftover = collect_session_unlink(&ret->session);
		return error;
	}
	error = collect_watch(ret->pid, &ret->signals, &ret->session, ret->snapshots, &ret->end);
	if (error)
		return error_remedy(error, "The program goes on; once it has ended, mallograph "
					   "recover saves its recording.");
	ret->unsaved = finish(ret);
	if (ret->running > 0)
		collect_session_stop(&ret->session);
	/* An empty recording is not worth a file. */
	if (!ret->unsaved && !ret->output.discard && ret->recorded > 0)
		ret->unsaved = save(ret, options);
	if (ret->ledger_fd < 0)
		ret->ledger_fd = fcntl(ret->session.fd, F_DUPFD_CLOEXEC, 0);
	if (!ret->unsaved)
		ret->leftover = collect_session_unlink(&ret->session);
	return NULL;
}

void collect_run_close(struct collect_run *run)
{
	if (run->ledger_fd >= 0)
		close(run->ledger_fd);
	collect_snapshots_free(run->snapshots);
	collect_session_close(&run->session);
	collect_output_close(&run->output);
	collect_program_free(&run->program);
	error_free(run->unsaved);
	error_free(run->leftover);
	run->unsaved = run->leftover = NULL;
}
