/*
 * What the systems' own files on packages have in common. packages.c knows which system it
 * is and shares these; packages_debian.c and packages_other.c find the packages. Owner and
 * errors: packages.h.
 */
#ifndef MALLOGRAPH_SYMBOLS_PACKAGES_INTERNAL_H
#define MALLOGRAPH_SYMBOLS_PACKAGES_INTERNAL_H

#include "base/strbuf.h"
#include "symbols/packages.h"

struct symbols_packages {
	const char *sysroot; /* "" = here */
	const char *suite;   /* VERSION_CODENAME; "" = not known */
	bool is_ubuntu;
	const struct symbols_missing *missing;
	size_t count;
	struct symbols_advice *advice;
};

/* One file, mapped; bytes NULL = there is none. */
struct symbols_mapped {
	const char *bytes;
	size_t length;
};

struct symbols_mapped symbols_map_file(const char *path);
void symbols_unmap_file(struct symbols_mapped *file);

/* The malloc'd rest of the pattern's paths below the sysroot: glob(7). */
struct error *symbols_packages_glob(const struct symbols_packages *packages, const char *pattern,
				    symbols_texts *ret) ERROR_MUST_CHECK;
void symbols_texts_free(symbols_texts *texts);
/* Once each. */
struct error *symbols_texts_add(symbols_texts *texts, const char *bytes,
				size_t length) ERROR_MUST_CHECK;

/* Names of packages and suites, and nothing a shell would take for something else. */
bool symbols_is_name(const char *bytes, size_t length);

struct error *symbols_advise_command(const struct symbols_packages *packages, const char *command,
				     const symbols_texts *names) ERROR_MUST_CHECK;
struct error *symbols_advise_note(const struct symbols_packages *packages, const char *format,
				  ...) ERROR_MUST_CHECK ERROR_PRINTF(2, 3);
/* Of a module no package has. */
struct error *symbols_advise_own(const struct symbols_packages *packages,
				 const char *path) ERROR_MUST_CHECK;

/* The path of a module without what the kernel appends; malloc'd. */
char *symbols_plain_path(const char *path);

struct error *symbols_advise_debian(const struct symbols_packages *packages) ERROR_MUST_CHECK;
struct error *symbols_advise_fedora(const struct symbols_packages *packages) ERROR_MUST_CHECK;
struct error *symbols_advise_arch(const struct symbols_packages *packages) ERROR_MUST_CHECK;
struct error *symbols_advise_void(const struct symbols_packages *packages) ERROR_MUST_CHECK;

#endif
