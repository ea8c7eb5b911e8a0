/*
 * Which processes are recorded: --no-follow, --only and --not, as they stand in the session's
 * head (mgl_control's page, see MGL_CHOICE_OFFSET).
 *
 * Ownership: static data, inherited over fork. Threads: read once, while a process starts;
 * then only asked. What the page holds may change at any time: a pattern that does is another
 * pattern, and no more. Async-signal-safe; no allocation.
 */
#ifndef MALLOGRAPH_AGENT_CHOICE_H
#define MALLOGRAPH_AGENT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "ledger/layout.h"

/* As MALLOGRAPH_CHOICE has it for a session that a program makes itself. */
void choice_write(char page[MGL_CHOICE_BYTES], const char *text);

/* From the head of the session that was joined. */
void choice_read(const struct mgl_session *head);
/* Whether there are patterns, so that a program's names matter. */
bool choice_asks(void);
/* Whether a program is to be recorded. Two names: of its file, and by which it was executed;
 * either may be empty. */
bool choice_admits(const char *file, const char *called);
/* Whether processes that this one starts are recorded. */
bool choice_follows(void);
/* One process was left out so, or after all not. */
void choice_left_out(int count);

/* A shell's pattern, in which * takes a slash too. */
bool choice_matches(const char *pattern, size_t pattern_bytes, const char *text);

#endif
