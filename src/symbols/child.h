/*
 * What all processes do that are forked to deal with what is not trusted: no descriptor but a
 * pipe, which becomes 3, the default signal handlers, not the keyboard's signals, no core
 * file, first to go where memory is short, and gone with their parent.
 */
#ifndef MALLOGRAPH_SYMBOLS_CHILD_H
#define MALLOGRAPH_SYMBOLS_CHILD_H

#include <sys/types.h>

#include "base/error.h"

/* Forks. In the child *ret_pid is 0 and fd its end of the pipe; in the parent fd is the other
 * end. what: "cannot start a process to …". */
struct error *symbols_child_start(const char *what, pid_t *ret_pid, int *ret_fd) ERROR_MUST_CHECK;
/* Then this, in the child. */
void symbols_child_enter(int fd);

#endif
