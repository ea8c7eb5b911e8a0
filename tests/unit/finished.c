#include "finished.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/finish.h"
#include "ledger/reader.h"

struct analyze_model *finished_model(const struct writer *writer)
{
	char path[] = "/tmp/mallograph-test-XXXXXX";
	const struct collect_finish_options options = {.no_symbols = true};
	struct ledger_reader *reader = NULL;
	struct analyze_model *model = NULL;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_null(ledger_reader_open_fd(writer->fd, "test", &reader));
	assert_null(collect_finish(reader, &options, path, path));
	ledger_reader_close(reader);
	assert_null(analyze_model_open(path, &model));
	unlink(path);
	return model;
}
