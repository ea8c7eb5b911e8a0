/*
 * Any bytes taken for what was kept of ended processes beside a session, which is gone on with:
 * it is refused, or what comes of it is a profile that its readers have nothing to say against.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/model.h"
#include "collect/finish.h"
#include "ledger/layout.h"
#include "ledger/reader.h"
#include "report/report.h"

#include "image.h"

static void check(struct error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error->message);
	abort();
}

/* A session of which all is kept: nothing is in the file any more. */
static struct ledger_reader *open_session(void)
{
	struct mgl_session session = {
		.magic = MGL_SESSION_MAGIC,
		.layout_version = MGL_LAYOUT_VERSION,
		.writer = "fuzz",
		.unit_bytes = MGL_UNIT_BYTES,
		.file_bytes = MGL_UNIT_BYTES,
		.start_ns = 1000,
		.next_unit = 1,
		.next_process = 3,
	};
	struct mgl_control control = {.version = 1, .sample_period = 1, .retired = 2};
	struct ledger_reader *reader = NULL;
	int fd = memfd_create("session", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, MGL_UNIT_BYTES) != 0 ||
	    pwrite(fd, &session, sizeof(session), 0) != sizeof(session) ||
	    pwrite(fd, &control, sizeof(control), MGL_CONTROL_OFFSET) != sizeof(control))
		abort();
	check(ledger_reader_open_fd(fd, "session", &reader));
	close(fd);
	return reader;
}

static void read_back(const char *path)
{
	const struct report_options options = {.sites = 5, .processes = 5};
	struct analyze_model *model = NULL;
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	check(analyze_model_open(path, &model));
	check(report_json_print(model, &options, out));
	check(report_text_print(model, &options, out));
	analyze_model_free(model);
	fclose(out);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char kept[] = "/dev/shm/mallograph-kept-XXXXXX", made[] = "/dev/shm/mallograph-made-XXXXXX";
	const struct collect_finish_options options = {.no_symbols = true, .retired = kept};
	int fd = mkstemp(kept), to = mkstemp(made);

	if (fd < 0 || to < 0)
		abort();
	image_fill(fd, data, size);
	close(fd);
	close(to);
	struct ledger_reader *reader = open_session();
	struct error *error = collect_finish(reader, &options, made, NULL);

	ledger_reader_close(reader);
	if (!error)
		read_back(made);
	else if (error->code != ERROR_DAMAGED && error->code != ERROR_FORMAT &&
		 error->code != ERROR_VERSION)
		check(error);
	error_free(error);
	unlink(kept);
	unlink(made);
	return 0;
}
