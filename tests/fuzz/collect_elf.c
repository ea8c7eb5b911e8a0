/*
 * The launcher's own reader of ELF files, over any bytes: what is said of a program before it
 * is started, the allocator linked into it, and the libraries it asks for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/elf.h"

#include "image.h"

#define NAMES 1000u

struct seen {
	size_t names;
	size_t bytes;
};

static bool see(void *context, int64_t tag, const char *name)
{
	struct seen *seen = context;

	seen->bytes += strlen(name) + (tag == 0);
	return ++seen->names < NAMES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FD int fd = image_make(data, size);
	struct collect_elf elf;
	struct seen seen = {0};
	struct error *error = collect_elf_read(fd, "image", &elf);
	const char *allocator = collect_elf_allocator(fd);

	if (!error && elf.is_elf)
		seen.bytes += strnlen(elf.loader, sizeof(elf.loader));
	if (allocator)
		seen.bytes += strlen(allocator);
	collect_elf_dynamic(fd, see, &seen);
	if (seen.names > NAMES || seen.bytes == SIZE_MAX)
		abort();
	error_free(error);
	return 0;
}
