/*
 * Finding and reading frame descriptions: .eh_frame_hdr's table, FDE and CIE.
 */
#include "agent/cfi.h"

#include <string.h>

/* Where there is no table to search: descriptions looked at before giving up. */
#define SCAN_LIMIT 65536u

/* Format and application of an encoded pointer (LSB, DW_EH_PE_*). */
enum {
	PE_ABSOLUTE = 0x00,
	PE_ULEB = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_ALIGNED = 0x50,
};

uint64_t cfi_fixed(struct cfi_cursor *c, unsigned bytes)
{
	uint64_t v = 0;

	if (c->bad || (size_t)(c->end - c->at) < bytes) {
		c->bad = true;
		return 0;
	}
	memcpy(&v, c->at, bytes);
	c->at += bytes;
	return v;
}

/* Bits of a LEB128 beyond 64 are dropped; *shift is where its sign bit would stand. */
static uint64_t leb(struct cfi_cursor *c, unsigned *shift, bool *negative)
{
	uint64_t v = 0;
	uint8_t byte;

	*shift = 0;
	do {
		byte = (uint8_t)cfi_fixed(c, 1);
		if (*shift < 64)
			v |= (uint64_t)(byte & 0x7f) << *shift;
		*shift += 7;
	} while (byte & 0x80);
	*negative = byte & 0x40;
	return v;
}

uint64_t cfi_uleb(struct cfi_cursor *c)
{
	unsigned shift;
	bool negative;

	return leb(c, &shift, &negative);
}

int64_t cfi_sleb(struct cfi_cursor *c)
{
	unsigned shift;
	bool negative;
	uint64_t v = leb(c, &shift, &negative);

	if (negative && shift < 64)
		v |= ~UINT64_C(0) << shift;
	return (int64_t)v;
}

bool cfi_pointer(struct cfi_cursor *c, uint8_t encoding, uint64_t data, uint64_t *ret)
{
	uint64_t here = (uint64_t)(uintptr_t)c->at;
	uint64_t base = 0;
	uint64_t v;

	if (encoding == CFI_PE_OMIT)
		return false;
	switch (encoding & 0x70) {
	case 0:
		break;
	case PE_PCREL:
		base = here;
		break;
	case PE_DATAREL:
		base = data;
		break;
	case PE_ALIGNED:
		cfi_fixed(c, (unsigned)(-here & 7));
		break;
	default: /* textrel, funcrel: nobody uses them on x86-64 */
		return false;
	}
	switch (encoding & 0x0f) {
	case PE_ABSOLUTE:
	case PE_UDATA8:
	case PE_SDATA8:
		v = cfi_fixed(c, 8);
		break;
	case PE_ULEB:
		v = cfi_uleb(c);
		break;
	case PE_UDATA2:
		v = cfi_fixed(c, 2);
		break;
	case PE_UDATA4:
		v = cfi_fixed(c, 4);
		break;
	case PE_SLEB:
		v = (uint64_t)cfi_sleb(c);
		break;
	case PE_SDATA2:
		v = (uint64_t)(int64_t)(int16_t)cfi_fixed(c, 2);
		break;
	case PE_SDATA4:
		v = (uint64_t)(int64_t)(int32_t)cfi_fixed(c, 4);
		break;
	default:
		return false;
	}
	*ret = base + v;
	return !c->bad;
}

/* An address of code: where it is indirect, the pointer must lie in the section. */
static bool code_pointer(const struct cfi_section *s, struct cfi_cursor *c, uint8_t encoding,
			 uint64_t *ret)
{
	uint64_t low = (uint64_t)(uintptr_t)s->low;
	uint64_t size = (uint64_t)(s->high - s->low);

	if (!cfi_pointer(c, encoding, (uint64_t)(uintptr_t)s->header, ret))
		return false;
	if (!(encoding & CFI_PE_INDIRECT))
		return true;
	if (size < 8 || *ret - low > size - 8)
		return false;
	memcpy(ret, s->low + (*ret - low), 8);
	return true;
}

