/*
 * What is left in the session directories of tools that were killed, beside what recover saves:
 * files that were being made, and SQLite's of a profile that is gone.
 *
 * Owns nothing; removes nothing of a process that lives. Errors: what cannot be removed stays.
 */
#ifndef MALLOGRAPH_COLLECT_SWEEP_H
#define MALLOGRAPH_COLLECT_SWEEP_H

void collect_sweep(void);

#endif
