/*
 * Which file the program is: what /proc/self/exe says, except where ld.so was started by hand with the
 * program as an argument; then it is the file that the program's own segments are of.
 *
 * Threads: one at a time, while a process starts. A child of fork is told what its parent
 * was. Facts: proc(5), getauxval(3): the kernel gives AT_BASE 0 where it loaded no interpreter.
 */
#ifndef MALLOGRAPH_AGENT_PROGRAM_PATH_H
#define MALLOGRAPH_AGENT_PROGRAM_PATH_H

#include <stddef.h>

/* Bytes of it in to, without a NUL; 0 or less = it is not known. */
long program_path(char *to, size_t bytes);

#endif
