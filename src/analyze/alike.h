/*
 * Which processes are so alike that one line can stand for all: of one program, called by one
 * name to do one thing, with peaks within a factor of two, or all small.
 *
 * Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_ALIKE_H
#define MALLOGRAPH_ANALYZE_ALIKE_H

#include "analyze/model.h"
#include "analyze/sections.h"

/* By process its kind, the same of those that are alike. programs: split by program. *ret
 * malloc'd. */
struct error *analyze_alike_make(const struct analyze_model *model,
				 const struct analyze_sections *programs,
				 uint32_t **ret) ERROR_MUST_CHECK;

#endif
