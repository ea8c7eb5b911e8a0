/*
 * A small profile with a row in every table, for tests of the store and of its readers.
 * Everything asserts. Owner: the test, which removes the file.
 */
#ifndef MALLOGRAPH_TESTS_STORE_PROFILE_H
#define MALLOGRAPH_TESTS_STORE_PROFILE_H

#include "store/store.h"

/* Writes it to a path that is not there. */
void profile_write(const char *path);
/* Its rows, without ending it. */
void profile_put(struct store_writer *writer);

/* A directory of the test's own, and a name in it (from a few static buffers). */
const char *profile_directory(void);
const char *profile_path(const char *name);
void profile_remove(void);

/* Asserts that error is of code and says words; frees it. */
void profile_expect(struct error *error, enum error_code code, const char *words);

#endif
