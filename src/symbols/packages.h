/*
 * What has to be installed for the debug files that are missing, in the words of the system's
 * own package manager. Known are Debian and Ubuntu, Fedora and RHEL, Arch, Void, and what
 * says in os-release that it is like one of them.
 *
 * Owner: whoever declares the advice; symbols_advice_free(). Errors: no memory; a system that
 * cannot be read is one of which nothing is known. Facts: os-release(5), dpkg's and APT's files,
 * rpm(8), xbps-pkgdb(1). What is read there is not trusted to be names: what has any other
 * character is left out. No hosts are named: where archives are, APT's own files say.
 */
#ifndef MALLOGRAPH_SYMBOLS_PACKAGES_H
#define MALLOGRAPH_SYMBOLS_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/vector.h"

/* A module without lines. */
struct symbols_missing {
	const char *path;
	const char *build_id; /* in hexadecimal; NULL or "" = none */
};

typedef VECTOR(char *) symbols_texts;

struct symbols_advice {
	symbols_texts commands; /* for a shell, to be run in order */
	symbols_texts notes;    /* sentences */
};

void symbols_advice_free(struct symbols_advice *advice);

/* sysroot NULL or "" = of this system. */
struct error *symbols_advise(const char *sysroot, const struct symbols_missing *missing,
			     size_t count, struct symbols_advice *ret) ERROR_MUST_CHECK;

#endif
