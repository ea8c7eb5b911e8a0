/*
 * The files of the modules of processes that run, held open: a program that is replaced by
 * its own upgrade, or removes itself, still has its symbols when it ends.
 *
 * Owner: collect_files_free(); paths it gives are malloc'd. No more than a quarter of the
 * descriptors this process may have, and at most COLLECT_FILES. What cannot be opened is
 * left out. Which of several builds a file is shows when it is read: by build-id.
 */
#ifndef MALLOGRAPH_COLLECT_FILES_H
#define MALLOGRAPH_COLLECT_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "ledger/reader.h"

#define COLLECT_FILES 1024u

struct collect_files;

struct error *collect_files_create(struct collect_files **ret) ERROR_MUST_CHECK;
void collect_files_free(struct collect_files *files);

/* A program about to be started. */
struct error *collect_files_add(struct collect_files *files, const char *path) ERROR_MUST_CHECK;
/* Those of a process's modules, from the index-th on. */
struct error *collect_files_see(struct collect_files *files, const struct ledger_process *process,
				size_t from) ERROR_MUST_CHECK;

/* Where the module's file can be read if that is not its path any more; NULL = its path is
 * as good, or it is not held. files may be NULL. */
struct error *collect_files_find(const struct collect_files *files,
				 const struct ledger_module *module, char **ret) ERROR_MUST_CHECK;
/* The code that this kernel maps into every process, as a file: *fd −1 = not made yet, then
 * the caller's, which must stay open. *ret NULL = there is none. */
struct error *collect_vdso_path(int *fd, char **ret) ERROR_MUST_CHECK;

#endif
