/*
 * Log lines on stderr, by domain and level, chosen at run time:
 * MALLOGRAPH_LOG="collect:debug,ledger:info" ("debug" alone is for every domain).
 * Without it, errors and warnings are shown.
 *
 * A file names its domain before it includes this header:  #define LOG_DOMAIN "ledger"
 * Threads: a line is one write; configure before there is more than one thread.
 */
#ifndef MALLOGRAPH_BASE_LOG_H
#define MALLOGRAPH_BASE_LOG_H

#include <stdbool.h>

#include "base/error.h"

enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* spec NULL or empty = the default. A level or form it does not know is an error. */
struct error *log_configure(const char *spec) ERROR_MUST_CHECK;
bool log_enabled(const char *domain, enum log_level level);
void log_write(const char *domain, enum log_level level, const char *format, ...)
	ERROR_PRINTF(3, 4);

#define log_at(level, ...)                                           \
	do {                                                         \
		if (log_enabled(LOG_DOMAIN, (level)))                \
			log_write(LOG_DOMAIN, (level), __VA_ARGS__); \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
