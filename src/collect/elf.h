/*
 * What the launcher must know of an ELF file before it starts it, read with bounds:
 * the file may be damaged, hostile, or change meanwhile. No elfutils here, so that
 * launching stays quick and the recording side builds without it.
 *
 * Owns nothing; fd is the caller's and its position is not used. Facts: the System V
 * ABI (gabi) and its x86-64 supplement.
 */
#ifndef MALLOGRAPH_COLLECT_ELF_H
#define MALLOGRAPH_COLLECT_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum collect_elf_link {
	COLLECT_ELF_DYNAMIC,
	COLLECT_ELF_STATIC,
	COLLECT_ELF_STATIC_PIE,
	COLLECT_ELF_LOADER, /* the dynamic loader itself, which can be run as a program */
};

struct collect_elf {
	bool is_elf; /* false: nothing else is set */
	bool is_64;
	bool little_endian;
	bool is_appimage; /* of either type: a file system that its first program mounts */
	uint16_t machine; /* EM_… */
	enum collect_elf_link link;
	char loader[256];      /* PT_INTERP; "" where there is none */
	bool must_be_first;    /* needs a sanitizer's runtime that no agent may come before */
	const char *sanitizer; /* a function of the one linked into it; NULL = none */
};

/* Whether a library's base name is that of a sanitizer's runtime, which ends a program in
 * which it does not come first, or reports another stack (LeakSanitizer). */
bool collect_elf_is_first_or_nothing(const char *name);

/* ERROR_DAMAGED where the headers contradict the file. Everything after machine is set
 * for 64-bit little-endian files alone. */
struct error *collect_elf_read(int fd, const char *path, struct collect_elf *ret) ERROR_MUST_CHECK;

/* The function by which a module allocates from an allocator linked into it that no preload
 * sees: under a name of its own, or malloc where the loader cannot see it. Static; NULL = none
 * that is known. */
const char *collect_elf_allocator(int fd);

/* Calls visit with each name in the dynamic section, tag DT_NEEDED, DT_RPATH, DT_RUNPATH or
 * DT_SONAME, until it answers false; of a 64-bit little-endian file. Nothing where there is
 * none to be trusted. */
void collect_elf_dynamic(int fd, bool (*visit)(void *context, int64_t tag, const char *name),
			 void *context);

#endif
