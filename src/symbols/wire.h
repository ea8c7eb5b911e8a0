/*
 * What a reader process tells the symbolizer, over a pipe: records of a length, a kind and
 * a payload. A string goes over once a work and has the number of its turn from then on,
 * from 1; 0 is none. The receiver trusts nothing: the sender has read hostile files.
 *
 * Owner: whoever declares the sender; symbols_wire_free(). Errors: no memory, and the pipe's.
 */
#ifndef MALLOGRAPH_SYMBOLS_WIRE_H
#define MALLOGRAPH_SYMBOLS_WIRE_H

#include "base/map.h"
#include "base/strbuf.h"
#include "symbols/candidate.h"
#include "symbols/trace.h"

enum symbols_wire_kind {
	SYMBOLS_WIRE_WORK = 1, /* u32 place in the round */
	SYMBOLS_WIRE_VERDICT,  /* u8 level, u32 reason, debug file, build-id */
	SYMBOLS_WIRE_STRING,   /* bytes */
	SYMBOLS_WIRE_FRAMES,   /* u32 place of the address, then each frame */
	SYMBOLS_WIRE_TRY,      /* u8 place, outcome, exists, u32 path, detail, u64 device, inode,
				    size, mtime; after the verdict, in order */
	SYMBOLS_WIRE_CUT,      /* there are more tries, or a path that could not be kept */
	SYMBOLS_WIRE_WANTED,   /* bytes of a build-id whose debug file was not found */
	SYMBOLS_WIRE_END,      /* of the work */
};

#define SYMBOLS_WIRE_HEAD       5u                /* u32 payload bytes, u8 kind */
#define SYMBOLS_WIRE_FRAME      17u               /* u32 function, file, line, column, u8 inlined */
#define SYMBOLS_WIRE_STRING_MAX ((size_t)1 << 20) /* longer ones are cut */

struct symbols_wire {
	int fd;
	struct strbuf buffer;
	struct map_u64 strings; /* place in memory → number */
	uint32_t string_count;
};

void symbols_wire_free(struct symbols_wire *wire);

/* Everything up to the flush may wait in the sender. */
struct error *symbols_wire_flush(struct symbols_wire *wire) ERROR_MUST_CHECK;
struct error *symbols_wire_work(struct symbols_wire *wire, uint32_t place) ERROR_MUST_CHECK;
struct error *symbols_wire_verdict(struct symbols_wire *wire,
				   const struct symbols_verdict *verdict) ERROR_MUST_CHECK;
/* Those from a place on. */
struct error *symbols_wire_tries(struct symbols_wire *wire, const struct symbols_trace *trace,
				 size_t from) ERROR_MUST_CHECK;
struct error *symbols_wire_frames(struct symbols_wire *wire, uint32_t place,
				  const struct symbols_frame *frames,
				  size_t count) ERROR_MUST_CHECK;
struct error *symbols_wire_wanted(struct symbols_wire *wire,
				  const struct symbols_build_id *id) ERROR_MUST_CHECK;
struct error *symbols_wire_end(struct symbols_wire *wire) ERROR_MUST_CHECK;

#endif
