/*
 * Keeping a recording: the profile of what a session file holds or, where the name ends in
 * .mgl, the ledger itself.
 */
#ifndef MALLOGRAPH_COLLECT_KEEP_H
#define MALLOGRAPH_COLLECT_KEEP_H

#include <stdbool.h>

#include "base/error.h"
#include "collect/finish.h"
#include "collect/output.h"

/* What is kept stands under output->path after this, whole. fd is of the session file, name
 * is for messages; options are those of a profile, NULL = all defaults. */
struct error *collect_keep(int fd, const char *name, const struct collect_finish_options *options,
			   struct collect_output *output) ERROR_MUST_CHECK;

/* Whether what is kept there is a ledger. */
bool collect_keep_is_ledger(const struct collect_output *output);

/* A profile that is there for as long as it is being read, in the session directory or
 * else where temporary files are. *ret_path malloc'd; the caller removes the file. */
struct error *collect_keep_temporarily(struct ledger_reader *reader,
				       const struct collect_finish_options *options,
				       char **ret_path) ERROR_MUST_CHECK;

#endif
