/*
 * What a reader may take for one module, so that a small file cannot make it take all there
 * is: memory, 512 MiB and 16 times the size of each file it opens, half of the machine's at
 * most. Past that an allocation fails, and with it the reader.
 *
 * State of the process; without symbols_limits_begin() nothing is limited.
 */
#ifndef MALLOGRAPH_SYMBOLS_LIMITS_H
#define MALLOGRAPH_SYMBOLS_LIMITS_H

#include <stdint.h>

/* For what is read from now on. */
void symbols_limits_begin(void);
/* A file of so many bytes is opened. */
void symbols_limits_add_file(uint64_t bytes);

#endif
