/*
 * One ELF file opened with its debug information, and what is known of an address in it.
 * This runs in the reader process: libdw may crash on a damaged file.
 *
 * Owner: symbols_image_close() ends it with all its strings. Errors: no memory; what is
 * wrong with the file is in the verdict, and the image then knows less, or nothing.
 */
#ifndef MALLOGRAPH_SYMBOLS_IMAGE_H
#define MALLOGRAPH_SYMBOLS_IMAGE_H

#include "base/vector.h"
#include "symbols/debugfile.h"
#include "symbols/symbols.h"

struct symbols_image;

typedef VECTOR(struct symbols_frame) symbols_frame_list;

struct symbols_image_request {
	const struct symbols_options *options;
	const symbols_fetch_list *fetches; /* that were made so far */
	const char *path;
	const char *file; /* where it can be read for now; NULL = nowhere but there */
	struct symbols_build_id build_id; /* none = any file will do */
	bool is_present;                  /* the file there is the one meant, build-id or not */
	bool names_only;                  /* leave debug information alone */
};

struct error *symbols_image_open(const struct symbols_image_request *request,
				 struct symbols_image **ret) ERROR_MUST_CHECK;
void symbols_image_close(struct symbols_image *image);

struct symbols_verdict symbols_image_verdict(const struct symbols_image *image);
/* All that was looked at so far. */
const struct symbols_trace *symbols_image_trace(const struct symbols_image *image);
/* What servers could be asked for. */
const symbols_id_list *symbols_image_wanted(const struct symbols_image *image);
/* pc: where the instruction is, not a return address. Appends to frames. */
struct error *symbols_image_frames(struct symbols_image *image, uint64_t pc,
				   symbols_frame_list *frames) ERROR_MUST_CHECK;

#endif
