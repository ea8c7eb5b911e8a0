#include "collect/keep.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "collect/place.h"
#include "collect/save.h"

bool collect_keep_is_ledger(const struct collect_output *output)
{
	size_t length = strlen(output->name);

	return length >= 4 && strcmp(output->name + length - 4, ".mgl") == 0;
}

static struct error *write_profile(int fd, const char *name,
				   const struct collect_finish_options *options,
				   const struct collect_output *output)
{
	CLEANUP_FREE char *path = NULL;
	struct ledger_reader *reader;

	/* Wherever the directory has been moved to. */
	if (asprintf(&path, "/proc/self/fd/%d/%s", output->directory_fd, output->temporary) < 0) {
		path = NULL;
		return error_no_memory();
	}
	TRY(ledger_reader_open_fd(fd, name, &reader));
	struct error *error = collect_finish(reader, options, path, output->path);

	ledger_reader_close(reader);
	return error;
}

struct error *collect_keep(int fd, const char *name, const struct collect_finish_options *options,
			   struct collect_output *output)
{
	TRY(collect_output_begin(output));
	if (collect_keep_is_ledger(output))
		TRY(collect_save(fd, name, output->fd, output->path));
	else
		TRY(write_profile(fd, name, options, output));
	return collect_output_finish(output);
}

struct error *collect_keep_temporarily(struct ledger_reader *reader,
				       const struct collect_finish_options *options,
				       char **ret_path)
{
	CLEANUP_FREE char *path = NULL;

	TRY(collect_place_temporary(&path));
	struct error *error = collect_finish(reader, options, path, path);

	if (error) {
		unlink(path);
		return error;
	}
	*ret_path = STEAL(path);
	return NULL;
}
