/*
 * The largest profile there should be: what the time and memory of views are measured on.
 * Fails as the store does.
 */
#ifndef MALLOGRAPH_TESTS_LARGE_PROFILE_H
#define MALLOGRAPH_TESTS_LARGE_PROFILE_H

#include "base/error.h"

#define LARGE_SITES     100000u
#define LARGE_SNAPSHOTS 512u
#define LARGE_BLOCKS    1000000u

/* Writes it to a path that is not there. */
struct error *large_profile_write(const char *path) ERROR_MUST_CHECK;

#endif
