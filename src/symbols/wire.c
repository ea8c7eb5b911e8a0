#include "symbols/wire.h"

#include <string.h>

#define FLUSH_BYTES ((size_t)32 << 10)

void symbols_wire_free(struct symbols_wire *wire)
{
	strbuf_free(&wire->buffer);
	map_u64_free(&wire->strings);
}

struct error *symbols_wire_flush(struct symbols_wire *wire)
{
	size_t at = 0;

	TRY(strbuf_result(&wire->buffer));
	while (at < wire->buffer.length) {
		ssize_t n = write(wire->fd, wire->buffer.text + at, wire->buffer.length - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_create_system(errno, NULL, "cannot answer");
		at += (size_t)n;
	}
	strbuf_clear(&wire->buffer);
	return NULL;
}

static void put_u32(struct symbols_wire *wire, uint32_t value)
{
	strbuf_append_bytes(&wire->buffer, &value, sizeof(value));
}

static void put_u64(struct symbols_wire *wire, uint64_t value)
{
	strbuf_append_bytes(&wire->buffer, &value, sizeof(value));
}

static void put_head(struct symbols_wire *wire, enum symbols_wire_kind kind, size_t bytes)
{
	put_u32(wire, (uint32_t)bytes);
	strbuf_append_char(&wire->buffer, (char)kind);
}

/* Strings live as long as their image, so where they stand tells them apart. */
static struct error *send_string(struct symbols_wire *wire, const char *text, uint32_t *ret)
{
	const uint64_t *number = text ? map_u64_find(&wire->strings, (uintptr_t)text) : NULL;

	*ret = number ? (uint32_t)*number : 0;
	if (!text || number)
		return NULL;
	size_t length = strnlen(text, SYMBOLS_WIRE_STRING_MAX);

	*ret = ++wire->string_count;
	put_head(wire, SYMBOLS_WIRE_STRING, length);
	strbuf_append_bytes(&wire->buffer, text, length);
	return map_u64_set(&wire->strings, (uintptr_t)text, *ret);
}

struct error *symbols_wire_work(struct symbols_wire *wire, uint32_t place)
{
	map_u64_free(&wire->strings);
	wire->string_count = 0;
	put_head(wire, SYMBOLS_WIRE_WORK, sizeof(place));
	put_u32(wire, place);
	return symbols_wire_flush(wire);
}

struct error *symbols_wire_verdict(struct symbols_wire *wire, const struct symbols_verdict *verdict)
{
	uint32_t reason, debug_file, build_id;

	TRY(send_string(wire, verdict->reason, &reason));
	TRY(send_string(wire, verdict->debug_file, &debug_file));
	TRY(send_string(wire, verdict->build_id, &build_id));
	put_head(wire, SYMBOLS_WIRE_VERDICT, 1 + 3 * sizeof(reason));
	strbuf_append_char(&wire->buffer, (char)verdict->level);
	put_u32(wire, reason);
	put_u32(wire, debug_file);
	put_u32(wire, build_id);
	return symbols_wire_flush(wire);
}

static struct error *send_try(struct symbols_wire *wire, const struct symbols_try *tried)
{
	uint32_t path, detail;

	TRY(send_string(wire, tried->path, &path));
	TRY(send_string(wire, tried->detail, &detail));
	put_head(wire, SYMBOLS_WIRE_TRY, 3 + 2 * sizeof(path) + 4 * sizeof(uint64_t));
	strbuf_append_char(&wire->buffer, (char)tried->place);
	strbuf_append_char(&wire->buffer, (char)tried->outcome);
	strbuf_append_char(&wire->buffer, tried->identity.exists ? 1 : 0);
	put_u32(wire, path);
	put_u32(wire, detail);
	put_u64(wire, tried->identity.device);
	put_u64(wire, tried->identity.inode);
	put_u64(wire, tried->identity.size);
	put_u64(wire, (uint64_t)tried->identity.mtime_ns);
	return NULL;
}

struct error *symbols_wire_tries(struct symbols_wire *wire, const struct symbols_trace *trace,
				 size_t from)
{
	for (size_t i = from; i < trace->tries.count; i++)
		TRY(send_try(wire, &trace->tries.items[i]));
	if (trace->is_cut)
		put_head(wire, SYMBOLS_WIRE_CUT, 0);
	return symbols_wire_flush(wire);
}

static struct error *send_frame_strings(struct symbols_wire *wire,
					const struct symbols_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t number;

		TRY(send_string(wire, frames[i].function, &number));
		TRY(send_string(wire, frames[i].file, &number));
	}
	return NULL;
}

struct error *symbols_wire_frames(struct symbols_wire *wire, uint32_t place,
				  const struct symbols_frame *frames, size_t count)
{
	TRY(send_frame_strings(wire, frames, count));
	put_head(wire, SYMBOLS_WIRE_FRAMES, sizeof(place) + count * SYMBOLS_WIRE_FRAME);
	put_u32(wire, place);
	for (size_t i = 0; i < count; i++) {
		uint32_t function, file;

		TRY(send_string(wire, frames[i].function, &function));
		TRY(send_string(wire, frames[i].file, &file));
		put_u32(wire, function);
		put_u32(wire, file);
		put_u32(wire, frames[i].line);
		put_u32(wire, frames[i].column);
		strbuf_append_char(&wire->buffer, frames[i].inlined ? 1 : 0);
	}
	return wire->buffer.length >= FLUSH_BYTES ? symbols_wire_flush(wire) : NULL;
}

struct error *symbols_wire_wanted(struct symbols_wire *wire, const struct symbols_build_id *id)
{
	put_head(wire, SYMBOLS_WIRE_WANTED, id->count);
	strbuf_append_bytes(&wire->buffer, id->bytes, id->count);
	return symbols_wire_flush(wire);
}

struct error *symbols_wire_end(struct symbols_wire *wire)
{
	put_head(wire, SYMBOLS_WIRE_END, 0);
	return symbols_wire_flush(wire);
}
