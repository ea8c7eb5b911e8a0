/*
 * Which library to preload: beside the program in a build directory, else where
 * `make install` put it.
 */
#ifndef MALLOGRAPH_COLLECT_PRELOAD_H
#define MALLOGRAPH_COLLECT_PRELOAD_H

#include "base/error.h"

/* An absolute path, malloc'd. Refuses one that LD_PRELOAD cannot name. */
struct error *collect_preload_find(char **ret) ERROR_MUST_CHECK;

#endif
