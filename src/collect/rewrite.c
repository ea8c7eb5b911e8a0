#include "collect/rewrite.h"

#include <stdio.h>

#include "collect/output.h"
#include "store/store.h"

struct error *collect_rewrite(struct collect_output *output, collect_rewrite_put *put,
			      void *context)
{
	CLEANUP_FREE char *path = NULL;
	struct store_writer *writer;

	TRY(collect_output_begin(output));
	/* Wherever the directory has been moved to. */
	if (asprintf(&path, "/proc/self/fd/%d/%s", output->directory_fd, output->temporary) < 0) {
		path = NULL;
		return error_no_memory();
	}
	TRY(store_writer_open(path, output->path, &writer));
	struct error *error = put(context, writer);

	if (error) {
		store_writer_abort(writer);
		return error;
	}
	TRY(store_writer_finish(writer));
	return collect_output_finish(output);
}
