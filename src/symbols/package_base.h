/*
 * What a unit's ranges are relative to stands in the program, at the skeleton; libdw looks for
 * it at the unit itself. This writes it there, over the name of the compiler, which is not
 * needed: as the number of an address the unit has, in copies of what is changed.
 *
 * Owner: symbols_package_copies_free(). Errors: none; where it cannot be done, or memory is
 * short, the bytes are what they were.
 */
#ifndef MALLOGRAPH_SYMBOLS_PACKAGE_BASE_H
#define MALLOGRAPH_SYMBOLS_PACKAGE_BASE_H

#include <stddef.h>
#include <stdint.h>

struct package_bytes {
	const uint8_t *at; /* NULL = there are none */
	size_t count;
};

struct package_extra {
	struct package_bytes addresses;
	struct package_bytes ranges;
	uint64_t low_pc;
};

struct package_copies {
	uint8_t *info;
	uint8_t *abbrev;
};

void symbols_package_copies_free(struct package_copies *copies);
void symbols_package_give_base(struct package_bytes *info, struct package_bytes *abbrev,
			       const struct package_extra *extra, struct package_copies *copies);

#endif
