#include "image.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cursor.h"

void image_fill(int fd, const uint8_t *data, size_t size)
{
	struct cursor input = cursor_over(data, size);
	uint64_t bytes = (uint64_t)(cursor_u32(&input) % (IMAGE_PAGES + 1)) * IMAGE_PAGE_BYTES;

	if (ftruncate(fd, (off_t)bytes) != 0)
		abort();
	while (!input.failed) {
		uint64_t offset = cursor_u32(&input);
		size_t count = cursor_u16(&input);

		if (count > cursor_left(&input))
			count = cursor_left(&input);
		if (input.failed || offset > bytes || count > bytes - offset)
			break;
		if (count && pwrite(fd, cursor_bytes(&input, count), count, (off_t)offset) < 0)
			abort();
	}
}

int image_make(const uint8_t *data, size_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	image_fill(fd, data, size);
	return fd;
}
