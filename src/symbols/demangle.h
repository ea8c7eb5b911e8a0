/*
 * Names as the compiler mangled them, back to what the source said: C++ (Itanium ABI),
 * Rust (legacy and v0) and D.
 *
 * Owns nothing; results are malloc'd. Threads: any. Errors: no memory alone; a name that
 * is not mangled, or that cannot be demangled within SYMBOLS_DEMANGLED_MAX bytes, gives
 * NULL. Return types are left out, parameters kept. By libiberty.
 */
#ifndef MALLOGRAPH_SYMBOLS_DEMANGLE_H
#define MALLOGRAPH_SYMBOLS_DEMANGLE_H

#include "base/error.h"

#define SYMBOLS_DEMANGLED_MAX ((size_t)1 << 20)
#define SYMBOLS_MANGLED_MAX   ((size_t)128 << 10)

struct error *symbols_demangle(const char *name, char **ret) ERROR_MUST_CHECK;

#endif
