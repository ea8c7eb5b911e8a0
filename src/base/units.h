/*
 * Numbers for people: sizes, counts and times, printed and parsed.
 *
 * Sizes print as B, KiB, MiB …; below 10 KiB and from 1 MiB on with one decimal, rounded
 * to the nearest ("392 B", "1.5 KiB", "98 KiB", "161.1 MiB"). K, M, G, T (and KiB …)
 * parse as powers of 1024, kB, MB, GB, TB as powers of 1000.
 * The printers write into the caller's buffer and return it.
 */
#ifndef MALLOGRAPH_BASE_UNITS_H
#define MALLOGRAPH_BASE_UNITS_H

#include <stdint.h>

#include "base/error.h"

#define UNITS_BYTES 32

char *units_format_size(char buffer[UNITS_BYTES], uint64_t bytes);
/* Digits in groups of three: "1,722,745". */
char *units_format_count(char buffer[UNITS_BYTES], uint64_t count);
/* From a million on in three digits: "1.70 M", "12.3 G"; below as units_format_count(). */
char *units_format_short(char buffer[UNITS_BYTES], uint64_t count);
/* "1.5 ms", "48 ms", "0.41 s", "2 min 3 s", "1 h 2 min". */
char *units_format_duration(char buffer[UNITS_BYTES], uint64_t ns);

/* "64M", "1.5G", "4096", "10kB"; no sign, no space, nothing behind. */
struct error *units_parse_size(const char *text, uint64_t *ret) ERROR_MUST_CHECK;
/* "30s", "1.5m", "2h", "500ms"; a bare number is seconds. Result in ns. */
struct error *units_parse_duration(const char *text, uint64_t *ret) ERROR_MUST_CHECK;

#endif
