#include "image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cursor.h"

static uint64_t image_bytes(struct cursor *input)
{
	return (uint64_t)(cursor_u32(input) % (IMAGE_PAGES + 1)) * IMAGE_PAGE_BYTES;
}

/* The next patch that is within the image; false = there is none. */
static bool next_patch(struct cursor *input, uint64_t bytes, uint64_t *offset, size_t *count)
{
	*offset = cursor_u32(input);
	*count = cursor_u16(input);
	if (*count > cursor_left(input))
		*count = cursor_left(input);
	return !input->failed && *offset <= bytes && *count <= bytes - *offset;
}

size_t image_end(const uint8_t *data, size_t size)
{
	struct cursor input = cursor_over(data, size);
	uint64_t bytes = image_bytes(&input), offset, end = 0;
	size_t count;

	while (next_patch(&input, bytes, &offset, &count)) {
		cursor_skip(&input, count);
		if (count && offset + count > end)
			end = offset + count;
	}
	return (size_t)end;
}

void image_fill(int fd, const uint8_t *data, size_t size)
{
	struct cursor input = cursor_over(data, size);
	uint64_t bytes = image_bytes(&input), offset;
	size_t count, end = image_end(data, size);

	if (ftruncate(fd, (off_t)bytes) != 0)
		abort();
	if (end == 0)
		return;
	/* A call for each of many patches is what a run would spend its time with. */
	char *to = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (to == MAP_FAILED)
		abort();
	while (next_patch(&input, bytes, &offset, &count))
		if (count)
			memcpy(to + offset, cursor_bytes(&input, count), count);
	munmap(to, end);
}

int image_make(const uint8_t *data, size_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	image_fill(fd, data, size);
	return fd;
}