/* --- entries of .eh_frame ------------------------------------------------------------ */

struct entry {
	struct cfi_cursor body; /* after the id field */
	const uint8_t *id_at;   /* where the id field stands: CIE pointers count from here */
	uint32_t id;            /* 0 = a CIE */
	const uint8_t *next;
};

/* The entry at `at`; false at the terminator, too. */
static bool entry_read(const struct cfi_section *s, const uint8_t *at, struct entry *ret)
{
	if (at < s->low || at >= s->high)
		return false;
	struct cfi_cursor c = {at, s->high, false};
	uint64_t length = cfi_fixed(&c, 4);

	if (length == 0xffffffffu)
		length = cfi_fixed(&c, 8);
	if (c.bad || length < 4 || length > (uint64_t)(c.end - c.at))
		return false;
	c.end = c.at + length;
	ret->next = c.end;
	ret->id_at = c.at;
	ret->id = (uint32_t)cfi_fixed(&c, 4);
	ret->body = c;
	return true;
}

/* What follows 'z': the letters say what the augmentation data hold. */
static bool augmentation_read(const struct cfi_section *s, const char *letters,
			      struct cfi_cursor *data, struct cfi_fde *fde)
{
	uint64_t ignored;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			fde->encoding = (uint8_t)cfi_fixed(data, 1);
			break;
		case 'S':
			fde->signal = true;
			break;
		case 'L':
			cfi_fixed(data, 1);
			break;
		case 'P': {
			uint8_t encoding = (uint8_t)cfi_fixed(data, 1);

			if (encoding != CFI_PE_OMIT &&
			    !cfi_pointer(data, encoding, (uint64_t)(uintptr_t)s->header, &ignored))
				return false;
			break;
		}
		default: /* the data's length lets us go on without knowing it */
			return !data->bad;
		}
	}
	return !data->bad;
}

static bool cie_read(const struct cfi_section *s, const uint8_t *at, struct cfi_fde *fde)
{
	struct entry e;

	if (!entry_read(s, at, &e) || e.id != 0)
		return false;
	struct cfi_cursor *c = &e.body;
	uint8_t version = (uint8_t)cfi_fixed(c, 1);
	const char *letters = (const char *)c->at;
	const uint8_t *nul = memchr(c->at, 0, (size_t)(c->end - c->at));

	if (c->bad || !nul || (version != 1 && version != 3 && version != 4))
		return false;
	c->at = nul + 1;
	if (letters[0] == 'e' && letters[1] == 'h')
		cfi_fixed(c, 8); /* GCC 2's exception table */
	/* Size of an address, then of a segment selector. */
	if (version == 4 && cfi_fixed(c, 2) != 0x0008)
		return false;
	fde->code_align = cfi_uleb(c);
	fde->data_align = cfi_sleb(c);
	uint64_t ra = version == 1 ? cfi_fixed(c, 1) : cfi_uleb(c);

	fde->encoding = PE_ABSOLUTE;
	fde->signal = false;
	if (letters[0] == 'z') {
		uint64_t bytes = cfi_uleb(c);

		if (c->bad || bytes > (uint64_t)(c->end - c->at))
			return false;
		struct cfi_cursor data = {c->at, c->at + bytes, false};

		if (!augmentation_read(s, letters + 1, &data, fde))
			return false;
		c->at += bytes;
	} else if (letters[0] != '\0' && letters[0] != 'e') {
		return false;
	}
	fde->initial = c->at;
	fde->initial_end = c->end;
	return !c->bad && ra == CFI_RIP;
}

static bool has_augmentation_data(const struct cfi_section *s, const uint8_t *cie)
{
	struct entry e;

	return entry_read(s, cie, &e) && e.body.end - e.body.at > 1 && e.body.at[1] == 'z';
}

