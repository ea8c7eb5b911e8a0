#include "report/gather.h"

#include <errno.h>
#include <string.h>

static struct error *failed(void)
{
	return error_create_system(errno, NULL, "cannot write the report");
}

/* The piece that count bytes end in, and of it what is left. */
static size_t skip(struct iovec *pieces, size_t first, size_t end, size_t count)
{
	while (first < end && count >= pieces[first].iov_len)
		count -= pieces[first++].iov_len;
	if (count) {
		pieces[first].iov_base = (char *)pieces[first].iov_base + count;
		pieces[first].iov_len -= count;
	}
	return first;
}

static struct error *write_pieces(int fd, struct iovec *pieces, size_t count)
{
	size_t first = 0;

	while (first < count) {
		ssize_t written = writev(fd, pieces + first, (int)(count - first));

		if (written < 0 && errno != EINTR)
			return failed();
		if (written > 0)
			first = skip(pieces, first, count, (size_t)written);
	}
	return NULL;
}

struct error *report_gather_flush(struct report_gather *gather)
{
	int fd = fileno(gather->out);

	if (fd >= 0) {
		if (fflush(gather->out) != 0)
			return failed();
		TRY(write_pieces(fd, gather->pieces, gather->count));
	} else {
		/* A stream in memory. */
		for (size_t i = 0; i < gather->count; i++) {
			const struct iovec *piece = &gather->pieces[i];

			if (fwrite(piece->iov_base, 1, piece->iov_len, gather->out) !=
			    piece->iov_len)
				return failed();
		}
	}
	gather->count = gather->used = 0;
	return NULL;
}

struct error *report_gather_borrow(struct report_gather *gather, const char *text, size_t length)
{
	if (length == 0)
		return NULL;
	if (gather->count == REPORT_GATHER_PIECES)
		TRY(report_gather_flush(gather));
	/* writev only reads. */
	gather->pieces[gather->count++] =
		(struct iovec){.iov_base = (void *)(uintptr_t)text, .iov_len = length};
	return NULL;
}

struct error *report_gather_copy(struct report_gather *gather, const char *text, size_t length)
{
	if (length > REPORT_GATHER_BYTES) {
		TRY(report_gather_borrow(gather, text, length));
		return report_gather_flush(gather);
	}
	/* A piece more may flush, too, and would reuse the bytes. */
	if (length > REPORT_GATHER_BYTES - gather->used || gather->count == REPORT_GATHER_PIECES)
		TRY(report_gather_flush(gather));
	char *start = gather->copied + gather->used;

	memcpy(start, text, length);
	gather->used += length;
	return report_gather_borrow(gather, start, length);
}

char *report_put_decimal(char *at, uint64_t value)
{
	char digits[20];
	size_t count = 0;

	do
		digits[count++] = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	while (count)
		*at++ = digits[--count];
	return at;
}

char *report_put_hex(char *at, uint64_t value)
{
	unsigned int shift = value ? (63u - (unsigned int)__builtin_clzll(value)) & ~3u : 0;

	for (;; shift -= 4) {
		*at++ = "0123456789abcdef"[value >> shift & 15];
		if (shift == 0)
			return at;
	}
}
