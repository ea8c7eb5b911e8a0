/*
 * Session files whose collector died: their recording is whole up to where their processes
 * got, and is saved as the collector would have.
 */
#ifndef MALLOGRAPH_COLLECT_RECOVER_H
#define MALLOGRAPH_COLLECT_RECOVER_H

#include <stddef.h>

#include "base/error.h"
#include "collect/finish.h"
#include "collect/sessions.h"

enum collect_recovery {
	COLLECT_RECOVERY_SAVED,     /* and the session file removed */
	COLLECT_RECOVERY_EMPTY,     /* nothing had been recorded: removed */
	COLLECT_RECOVERY_WATCHED,   /* its collector lives */
	COLLECT_RECOVERY_RECORDING, /* nobody watches, but its processes live */
};

/* output as in struct collect_run_options; options are those of a profile. ret_path is where it was saved, malloc'd, or NULL. */
struct error *collect_recover(const struct collect_found *found, const char *output,
			      const struct collect_finish_options *options,
			      enum collect_recovery *ret, char **ret_path) ERROR_MUST_CHECK;

#endif
