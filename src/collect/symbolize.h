/*
 * Names and lines for a profile that has none yet, or whose debug files came later: modules
 * that are not fully known are looked up anew; what is no better than what stands there is
 * left. Then sites are titled anew, and the whole written as profiles are. All else is copied.
 *
 * Owner: whoever opened it ends it with collect_symbolizing_close(). Errors: the profile's, no
 * memory, no child process, a file that cannot be written.
 */
#ifndef MALLOGRAPH_COLLECT_SYMBOLIZE_H
#define MALLOGRAPH_COLLECT_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct collect_output;
struct collect_symbolizing;
struct symbols_options;

struct collect_symbolized_module {
	const char *path;
	const char *build_id; /* in hexadecimal; "" = none */
	bool is_file;         /* else the kernel's own code */
	bool has_lines;
	bool is_better; /* than it stands in the profile */
};

/* Looks everything up. */
struct error *collect_symbolizing_open(const char *path, const struct symbols_options *options,
				       struct collect_symbolizing **ret) ERROR_MUST_CHECK;
void collect_symbolizing_close(struct collect_symbolizing *symbolizing);

/* Those that stacks go through: i from 0; false = that was the last. */
bool collect_symbolizing_module(const struct collect_symbolizing *symbolizing, size_t i,
				struct collect_symbolized_module *ret);

/* What output names is written whole, or not at all. */
struct error *collect_symbolizing_write(struct collect_symbolizing *symbolizing,
					struct collect_output *output) ERROR_MUST_CHECK;

#endif
