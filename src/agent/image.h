/*
 * The dynamic symbols of a loaded ELF module, read from memory as the loader left them.
 *
 * Ownership: an image borrows the module's own tables; it is good while the module is
 * loaded. Threads: pure reads. Errors: false or NULL; a table that does not fit inside
 * the module's mapping makes the image unreadable, and every walk is bounded.
 * Async-signal-safe; takes no lock (dlsym would, and may call calloc).
 *
 * Sources: System V gABI (hash table, symbol table); GNU hash and symbol versioning as
 * in glibc's elf/dl-lookup.c.
 */
#ifndef MALLOGRAPH_AGENT_IMAGE_H
#define MALLOGRAPH_AGENT_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	const struct link_map *map;
	uintptr_t bias;
	uintptr_t start; /* of the mapping; 0 and UINTPTR_MAX where it is not known */
	uintptr_t stop;
	const Elf64_Sym *symbols;
	const char *strings;
	size_t string_bytes;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const uint16_t *versions;
	size_t soname; /* offset in strings, 0 = none */
};

struct image_symbol {
	uintptr_t address;
	size_t bytes;
	unsigned char type; /* STT_… */
};

/* A name and its two hashes. */
struct image_name {
	const char *name;
	uint32_t gnu;
	uint32_t sysv;
};

bool image_open(struct image *ret, const struct link_map *map);
struct image_name image_name(const char *name);
/* A definition the module offers others: its default version, else any. */
bool image_symbol(const struct image *image, const struct image_name *name,
		  struct image_symbol *ret);
/* What a call of the symbol reaches: an indirect function is resolved. NULL where its
 * resolver gives nothing. The module must have been relocated. */
void *image_function(const struct image *image, const struct image_symbol *symbol);
/* Whether the module asks others for a symbol of this name; of one with a GNU hash table. */
bool image_imports(const struct image *image, const char *name);
/* DT_SONAME, "" without one. */
const char *image_soname(const struct image *image);
/* The string at an offset of the module's string table, "" where it is none. */
const char *image_string(const struct image *image, size_t offset);

/* glibc's struct dl_find_object (2.35), whose headers may be older here. */
struct image_found {
	unsigned long long flags;
	void *start, *stop; /* of one segment where there are gaps between them */
	const struct link_map *map;
	void *frame_header;
	unsigned long long reserved[7];
};

/* What the loader's lock-free index says of an address. false: nothing, or there is no
 * such index (image_find_is_exact() tells). */
bool image_find(uintptr_t pc, struct image_found *ret);
bool image_find_is_exact(void);

/* What the loader keeps for debuggers; NULL = it cannot be found. */
const struct r_debug *image_debug(void);
/* The first of the loaded modules, the program's own first. */
const struct link_map *image_first(void);
/* The module whose mapping holds pc; NULL = none, or a C library before 2.35. */
const struct link_map *image_of(uintptr_t pc);
/* The agent's own module. */
bool image_is_agent(const struct link_map *map);

/* More modules than a process has; ends a walk of a list that was torn. */
#define IMAGE_MAX_MODULES 32768u

#endif
