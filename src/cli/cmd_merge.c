#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/vector.h"
#include "cli/cli.h"
#include "cli/view.h"
#include "collect/merge.h"
#include "collect/output.h"

static const struct cli_option options_table[] = {
	{'o', "output", "FILE", "write the merged profile there (%n %h %t expand)"},
	{'h', "help", NULL, "show this"},
	CLI_OPTIONS_END,
};

struct request {
	VECTOR(const char *) files;
	const char *output;
	bool help;
};

static void print_help(void)
{
	printf("Usage: mallograph merge -o OUT FILE…\n"
	       "\n"
	       "Make one profile of many: of the ranks of a parallel job, of hosts, of several\n"
	       "runs. Every process keeps which FILE it is from; mallograph report --by rank,\n"
	       "file or host compares them. The FILEs stay as they are.\n"
	       "\n");
	cli_options_help(options_table, stdout);
	printf("\n"
	       "Examples:\n"
	       "  mpirun -n 8 mallograph -q -o 'solver.%%h.%%p.mgp' ./solver\n"
	       "  mallograph merge -o solver.mgp solver.*.mgp\n"
	       "  mallograph report --by rank solver.mgp\n");
}

static struct error *parse(struct request *request, char **argv)
{
	struct cli_options options = CLI_OPTIONS(options_table, argv);
	const struct cli_option *option;
	const char *operand;

	do {
		while ((option = cli_options_next(&options))) {
			if (option->letter == 'h') {
				request->help = true;
				return NULL;
			}
			request->output = options.value;
			TRY(collect_output_check(options.value));
		}
		operand = cli_options_operand(&options);
		if (operand)
			TRY(vector_push(&request->files, operand));
	} while (operand);
	TRY(options.error);
	if (!request->output)
		return error_create(ERROR_USAGE, "merge needs -o OUT");
	if (request->files.count == 0)
		return error_create(ERROR_USAGE, "merge needs profiles to merge");
	return NULL;
}

struct identity {
	dev_t device;
	ino_t inode;
	const char *path;
};

static int compare(const void *a, const void *b)
{
	const struct identity *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->inode > y->inode) - (x->inode < y->inode);
}

static struct error *identify(const char *path, struct identity *ret)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return error_create_system(errno, path, "cannot open");
	*ret = (struct identity){status.st_dev, status.st_ino, path};
	return NULL;
}

/* Each once, and none of them is what is written. */
static struct error *check_files(const struct request *request, const char *output)
{
	size_t count = request->files.count;
	CLEANUP_FREE struct identity *files = calloc(count + 1, sizeof(*files));
	struct identity target;

	if (!files)
		return error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const char *path = request->files.items[i];

		TRY(identify(path, &files[i]));
		if (cli_ledger_is(path))
			return error_remedy(
				error_create_path(ERROR_REFUSED, path, "a ledger, not a profile"),
				"mallograph recover %s makes a profile of it.", path);
	}
	CLEANUP_ERROR struct error *absent = identify(output, &target);

	for (size_t i = 0; i < count && !absent; i++)
		if (compare(&files[i], &target) == 0)
			return error_remedy(error_create_path(ERROR_REFUSED, output,
							      "it is one of those to merge"),
					    "Name another file with -o.");
	qsort(files, count, sizeof(*files), compare);
	for (size_t i = 1; i < count; i++)
		if (compare(&files[i], &files[i - 1]) == 0)
			return error_create_path(ERROR_REFUSED, files[i].path,
						 "named twice: it would count twice");
	return NULL;
}

static struct error *merge(const struct request *request)
{
	struct collect_output output = COLLECT_OUTPUT_CLOSED;
	struct collect_merge merging = {
		.paths = request->files.items,
		.count = request->files.count,
	};
	struct error *error =
		collect_output_prepare(request->output, request->files.items[0], getpid(), &output);

	if (!error)
		error = check_files(request, output.path);
	if (!error) {
		/* What there is of it is written, or the interruption waits. */
		sigset_t before = cli_hold_interruptions();

		error = collect_merge(&merging, &output);
		if (!error) {
			cli_note("merged %zu %s with %llu processes into %s", merging.count,
				 merging.count == 1 ? "profile" : "profiles",
				 (unsigned long long)merging.processes, output.path);
			if (merging.unfinished)
				cli_note("not whole: %s%s was not written to its end and may lack "
					 "anything",
					 merging.first_unfinished,
					 merging.unfinished > 1 ? ", as others," : "");
		}
		collect_output_close(&output);
		sigprocmask(SIG_SETMASK, &before, NULL);
		return error;
	}
	collect_output_close(&output);
	return error;
}

int cli_merge(char **argv)
{
	struct request request = {0};
	struct error *error = parse(&request, argv);
	int exit_code;

	if (error) {
		exit_code = cli_usage_error("merge", error);
	} else if (request.help) {
		print_help();
		exit_code = cli_finish(0);
	} else {
		error = merge(&request);
		exit_code = error ? cli_error(error) : cli_finish(0);
	}
	vector_free(&request.files);
	return exit_code;
}
