#include "collect/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collect/keep.h"
#include "collect/launch.h"
#include "collect/mapped.h"
#include "collect/place.h"
#include "collect/preload.h"
#include "collect/processes.h"
#include "collect/wish.h"
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

/* The program has been forked with its own. */
static void raise_limit(__rlimit_resource_t which)
{
	struct rlimit limit;

	if (getrlimit(which, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(which, &limit);
}

static struct error *prepare(const struct collect_run_options *options, struct collect_run *run)
{
	TRY(collect_output_prepare(options->output, options->argv[0], run->pid, &run->output));
	TRY(collect_session_create(run->pid, &options->limits, &run->session));
	collect_wish_keep(run->session.fd, &run->output);
	TRY(collect_snapshots_create(run->session.fd, run->session.path, 0, 0, &run->snapshots));
	if (run->output.discard || collect_keep_is_ledger(&run->output))
		return NULL;
	if (!options->finish.no_symbols) {
		TRY(collect_files_create(&run->files));
		TRY(collect_files_add(run->files, run->program.path));
		collect_snapshots_set_files(run->snapshots, run->files);
	}
	TRY(collect_early_create(0, run->session.profile, &run->early));
	collect_snapshots_set_early(run->snapshots, run->early);
	run->finish.snapshots = run->snapshots;
	run->finish.early = run->early;
	run->finish.files = run->files;
	return collect_retiring_create(&run->session, run->snapshots, run->early, &run->finish,
				       &run->retiring);
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
	/* One is held for each process that runs. */
	raise_limit(RLIMIT_NOFILE);
	raise_limit(RLIMIT_AS);
	struct error *error = prepare(options, run);

	if (error) {
		collect_launch_cancel(&launched);
		return error;
	}
	log_debug("session file %s", run->session.path);
	return collect_launch_start(&launched, run->session.path, run->program.path, exit_code);
}

static struct error *save(struct collect_run *run)
{
	TRY(collect_keep(run->session.fd, run->session.path, &run->finish, &run->output));
	run->saved = true;
	return NULL;
}

static struct error *finish(struct collect_run *run)
{
	struct collect_processes processes = {.list = VECTOR_EMPTY};
	struct error *error =
		collect_processes_read(run->session.fd, run->session.path, &processes);

	run->left_out = collect_session_left_out(&run->session);
	run->recorded = processes.list.count + collect_early_retired(run->early);
	run->running = collect_processes_live(&processes);
	/* What the kernel counted is the children's too, recorded or not. */
	if (run->left_out || collect_early_retired(run->early) ||
	    !collect_processes_alone(&processes, run->pid))
		run->end.rss_peak = run->end.rss_seen;
	if (!error)
		error = collect_processes_end(&processes, run->session.fd, run->session.path,
					      run->pid, &run->end);
	collect_processes_free(&processes);
	return error;
}

static bool is_recorded(const void *context, pid_t pid)
{
	const struct collect_processes *processes = context;

	for (size_t i = 0; i < processes->list.count; i++)
		if (processes->list.items[i].pid == pid)
			return true;
	return false;
}

/* A child of fork has its ledger from its first allocation on. One that goes on behind the program,
 * as a server does that leaves its terminal, may have had none yet, and will have none: it has the
 * session mapped. */
static void look_for_unseen(struct collect_run *run)
{
	struct collect_processes processes = {.list = VECTOR_EMPTY};
	CLEANUP_ERROR struct error *error =
		collect_processes_read(run->session.fd, run->session.path, &processes);
	char path[64], name[32] = "", text[64];
	pid_t last = 0;
	size_t count = collect_mapped_since(run->session.fd, collect_process_starttime(getpid()),
					    is_recorded, &processes, &last);

	/* What was left out has it mapped, too. */
	if (!error && last && !run->left_out && count > run->running) {
		run->unseen = count - run->running;
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)last);

		CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t bytes = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

		name[strcspn(name, "\n")] = '\0';
		snprintf(text, sizeof(text), "%s (no allocation yet)", bytes > 0 ? name : "?");
		collect_session_add_missed(&run->session, run->unseen, text);
	}
	collect_processes_free(&processes);
}

static void look_last(struct collect_snapshots *snapshots)
{
	CLEANUP_ERROR struct error *error = collect_snapshots_end(snapshots);

	if (error)
		log_warn("no last snapshot: %s", error->message);
}

struct error *collect_run(const struct collect_run_options *options, struct collect_run *ret,
			  int *exit_code)
{
	*ret = (struct collect_run){
		.output = COLLECT_OUTPUT_CLOSED,
		.session = COLLECT_SESSION_CLOSED,
		.signals = {.fd = -1},
		.finish = options->finish,
	};
	*exit_code = COLLECT_EXIT_FAILED;

	struct error *error = launch(options, ret, exit_code);

	if (error) {
		ret->leftover = collect_session_unlink(&ret->session);
		return error;
	}
	error = collect_watch(ret->pid, &ret->signals, &ret->session, ret->snapshots, ret->retiring,
			      &ret->end);
	if (error)
		return error_remedy(error, "The program goes on; once it has ended, mallograph "
					   "recover saves its recording.");
	look_last(ret->snapshots);
	collect_retiring_end(ret->retiring);
	ret->unsaved = finish(ret);
	/* One that has no ledger yet may still run, and would fill one that nobody can read. */
	collect_session_stop(&ret->session);
	look_for_unseen(ret);
	/* An empty recording is not worth a file. */
	if (!ret->unsaved && !ret->output.discard && ret->recorded > 0)
		ret->unsaved = save(ret);
	if (!ret->unsaved)
		ret->leftover = collect_session_unlink(&ret->session);
	return NULL;
}

void collect_run_close(struct collect_run *run)
{
	collect_retiring_free(run->retiring);
	collect_snapshots_free(run->snapshots);
	collect_early_free(run->early);
	collect_files_free(run->files);
	collect_session_close(&run->session);
	collect_output_close(&run->output);
	collect_program_free(&run->program);
	error_free(run->unsaved);
	error_free(run->leftover);
	run->unsaved = run->leftover = NULL;
}
