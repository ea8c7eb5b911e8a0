/*
 * A fuzz input is a sparse file in short: its size in pages (u32), then patches of
 * {offset (u32), count (u16), count bytes}, little-endian, later ones over earlier ones.
 * What does not fit in IMAGE_PAGES is ignored, so that any bytes are an input.
 */
#ifndef MALLOGRAPH_TESTS_IMAGE_H
#define MALLOGRAPH_TESTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_PAGE_BYTES 4096u
#define IMAGE_PAGES      8192u /* 32 MiB */

/* A memfd of it, the caller's to close. Aborts where the machine refuses one. */
int image_make(const uint8_t *data, size_t size);
/* Where the last of what it says ends: all after it is zeros. */
size_t image_end(const uint8_t *data, size_t size);
/* The same into an empty file. */
void image_fill(int fd, const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
