/*
 * An ELF file with debug information, over any bytes, read as a reader process does but in
 * this one: our own walk through it must end, and take memory in proportion. libdw was not
 * written for such files; a finding within it is the reader's death, which is survived
 * (tests/integration/test_symbols_hostile.py), and no corpus file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/image.h"

#include "image.h"

/* Where the corpus has its code. */
#define FIRST 0x1000u
#define STEP  0x0ffbu
#define PCS   20u

static size_t use(const char *text) { return text ? strlen(text) : 0; }

static void ask(struct symbols_image *image)
{
	symbols_frame_list frames = VECTOR_EMPTY;
	struct symbols_verdict verdict = symbols_image_verdict(image);
	struct error *error = NULL;
	size_t total = use(verdict.reason) + use(verdict.debug_file);

	for (unsigned i = 0; i < PCS && !error; i++)
		error = symbols_image_frames(image, FIRST + i * STEP, &frames);
	for (size_t i = 0; i < frames.count; i++)
		total += use(frames.items[i].function) + use(frames.items[i].file);
	if (total == SIZE_MAX)
		abort();
	vector_free(&frames);
	error_free(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct symbols_options options = {0};
	struct symbols_image_request request = {.options = &options};
	CLEANUP_FD int fd = image_make(data, size);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	request.path = path;
	for (int names_only = 0; names_only < 2; names_only++) {
		struct symbols_image *image;

		request.names_only = names_only;
		struct error *error = symbols_image_open(&request, &image);

		if (!error) {
			ask(image);
			symbols_image_close(image);
		}
		error_free(error);
	}
	return 0;
}