/* The FDE at `at`, with its CIE. */
static bool fde_read(const struct cfi_section *s, const uint8_t *at, struct cfi_fde *fde)
{
	struct entry e;

	if (!entry_read(s, at, &e) || e.id == 0 || e.id > (uint64_t)(e.id_at - s->low))
		return false;
	const uint8_t *cie = e.id_at - e.id;

	if (!cie_read(s, cie, fde))
		return false;
	struct cfi_cursor *c = &e.body;
	uint64_t bytes;

	if (!code_pointer(s, c, fde->encoding, &fde->start) ||
	    !cfi_pointer(c, fde->encoding & 0x0f, 0, &bytes))
		return false;
	fde->stop = fde->start + bytes;
	if (has_augmentation_data(s, cie)) {
		uint64_t skip = cfi_uleb(c);

		if (c->bad || skip > (uint64_t)(c->end - c->at))
			return false;
		c->at += skip;
	}
	fde->program = c->at;
	fde->program_end = c->end;
	return !c->bad && fde->stop >= fde->start;
}

/* --- .eh_frame_hdr ---------------------------------------------------------------------- */

struct header {
	uint64_t frames;
	uint8_t table_encoding;
	uint64_t count;
	const uint8_t *table;
};

static bool header_read(const struct cfi_section *s, struct header *ret)
{
	struct cfi_cursor c = {s->header, s->header_end, false};
	uint64_t data = (uint64_t)(uintptr_t)s->header;

	if (!s->header || cfi_fixed(&c, 1) != 1)
		return false;
	uint8_t frames_encoding = (uint8_t)cfi_fixed(&c, 1);
	uint8_t count_encoding = (uint8_t)cfi_fixed(&c, 1);

	ret->table_encoding = (uint8_t)cfi_fixed(&c, 1);
	if ((frames_encoding & CFI_PE_INDIRECT) ||
	    !cfi_pointer(&c, frames_encoding, data, &ret->frames))
		return false;
	if (!cfi_pointer(&c, count_encoding, data, &ret->count))
		ret->count = 0;
	ret->table = c.at;
	return true;
}

bool cfi_header_frames(const struct cfi_section *section, uint64_t *ret)
{
	struct header h;

	if (!header_read(section, &h))
		return false;
	*ret = h.frames;
	return true;
}

/* Last entry of the sorted table that starts at or below the address: where its FDE is. */
static bool table_search(const struct cfi_section *s, const struct header *h, uint64_t address,
			 uint64_t *ret)
{
	uint64_t data = (uint64_t)(uintptr_t)s->header;
	uint64_t low = 0, high = (uint64_t)(s->header_end - h->table) / 8;
	int32_t pair[2];

	if (high > h->count)
		high = h->count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		memcpy(pair, h->table + middle * 8, sizeof(pair));
		if (data + (uint64_t)(int64_t)pair[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	memcpy(pair, h->table + (low - 1) * 8, sizeof(pair));
	*ret = data + (uint64_t)(int64_t)pair[1];
	return true;
}

static bool scan(const struct cfi_section *s, uint64_t address, struct cfi_fde *fde)
{
	const uint8_t *at = s->frames;
	struct entry e;

	for (uint32_t n = 0; n < SCAN_LIMIT && entry_read(s, at, &e); n++, at = e.next) {
		if (e.id != 0 && fde_read(s, at, fde) &&
		    address - fde->start < fde->stop - fde->start)
			return true;
	}
	return false;
}

bool cfi_find(const struct cfi_section *section, uint64_t address, struct cfi_scratch *s)
{
	struct cfi_fde *fde = &s->fde;
	struct header h;
	uint64_t at;

	if (!section->frames)
		return false;
	if (!header_read(section, &h) || h.count == 0 ||
	    h.table_encoding != (PE_DATAREL | PE_SDATA4))
		return scan(section, address, fde);
	if (!table_search(section, &h, address, &at))
		return false;
	uint64_t low = (uint64_t)(uintptr_t)section->low;

	if (at - low >= (uint64_t)(section->high - section->low))
		return false;
	return fde_read(section, section->low + (at - low), fde) &&
	       address - fde->start < fde->stop - fde->start;
}
