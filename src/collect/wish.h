/*
 * Where a run was to save its recording, kept with the session file for recover: an extended
 * attribute, which tmpfs has since Linux 6.6. Where there are none, recover goes by its defaults.
 *
 * Owner: strings returned are the caller's. Errors: what cannot be kept or read is not wished.
 */
#ifndef MALLOGRAPH_COLLECT_WISH_H
#define MALLOGRAPH_COLLECT_WISH_H

#include "collect/output.h"

/* fd: the session file's. Of an output that has a name the user gave. */
void collect_wish_keep(int fd, const struct collect_output *output);
/* A pattern for collect_output_prepare(); NULL = none is known. */
char *collect_wish_read(int fd);

#endif
