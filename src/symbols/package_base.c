#include "symbols/package_base.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"

void symbols_package_copies_free(struct package_copies *copies)
{
	free(copies->info);
	free(copies->abbrev);
}

static uint64_t uleb(struct cursor *at)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(at);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !at->failed);
	return value;
}

/* The string's form, and that of an address of the same size. */
static const struct {
	unsigned from, to;
	uint8_t bytes; /* of the value; 0 = a LEB128 */
} forms[] = {
	{DW_FORM_strx, DW_FORM_addrx, 0},   {DW_FORM_GNU_str_index, DW_FORM_GNU_addr_index, 0},
	{DW_FORM_strx1, DW_FORM_addrx1, 1}, {DW_FORM_strx2, DW_FORM_addrx2, 2},
	{DW_FORM_strx3, DW_FORM_addrx3, 3}, {DW_FORM_strx4, DW_FORM_addrx4, 4},
};

struct place {
	size_t attribute; /* in the abbreviations: its name's byte */
	size_t form;      /* the byte in which the forms differ */
	uint8_t form_byte;
	size_t value; /* in the unit */
	size_t value_bytes;
	bool is_leb;
};

/* Where the unit's DIE and its abbreviation begin; false = of an unknown kind. */
static bool find_die(const struct package_bytes *info, struct cursor *unit, struct cursor *abbrev)
{
	*unit = cursor_over(info->at, info->count);
	uint32_t length = cursor_u32(unit);
	uint16_t version = cursor_u16(unit);

	if (length >= 0xfffffff0 || version < 4 || version > 5)
		return false;
	if (version == 5)
		cursor_skip(unit, 2);
	cursor_seek(abbrev, cursor_u32(unit));
	cursor_skip(unit, version == 5 ? 8 : 1);

	uint64_t code = uleb(unit);

	/* That of the unit is the first in practice, and else it is not looked for. */
	return !unit->failed && uleb(abbrev) == code && !abbrev->failed;
}

static bool find_place(const struct package_bytes *info, const struct package_bytes *abbrev,
		       struct place *ret)
{
	struct cursor unit, names = cursor_over(abbrev->at, abbrev->count);

	if (!find_die(info, &unit, &names))
		return false;
	uleb(&names); /* tag */
	cursor_skip(&names, 1);
	ret->attribute = names.at;
	if (uleb(&names) != DW_AT_producer)
		return false;
	ret->form = names.at;

	uint64_t form = uleb(&names);

	ret->value = unit.at;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (forms[i].from != form || names.failed)
			continue;
		ret->is_leb = forms[i].bytes == 0;
		if (ret->is_leb)
			uleb(&unit);
		else
			cursor_skip(&unit, forms[i].bytes);
		ret->value_bytes = unit.at - ret->value;
		/* Of longer forms the lowest bits come first. */
		ret->form_byte = (uint8_t)((forms[i].to & 0x7f) | (form >= 0x80 ? 0x80 : 0));
		return !unit.failed && ret->value_bytes > 0 && ret->value_bytes <= 4;
	}
	return false;
}

/* The number of the address; false = the unit has no such, or one too large for its place. */
static bool find_number(const struct package_extra *extra, const struct place *place, uint64_t *ret)
{
	unsigned bits = (unsigned)place->value_bytes * (place->is_leb ? 7 : 8);

	for (*ret = 0; *ret < UINT64_C(1) << bits && (*ret + 1) * 8 <= extra->addresses.count;
	     ++*ret) {
		uint64_t address;

		memcpy(&address, extra->addresses.at + *ret * 8, sizeof(address));
		if (address == extra->low_pc)
			return true;
	}
	return false;
}

static void put_number(uint8_t *to, const struct place *place, uint64_t number)
{
	for (size_t i = 0; i < place->value_bytes; i++) {
		bool more = place->is_leb && i + 1 < place->value_bytes;

		to[i] = (uint8_t)(place->is_leb ? (number & 0x7f) | (more ? 0x80 : 0)
						: number & 0xff);
		number >>= place->is_leb ? 7 : 8;
	}
}

static uint8_t *copy_of(const struct package_bytes *bytes)
{
	uint8_t *copy = malloc(bytes->count);

	if (copy)
		memcpy(copy, bytes->at, bytes->count);
	return copy;
}

void symbols_package_give_base(struct package_bytes *info, struct package_bytes *abbrev,
			       const struct package_extra *extra, struct package_copies *copies)
{
	struct place place = {0};
	uint64_t number;

	if (!info->at || !abbrev->at || extra->low_pc == 0 || !find_place(info, abbrev, &place) ||
	    !find_number(extra, &place, &number))
		return;
	copies->info = copy_of(info);
	copies->abbrev = copy_of(abbrev);
	if (!copies->info || !copies->abbrev)
		return;
	copies->abbrev[place.attribute] = DW_AT_low_pc;
	copies->abbrev[place.form] = place.form_byte;
	put_number(copies->info + place.value, &place, number);
	info->at = copies->info;
	abbrev->at = copies->abbrev;
}
