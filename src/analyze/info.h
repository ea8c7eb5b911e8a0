/*
 * What a profile says of itself.
 *
 * Owner: the caller, by analyze_info_free(). Errors: the profile's; no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_INFO_H
#define MALLOGRAPH_ANALYZE_INFO_H

#include "analyze/model.h"

struct analyze_info {
	char *tool; /* NULL = it does not say */
	char *host;
	uint64_t snaps;
	uint64_t blocks; /* listed one by one */
};

struct error *analyze_info_load(struct analyze_model *model,
				struct analyze_info *ret) ERROR_MUST_CHECK;
void analyze_info_free(struct analyze_info *info);

#endif
