#include "symbols/cachefile.h"

#include <string.h>

static void put_u32(struct strbuf *buffer, uint32_t value)
{
	strbuf_append_bytes(buffer, &value, sizeof(value));
}

static void put_u64(struct strbuf *buffer, uint64_t value)
{
	strbuf_append_bytes(buffer, &value, sizeof(value));
}

struct wanted {
	const struct symbols_cache_writer *writer;
	const char *text;
};

static bool is_same(void *context, uint32_t position)
{
	const struct wanted *wanted = context;
	const struct symbols_cache_writer *writer = wanted->writer;
	uint32_t place;

	memcpy(&place, writer->strings.text + (size_t)position * SYMBOLS_CACHE_STRING_BYTES,
	       sizeof(place));
	return strcmp(writer->text.text + place, wanted->text) == 0;
}

static struct error *number_of(struct symbols_cache_writer *writer, const char *text, uint32_t *ret)
{
	struct wanted wanted = {writer, text};

	*ret = 0;
	if (!text)
		return NULL;
	size_t length = strlen(text);
	uint64_t hash = map_hash_bytes(text, length);
	uint32_t place = map_index_find(&writer->index, hash, is_same, &wanted);

	*ret = place == MAP_NONE ? ++writer->string_count : place + 1;
	if (place != MAP_NONE)
		return NULL;
	put_u32(&writer->strings, (uint32_t)writer->text.length);
	strbuf_append_bytes(&writer->text, text, length + 1);
	TRY(strbuf_result(&writer->strings));
	TRY(strbuf_result(&writer->text));
	if (writer->text.length > SYMBOLS_CACHE_FILE_BYTES)
		return error_create(ERROR_REFUSED, "too much for a file of the cache");
	return map_index_add(&writer->index, hash, writer->string_count - 1);
}

struct error *symbols_cache_write_try(struct symbols_cache_writer *writer,
				      const struct symbols_try *tried)
{
	const uint8_t head[4] = {(uint8_t)tried->place, (uint8_t)tried->outcome,
				 tried->identity.exists};
	uint32_t path, detail;

	TRY(number_of(writer, tried->path, &path));
	TRY(number_of(writer, tried->detail, &detail));
	strbuf_append_bytes(&writer->tries, head, sizeof(head));
	put_u32(&writer->tries, path);
	put_u32(&writer->tries, detail);
	put_u32(&writer->tries, 0);
	put_u64(&writer->tries, tried->identity.device);
	put_u64(&writer->tries, tried->identity.inode);
	put_u64(&writer->tries, tried->identity.size);
	put_u64(&writer->tries, (uint64_t)tried->identity.mtime_ns);
	writer->try_count++;
	return strbuf_result(&writer->tries);
}

struct error *symbols_cache_write_address(struct symbols_cache_writer *writer, uint64_t pc,
					  const struct symbols_frame *frames, uint32_t count)
{
	put_u64(&writer->addresses, pc);
	put_u32(&writer->addresses, writer->frame_count);
	put_u32(&writer->addresses, count);
	writer->address_count++;
	writer->frame_count += count;
	if (writer->frames.length > SYMBOLS_CACHE_FILE_BYTES ||
	    writer->addresses.length > SYMBOLS_CACHE_FILE_BYTES)
		return error_create(ERROR_REFUSED, "too much for a file of the cache");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t function, file;

		TRY(number_of(writer, frames[i].function, &function));
		TRY(number_of(writer, frames[i].file, &file));
		put_u32(&writer->frames, function);
		put_u32(&writer->frames, file);
		put_u32(&writer->frames, frames[i].line);
		put_u32(&writer->frames, (frames[i].column & ~SYMBOLS_CACHE_INLINED) |
						 (frames[i].inlined ? SYMBOLS_CACHE_INLINED : 0));
	}
	TRY(strbuf_result(&writer->frames));
	return strbuf_result(&writer->addresses);
}

static void append(struct strbuf *ret, const struct strbuf *part)
{
	if (part->length > 0)
		strbuf_append_bytes(ret, part->text, part->length);
}

struct error *symbols_cache_write_end(struct symbols_cache_writer *writer,
				      const struct symbols_verdict *verdict,
				      const struct strbuf *key, const struct strbuf *maker,
				      struct strbuf *ret)
{
	uint32_t reason, debug_file, build_id;

	TRY(number_of(writer, verdict->reason, &reason));
	TRY(number_of(writer, verdict->debug_file, &debug_file));
	TRY(number_of(writer, verdict->build_id, &build_id));
	strbuf_append(ret, SYMBOLS_CACHE_MAGIC);
	put_u32(ret, SYMBOLS_CACHE_VERSION);
	put_u32(ret, 0);
	put_u64(ret, 0);
	put_u32(ret, (uint32_t)key->length);
	put_u32(ret, (uint32_t)maker->length);
	put_u32(ret, writer->try_count);
	put_u32(ret, writer->string_count);
	put_u32(ret, writer->address_count);
	put_u32(ret, writer->frame_count);
	put_u32(ret, (uint32_t)writer->text.length);
	put_u32(ret, verdict->level);
	put_u32(ret, reason);
	put_u32(ret, debug_file);
	put_u32(ret, build_id);
	append(ret, &writer->tries);
	append(ret, &writer->strings);
	append(ret, &writer->addresses);
	append(ret, &writer->frames);
	append(ret, key);
	append(ret, maker);
	append(ret, &writer->text);
	TRY(strbuf_result(ret));
	if (ret->length > SYMBOLS_CACHE_FILE_BYTES)
		return error_create(ERROR_REFUSED, "too much for a file of the cache");

	uint64_t checksum = map_hash_bytes(ret->text + SYMBOLS_CACHE_CHECKED_FROM,
					   ret->length - SYMBOLS_CACHE_CHECKED_FROM);

	memcpy(ret->text + SYMBOLS_CACHE_CHECKSUM_AT, &checksum, sizeof(checksum));
	return NULL;
}

void symbols_cache_writer_free(struct symbols_cache_writer *writer)
{
	strbuf_free(&writer->tries);
	strbuf_free(&writer->strings);
	strbuf_free(&writer->addresses);
	strbuf_free(&writer->frames);
	strbuf_free(&writer->text);
	map_index_free(&writer->index);
	*writer = (struct symbols_cache_writer){0};
}
