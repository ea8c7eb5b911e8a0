/*
 * An image, for the files that are about it: image_file.c finds and opens the module's own,
 * image_open.c its debug information, image.c asks them. Owner, threads and errors: image.h.
 */
#ifndef MALLOGRAPH_SYMBOLS_IMAGE_INTERNAL_H
#define MALLOGRAPH_SYMBOLS_IMAGE_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "symbols/image.h"
#include "symbols/names.h"
#include "symbols/symtab.h"
#include "symbols/units.h"

struct symbols_image {
	struct symbols_search search;
	char *path; /* where the module's file was found; NULL = nowhere */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL = nothing to read */
	Dwarf_Addr dwarf_bias;
	bool has_symtab;    /* loaded */
	bool has_searched;  /* for a debug file: libdwfl asks again where there is none */
	bool by_debug_file; /* the file itself is gone, its debug file stands for it */
	enum symbols_level level;
	struct strbuf reason;
	struct strbuf build_id; /* in hexadecimal */
	char *debug_file;
	struct symbols_package *package; /* of .dwo files; NULL = none */
	struct symbols_units units;
	struct symbols_symtab symtab;
	struct symbols_names names;
};

/* Adds to the verdict's reason. */
void symbols_image_because(struct symbols_image *image, const char *format, ...) ERROR_PRINTF(2, 3);

/* The module's own file, or what stands for it. */
struct error *symbols_image_open_file(struct symbols_image *image,
				      const struct symbols_image_request *request) ERROR_MUST_CHECK;
/* libdwfl's callback. */
int symbols_image_find_debuginfo(Dwfl_Module *module, void **user, const char *module_name,
				 Dwarf_Addr base, const char *file_name, const char *link,
				 GElf_Word crc, char **ret_path);
struct error *symbols_image_open_dwarf(struct symbols_image *image) ERROR_MUST_CHECK;
struct error *symbols_image_load_symtab(struct symbols_image *image) ERROR_MUST_CHECK;

#endif
