#include "symbols/cachefile.h"

#include "base/cursor.h"

void symbols_cached_free(struct symbols_cached *cached)
{
	strbuf_free(&cached->bytes);
	*cached = (struct symbols_cached){.bytes = STRBUF_EMPTY};
}

static uint32_t u32_at(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint64_t u64_at(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static const char *string_at(const struct symbols_cached *cached, uint32_t number)
{
	if (number == 0)
		return NULL;
	return cached->text + u32_at(cached->strings + (number - 1) * SYMBOLS_CACHE_STRING_BYTES);
}

static const void *section(struct cursor *input, uint32_t count, uint32_t item_bytes)
{
	return cursor_bytes(input, (size_t)count * item_bytes);
}

static bool is_string(const struct symbols_cached *cached, uint32_t number)
{
	return number <= cached->string_count;
}

/* Every string ends in text: its last byte is a NUL. */
static bool strings_are_right(const struct symbols_cached *cached)
{
	if (cached->string_count > 0 &&
	    (cached->text_bytes == 0 || cached->text[cached->text_bytes - 1] != '\0'))
		return false;
	for (uint32_t i = 0; i < cached->string_count; i++)
		if (u32_at(cached->strings + i * SYMBOLS_CACHE_STRING_BYTES) >= cached->text_bytes)
			return false;
	return true;
}

static bool tries_are_right(const struct symbols_cached *cached)
{
	for (uint32_t i = 0; i < cached->try_count; i++) {
		const uint8_t *tried = cached->tries + i * SYMBOLS_CACHE_TRY_BYTES;
		uint32_t path = u32_at(tried + 4);

		if (tried[0] < SYMBOLS_PLACE_FILE || tried[0] > SYMBOLS_PLACE_LAST ||
		    tried[1] < SYMBOLS_OUTCOME_FOUND || tried[1] > SYMBOLS_OUTCOME_LAST ||
		    path == 0 || !is_string(cached, path) || !is_string(cached, u32_at(tried + 8)))
			return false;
	}
	return true;
}

static bool addresses_are_right(const struct symbols_cached *cached)
{
	for (uint32_t i = 0; i < cached->address_count; i++) {
		struct symbols_cached_address address = symbols_cached_address(cached, i);

		if (address.first > cached->frame_count ||
		    address.count > cached->frame_count - address.first ||
		    (i > 0 && address.pc <= symbols_cached_address(cached, i - 1).pc))
			return false;
	}
	for (uint32_t i = 0; i < cached->frame_count; i++) {
		const uint8_t *frame = cached->frames + i * SYMBOLS_CACHE_FRAME_BYTES;

		if (!is_string(cached, u32_at(frame)) || !is_string(cached, u32_at(frame + 4)))
			return false;
	}
	return true;
}

bool symbols_cached_decode(struct symbols_cached *cached)
{
	struct cursor input = cursor_over(cached->bytes.text, cached->bytes.length);
	uint8_t head[8];

	cursor_copy(&input, head, sizeof(head));
	uint32_t version = cursor_u32(&input), zero = cursor_u32(&input);
	uint64_t checksum = cursor_u64(&input);

	if (input.failed || memcmp(head, SYMBOLS_CACHE_MAGIC, sizeof(head)) != 0 ||
	    version != SYMBOLS_CACHE_VERSION || zero != 0 ||
	    checksum != map_hash_bytes(input.start + SYMBOLS_CACHE_CHECKED_FROM,
				       input.size - SYMBOLS_CACHE_CHECKED_FROM))
		return false;
	cached->key_bytes = cursor_u32(&input);
	cached->maker_bytes = cursor_u32(&input);
	cached->try_count = cursor_u32(&input);
	cached->string_count = cursor_u32(&input);
	cached->address_count = cursor_u32(&input);
	cached->frame_count = cursor_u32(&input);
	cached->text_bytes = cursor_u32(&input);

	uint32_t level = cursor_u32(&input), reason = cursor_u32(&input);
	uint32_t debug_file = cursor_u32(&input), build_id = cursor_u32(&input);

	cached->tries = section(&input, cached->try_count, SYMBOLS_CACHE_TRY_BYTES);
	cached->strings = section(&input, cached->string_count, SYMBOLS_CACHE_STRING_BYTES);
	cached->addresses = section(&input, cached->address_count, SYMBOLS_CACHE_ADDRESS_BYTES);
	cached->frames = section(&input, cached->frame_count, SYMBOLS_CACHE_FRAME_BYTES);
	cached->key = section(&input, cached->key_bytes, 1);
	cached->maker = section(&input, cached->maker_bytes, 1);
	cached->text = section(&input, cached->text_bytes, 1);
	if (input.failed || cursor_left(&input) > 0 || level < SYMBOLS_NONE ||
	    level > SYMBOLS_FULL || !is_string(cached, reason) || !is_string(cached, debug_file) ||
	    !is_string(cached, build_id) || !strings_are_right(cached) ||
	    !tries_are_right(cached) || !addresses_are_right(cached))
		return false;
	cached->verdict = (struct symbols_verdict){
		.level = level,
		.reason = string_at(cached, reason),
		.debug_file = string_at(cached, debug_file),
		.build_id = string_at(cached, build_id),
	};
	return true;
}

static bool is_text(const struct strbuf *text, const char *bytes, uint32_t count)
{
	return text->length == count && (count == 0 || memcmp(text->text, bytes, count) == 0);
}

bool symbols_cached_is_for(const struct symbols_cached *cached, const struct strbuf *key,
			   const struct strbuf *maker)
{
	return is_text(key, cached->key, cached->key_bytes) &&
	       is_text(maker, cached->maker, cached->maker_bytes);
}

struct symbols_try symbols_cached_try(const struct symbols_cached *cached, uint32_t place)
{
	const uint8_t *tried = cached->tries + (size_t)place * SYMBOLS_CACHE_TRY_BYTES;

	return (struct symbols_try){
		.place = tried[0],
		.outcome = tried[1],
		.path = string_at(cached, u32_at(tried + 4)),
		.detail = string_at(cached, u32_at(tried + 8)),
		.identity =
			{
				.exists = tried[2] != 0,
				.device = u64_at(tried + 16),
				.inode = u64_at(tried + 24),
				.size = u64_at(tried + 32),
				.mtime_ns = (int64_t)u64_at(tried + 40),
			},
	};
}

struct symbols_cached_address symbols_cached_address(const struct symbols_cached *cached,
						     uint32_t place)
{
	const uint8_t *address = cached->addresses + (size_t)place * SYMBOLS_CACHE_ADDRESS_BYTES;

	return (struct symbols_cached_address){
		.pc = u64_at(address),
		.first = u32_at(address + 8),
		.count = u32_at(address + 12),
	};
}

struct symbols_frame symbols_cached_frame(const struct symbols_cached *cached, uint32_t place)
{
	const uint8_t *frame = cached->frames + (size_t)place * SYMBOLS_CACHE_FRAME_BYTES;
	uint32_t column = u32_at(frame + 12);

	return (struct symbols_frame){
		.function = string_at(cached, u32_at(frame)),
		.file = string_at(cached, u32_at(frame + 4)),
		.line = u32_at(frame + 8),
		.column = column & ~SYMBOLS_CACHE_INLINED,
		.inlined = column & SYMBOLS_CACHE_INLINED,
	};
}
