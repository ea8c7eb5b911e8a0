#include "collect/save.h"

#include <stddef.h>
#include <string.h>

#include "collect/session.h"
#include "ledger/layout.h"

#define CHUNK (256u << 10)

struct copy {
	int from;
	int to;
	const char *from_name;
	const char *to_name;
	uint8_t *chunk;
};

static struct error *cannot_write(const struct copy *copy, ssize_t written)
{
	return error_create_system(written < 0 ? errno : ENOSPC, copy->to_name,
				   "cannot write the ledger");
}

static struct error *write_pages(const struct copy *copy, const uint8_t *pages, size_t bytes,
				 uint64_t offset)
{
	while (bytes > 0) {
		ssize_t n = pwrite(copy->to, pages, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return cannot_write(copy, n);
		pages += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return NULL;
}

static bool is_zero(const uint8_t *page, size_t bytes)
{
	return page[0] == 0 && memcmp(page, page + 1, bytes - 1) == 0;
}

/* Runs of pages with something in them. */
static struct error *write_chunk(const struct copy *copy, size_t bytes, uint64_t offset)
{
	size_t start = 0;

	for (size_t at = 0; at < bytes; at += MGL_PAGE) {
		size_t page = bytes - at < MGL_PAGE ? bytes - at : MGL_PAGE;

		if (!is_zero(copy->chunk + at, page))
			continue;
		if (at > start)
			TRY(write_pages(copy, copy->chunk + start, at - start, offset + start));
		start = at + page;
	}
	if (bytes > start)
		return write_pages(copy, copy->chunk + start, bytes - start, offset + start);
	return NULL;
}

static struct error *copy_range(const struct copy *copy, uint64_t from, uint64_t until)
{
	while (from < until) {
		size_t bytes = until - from < CHUNK ? until - from : CHUNK;
		ssize_t n = pread(copy->from, copy->chunk, bytes, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_create_system(errno, copy->from_name,
						   "cannot read the session file");
		if (n == 0)
			return NULL;
		TRY(write_chunk(copy, (size_t)n, from));
		from += (uint64_t)n;
	}
	return NULL;
}

static struct error *copy_data(const struct copy *copy, uint64_t used)
{
	uint64_t at = 0;

	while (at < used) {
		off_t data = lseek(copy->from, (off_t)at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(copy->from, data, SEEK_HOLE);

		if (data < 0 && errno == ENXIO)
			return NULL;
		if (hole < 0)
			return error_create_system(errno, copy->from_name,
						   "cannot read the session file");
		/* Whole pages, so that chunks start on them. */
		uint64_t from = (uint64_t)data & ~(uint64_t)(MGL_PAGE - 1);
		uint64_t until = (uint64_t)hole < used ? (uint64_t)hole : used;

		TRY(copy_range(copy, from, until));
		at = (uint64_t)hole;
	}
	return NULL;
}

static struct error *write_u64(const struct copy *copy, size_t offset, uint64_t value)
{
	ssize_t n = pwrite(copy->to, &value, sizeof(value), (off_t)offset);

	return n == sizeof(value) ? NULL : cannot_write(copy, n);
}

struct error *collect_save(int from, const char *from_name, int to, const char *to_name)
{
	CLEANUP_FREE uint8_t *chunk = malloc(CHUNK);
	struct copy copy = {from, to, from_name, to_name, chunk};
	uint64_t used;

	if (!chunk)
		return error_no_memory();
	TRY(collect_session_used(from, from_name, &used));
	TRY(copy_data(&copy, used));
	TRY(write_u64(&copy, offsetof(struct mgl_session, file_bytes), used));
	TRY(write_u64(&copy, offsetof(struct mgl_session, next_unit), used / MGL_UNIT_BYTES));
	if (ftruncate(to, (off_t)used) != 0)
		return cannot_write(&copy, -1);
	return NULL;
}
