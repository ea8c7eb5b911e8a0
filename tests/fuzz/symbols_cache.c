/*
 * A file of the cache of symbols, over any bytes: nothing may crash, and what is decoded
 * stays within the file. The checksum is made right, or nothing would get past it; the
 * image's last zeros but one are left out, since the file's size is what its counts say.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/cachefile.h"

#include "image.h"

static void fill(struct strbuf *bytes, const uint8_t *data, size_t size)
{
	CLEANUP_FD int fd = image_make(data, size);
	struct stat st;

	if (fstat(fd, &st) != 0)
		abort();
	size_t touched = image_end(data, size), whole = (size_t)st.st_size;
	size_t length = touched < whole ? touched + 1 : whole;
	char *image = length ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;

	if (image == MAP_FAILED)
		abort();
	size_t mapped = length;

	while (length > 1 && !image[length - 1] && !image[length - 2])
		length--;
	strbuf_append_bytes(bytes, image, length);
	if (image)
		munmap(image, mapped);
	if (length <= SYMBOLS_CACHE_CHECKED_FROM)
		return;
	uint64_t checksum = map_hash_bytes(bytes->text + SYMBOLS_CACHE_CHECKED_FROM,
					   length - SYMBOLS_CACHE_CHECKED_FROM);

	memcpy(bytes->text + SYMBOLS_CACHE_CHECKSUM_AT, &checksum, sizeof(checksum));
}

static size_t use(const char *text) { return text ? strlen(text) : 0; }

/* Everything in it, and written out again it is the same. */
static void walk(const struct symbols_cached *cached)
{
	struct strbuf key = STRBUF_EMPTY, maker = STRBUF_EMPTY, again = STRBUF_EMPTY;
	struct symbols_cache_writer writer = {0};
	struct error *error = NULL;
	size_t total = use(cached->verdict.reason) + use(cached->verdict.debug_file) +
		       use(cached->verdict.build_id);

	strbuf_append_bytes(&key, cached->key, cached->key_bytes);
	strbuf_append_bytes(&maker, cached->maker, cached->maker_bytes);
	if (!symbols_cached_is_for(cached, &key, &maker))
		abort();
	for (uint32_t i = 0; i < cached->try_count && !error; i++) {
		struct symbols_try tried = symbols_cached_try(cached, i);

		total += strlen(tried.path) + use(tried.detail);
		error = symbols_cache_write_try(&writer, &tried);
	}
	for (uint32_t i = 0; i < cached->address_count; i++) {
		struct symbols_cached_address address = symbols_cached_address(cached, i);
		uint32_t count = address.count < 100 ? address.count : 100;
		struct symbols_frame frames[100];

		for (uint32_t k = 0; k < count; k++) {
			frames[k] = symbols_cached_frame(cached, address.first + k);
			total += use(frames[k].function) + use(frames[k].file);
		}
		if (!error)
			error = symbols_cache_write_address(&writer, address.pc, frames, count);
	}
	if (!error)
		error = symbols_cache_write_end(&writer, &cached->verdict, &key, &maker, &again);
	symbols_cache_writer_free(&writer);
	if (!error) {
		struct symbols_cached copy = {.bytes = again};

		if (!symbols_cached_decode(&copy) || copy.address_count != cached->address_count ||
		    copy.try_count != cached->try_count || total == SIZE_MAX)
			abort();
	}
	error_free(error);
	strbuf_free(&key);
	strbuf_free(&maker);
	strbuf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbols_cached cached = {.bytes = STRBUF_EMPTY};

	fill(&cached.bytes, data, size);
	if (symbols_cached_decode(&cached))
		walk(&cached);
	symbols_cached_free(&cached);
	return 0;
}
