/*
 * The bytes of a file of the cache: what one module's search and addresses came to. Such a
 * file is trusted as little as any other: decoding checks all of it once, and what it then
 * gives stays within.
 *
 *	magic "MGLCACHE", u32 version, u32 0, u64 checksum of all that follows
 *	u32 counts: key, maker (bytes), tries, strings, addresses, frames, text (bytes)
 *	u32 level, u32 reason, u32 debug file, u32 build-id (strings)
 *	tries:     u8 place, outcome, exists, 0, u32 path, u32 detail (strings), u32 0,
 *	           u64 device, inode, size, i64 mtime
 *	strings:   u32 place in text, where it ends with a NUL
 *	addresses: u64 pc, ascending; u32 first frame, u32 frames
 *	frames:    u32 function, u32 file (strings), u32 line, u32 column, bit 31 = inlined
 *	key, maker, text
 *
 * Little-endian, nothing between. A string's number counts from 1; 0 is none.
 *
 * Owner: the bytes are the caller's, and strings point into them. Errors: no memory, when
 * writing.
 */
#ifndef MALLOGRAPH_SYMBOLS_CACHEFILE_H
#define MALLOGRAPH_SYMBOLS_CACHEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "symbols/symbols.h"

#define SYMBOLS_CACHE_VERSION    1u
#define SYMBOLS_CACHE_FILE_BYTES ((size_t)16 << 20) /* larger ones are not made, nor read */

#define SYMBOLS_CACHE_MAGIC         "MGLCACHE"
#define SYMBOLS_CACHE_CHECKSUM_AT   16u
#define SYMBOLS_CACHE_CHECKED_FROM  24u
#define SYMBOLS_CACHE_TRY_BYTES     48u
#define SYMBOLS_CACHE_STRING_BYTES  4u
#define SYMBOLS_CACHE_ADDRESS_BYTES 16u
#define SYMBOLS_CACHE_FRAME_BYTES   16u
#define SYMBOLS_CACHE_INLINED       (UINT32_C(1) << 31)

struct symbols_cached {
	struct strbuf bytes; /* whoever read them put them here */
	struct symbols_verdict verdict;
	const char *key, *maker; /* not terminated */
	uint32_t key_bytes, maker_bytes;
	uint32_t try_count, string_count, address_count, frame_count, text_bytes;
	const uint8_t *tries, *strings, *addresses, *frames;
	const char *text;
};

struct symbols_cached_address {
	uint64_t pc;
	uint32_t first;
	uint32_t count;
};

void symbols_cached_free(struct symbols_cached *cached);
/* Of cached->bytes. false = not a whole file of this version. */
bool symbols_cached_decode(struct symbols_cached *cached);
bool symbols_cached_is_for(const struct symbols_cached *cached, const struct strbuf *key,
			   const struct strbuf *maker);
/* Places below the counts. */
struct symbols_try symbols_cached_try(const struct symbols_cached *cached, uint32_t place);
struct symbols_cached_address symbols_cached_address(const struct symbols_cached *cached,
						     uint32_t place);
struct symbols_frame symbols_cached_frame(const struct symbols_cached *cached, uint32_t place);

/* A file in the making. Begin with zeros; addresses are added in ascending order. */
struct symbols_cache_writer {
	struct strbuf tries, strings, addresses, frames, text;
	uint32_t try_count, string_count, address_count, frame_count;
	struct map_index index; /* of the strings */
	uint64_t last;          /* address */
};

struct error *symbols_cache_write_try(struct symbols_cache_writer *writer,
				      const struct symbols_try *tried) ERROR_MUST_CHECK;
struct error *symbols_cache_write_address(struct symbols_cache_writer *writer, uint64_t pc,
					  const struct symbols_frame *frames,
					  uint32_t count) ERROR_MUST_CHECK;
struct error *symbols_cache_write_end(struct symbols_cache_writer *writer,
				      const struct symbols_verdict *verdict,
				      const struct strbuf *key, const struct strbuf *maker,
				      struct strbuf *ret) ERROR_MUST_CHECK;
void symbols_cache_writer_free(struct symbols_cache_writer *writer);

#endif
