/*
 * What runtimes leave of the names of their code, over any bytes: a jitdump file where it
 * begins as one, else a perf map.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "symbols/jit.h"

#include "image.h"

/* Where the corpus has its code. */
#define FIRST 0x1000u
#define STEP  0x400u
#define PCS   64u

static void check(const struct symbols_jit *jit)
{
	size_t named = 0, lined = 0, total = 0;

	for (unsigned i = 0; i < PCS; i++) {
		const struct symbols_jit_pc *pc = symbols_jit_find(jit, FIRST + i * STEP);

		if (!pc || pc->pc != FIRST + i * STEP)
			abort();
		const char *function = symbols_jit_text(jit, pc->function);
		const char *file = symbols_jit_text(jit, pc->file);

		named += function != NULL;
		lined += pc->is_lined;
		if (function && strlen(function) > SYMBOLS_JIT_NAME)
			abort();
		total += file ? strlen(file) : 0;
	}
	if (named != jit->named || lined != jit->lined || total == SIZE_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FD int fd = memfd_create("names", MFD_CLOEXEC);
	struct symbols_jit jit = SYMBOLS_JIT_EMPTY;
	struct error *error = NULL;

	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) ||
	    lseek(fd, 0, SEEK_SET) != 0)
		abort();
	for (unsigned i = 0; i < PCS && !error; i++)
		error = symbols_jit_add(&jit, FIRST + i * STEP);
	if (!error && size >= 4 && memcmp(data, "DTiJ", 4) == 0)
		error = symbols_jit_read_dump(&jit, fd);
	else if (!error)
		error = symbols_jit_read_map(&jit, fd);
	if (!error)
		check(&jit);
	error_free(error);
	symbols_jit_free(&jit);
	return 0;
}
