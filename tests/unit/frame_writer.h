/*
 * A writer of .eh_frame and .eh_frame_hdr bytes, for tests of their reader. The bytes end
 * where an unreadable page begins: whoever reads past them faults.
 */
#ifndef FRAME_WRITER_H
#define FRAME_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/cfi.h"

#define FRAME_BYTES ((size_t)16384)

struct frame_writer {
	uint8_t bytes[FRAME_BYTES];
	size_t used;
	size_t entry; /* where the open entry's length stands */
};

static inline void put(struct frame_writer *w, const void *data, size_t bytes)
{
	memcpy(w->bytes + w->used, data, bytes);
	w->used += bytes;
}
static inline void put8(struct frame_writer *w, unsigned v) { put(w, &(uint8_t){(uint8_t)v}, 1); }
static inline void put16(struct frame_writer *w, unsigned v)
{
	put(w, &(uint16_t){(uint16_t)v}, 2);
}
static inline void put32(struct frame_writer *w, uint32_t v) { put(w, &v, 4); }
static inline void put64(struct frame_writer *w, uint64_t v) { put(w, &v, 8); }

static inline void put_uleb(struct frame_writer *w, uint64_t v)
{
	do {
		put8(w, (v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
}

static inline void put_sleb(struct frame_writer *w, int64_t v)
{
	while (v < -64 || v > 63) {
		put8(w, ((unsigned)v & 0x7f) | 0x80);
		v >>= 7;
	}
	put8(w, (unsigned)v & 0x7f);
}

#define PUT(w, ...) put(w, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void entry_begin(struct frame_writer *w)
{
	w->entry = w->used;
	put32(w, 0);
}

static inline void entry_end(struct frame_writer *w)
{
	while (w->used % 8)
		put8(w, 0);
	uint32_t length = (uint32_t)(w->used - w->entry - 4);

	memcpy(w->bytes + w->entry, &length, 4);
}

/* A CIE up to its augmentation data's length, which the caller writes if letters has 'z'. */
static inline size_t cie_begin(struct frame_writer *w, const char *letters)
{
	entry_begin(w);
	put32(w, 0);
	put8(w, 1);
	put(w, letters, strlen(letters) + 1);
	put_uleb(w, 1);
	put_sleb(w, -8);
	put8(w, CFI_RIP);
	return w->entry;
}

/* The usual CIE: absolute addresses, CFA = rsp + 8, return address below it. */
static inline size_t cie_usual(struct frame_writer *w)
{
	size_t at = cie_begin(w, "zR");

	PUT(w, 1, 0x00);                             /* absptr */
	PUT(w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1); /* def_cfa, offset */
	entry_end(w);
	return at;
}

/* An FDE of the usual CIE, up to its program. */
static inline void fde_begin(struct frame_writer *w, size_t cie, uint64_t start, uint64_t bytes)
{
	entry_begin(w);
	put32(w, (uint32_t)(w->used - cie));
	put64(w, start);
	put64(w, bytes);
	put_uleb(w, 0);
}

/* A copy that ends at an unreadable page; never unmapped. */
static inline const uint8_t *guarded(const void *bytes, size_t count)
{
	size_t room = (count + 4095) & ~(size_t)4095;
	uint8_t *at =
		mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(at + room, 4096, PROT_NONE);
	memcpy(at + room - count, bytes, count);
	return at + room - count;
}

static inline struct cfi_section section_of(const uint8_t *frames, size_t bytes)
{
	return (struct cfi_section){.low = frames, .high = frames + bytes, .frames = frames};
}

#endif
