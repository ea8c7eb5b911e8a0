/*
 * Loaded objects: from the dynamic linker's records and the mapped ELF headers.
 *
 * glibc's _dl_find_object answers without a lock (2.35). Elsewhere the link maps are
 * walked, also without one: dl_iterate_phdr's lock may be held by a thread that waits for
 * whoever allocates.
 *
 * Sources: glibc's <dlfcn.h> (struct dl_find_object), <link.h>, ELF-64 object file format.
 */
#include "agent/image.h"
#include "agent/module.h"
#include "agent/stackrange.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define PAGE          UINT64_C(4096)
#define HEADERS_LIMIT 64u /* program headers looked at */

struct headers {
	const Elf64_Phdr *at;
	uint32_t count;
};

static uint64_t address_of(const void *p) { return (uint64_t)(uintptr_t)p; }

static bool auxv_headers(struct headers *ret)
{
	ret->at = (const Elf64_Phdr *)getauxval(AT_PHDR);
	ret->count = (uint32_t)getauxval(AT_PHNUM);
	return ret->at && getauxval(AT_PHENT) == sizeof(*ret->at) && ret->count <= HEADERS_LIMIT;
}

/* What rewrites a finished file (BOLT, patchelf) puts more headers than there is room for into a
 * segment of their own, at the address that is their offset. */
static bool is_moved(uint64_t start, uint64_t offset, uint64_t bytes)
{
	const Elf64_Phdr *first = (const Elf64_Phdr *)(uintptr_t)(start + offset);

	return start + offset + bytes > start && stack_probe(start + offset) &&
	       stack_probe(start + offset + bytes - 1) && first->p_type == PT_PHDR &&
	       first->p_offset == offset && first->p_vaddr == offset && first->p_memsz >= bytes;
}

/* Program headers that follow an ELF header on the same page, as linkers place them, or were
 * moved. */
static bool image_headers(uint64_t start, struct headers *ret)
{
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)(uintptr_t)start;
	uint64_t bytes;

	if (start % PAGE || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 ||
	    ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_phentsize != sizeof(*ret->at) ||
	    ehdr->e_phnum == 0 || ehdr->e_phnum > HEADERS_LIMIT || ehdr->e_phoff % 8)
		return false;
	bytes = (uint64_t)ehdr->e_phnum * sizeof(*ret->at);
	if ((ehdr->e_phoff > PAGE || ehdr->e_phoff + bytes > PAGE) &&
	    !is_moved(start, ehdr->e_phoff, bytes))
		return false;
	ret->at = (const Elf64_Phdr *)(uintptr_t)(start + ehdr->e_phoff);
	ret->count = ehdr->e_phnum;
	return true;
}

/* Address range over all segments. */
static bool extent_of(const struct headers *h, uint64_t bias, uint64_t *start, uint64_t *stop)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t i = 0; i < h->count; i++) {
		const Elf64_Phdr *p = &h->at[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_vaddr < low)
			low = p->p_vaddr;
		if (p->p_vaddr + p->p_memsz > high)
			high = p->p_vaddr + p->p_memsz;
	}
	*start = bias + (low & ~(PAGE - 1));
	*stop = bias + high;
	return low < high;
}

/* --- the dynamic linker's records ------------------------------------------------------ */

bool object_is_program(const struct object *o) { return o->map == (uintptr_t)image_first(); }

bool object_is_vdso(const struct object *o) { return o->start == getauxval(AT_SYSINFO_EHDR); }

bool object_is_agent(const struct object *o)
{
	return image_is_agent((const struct link_map *)o->map);
}

static void object_fill(const struct link_map *map, struct object *ret)
{
	ret->map = (uintptr_t)map;
	ret->bias = map->l_addr;
	ret->dynamic = address_of(map->l_ld);
	ret->name = map->l_name ? map->l_name : "";
}

/* A link map of the list, which another thread may be changing: each is looked at only
 * after its page has proven readable. */
static bool object_of_map(const struct link_map *map, struct object *ret)
{
	struct headers h;

	object_fill(map, ret);
	if (object_is_program(ret)) {
		if (!auxv_headers(&h))
			return false;
	} else if (!stack_probe(map->l_addr) || !image_headers(map->l_addr, &h)) {
		return false;
	}
	return extent_of(&h, map->l_addr, &ret->start, &ret->stop);
}

static const struct link_map *map_next(const struct link_map *map)
{
	const struct link_map *next = map->l_next;

	uint64_t first = address_of(next), last = first + sizeof(*next) - 1;

	return next && stack_probe(first) && (last / PAGE == first / PAGE || stack_probe(last))
		       ? next
		       : NULL;
}

bool object_find(uint64_t address, struct object *ret)
{
	struct image_found f;

	if (image_find_is_exact()) {
		if (!image_find(address, &f))
			return false;
		object_fill(f.map, ret);
		ret->start = address_of(f.start);
		ret->stop = address_of(f.stop);
		return true;
	}
	const struct link_map *map = image_first();

	for (uint32_t n = 0; map && n < IMAGE_MAX_MODULES; n++, map = map_next(map)) {
		if (object_of_map(map, ret) && address >= ret->start && address < ret->stop)
			return true;
	}
	return false;
}

bool object_find_is_exact(void) { return image_find_is_exact(); }

bool object_next(uintptr_t *cursor, struct object *ret)
{
	const struct link_map *map = (const struct link_map *)*cursor;

	for (uint32_t n = 0; n < IMAGE_MAX_MODULES; n++) {
		map = map ? map_next(map) : image_first();
		if (!map)
			return false;
		*cursor = (uintptr_t)map;
		/* The dynamic section is in the object, wherever that is. */
		if (image_find_is_exact() ? object_find(address_of(map->l_ld), ret)
					  : object_of_map(map, ret))
			return true;
	}
	return false;
}

static bool object_headers(const struct object *o, struct headers *ret)
{
	if (object_is_program(o))
		return auxv_headers(ret);
	if (image_headers(o->start, ret))
		return true;
	/* With gaps, o->start need not be where the file's first page is mapped. */
	return (uintptr_t)image_of(o->bias) == o->map && image_headers(o->bias, ret);
}

/* --- ELF images ------------------------------------------------------------------------- */

/* Whether [at, at + bytes) lies in the file's part of a readable segment. */
static bool segment_of(const struct headers *h, uint64_t bias, uint64_t at, uint64_t bytes,
		       uint64_t *low, uint64_t *high)
{
	for (uint32_t i = 0; i < h->count; i++) {
		const Elf64_Phdr *p = &h->at[i];
		uint64_t start = bias + p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_R) || at < start ||
		    p->p_filesz < bytes || at - start > p->p_filesz - bytes)
			continue;
		*low = start;
		*high = start + p->p_filesz;
		return true;
	}
	return false;
}

/* align is the segment's: notes in one of 8 are padded to 8. */
static void read_build_id(const uint8_t *at, const uint8_t *end, uint64_t align,
			  struct object_image *ret)
{
	uint64_t pad = align == 8 ? 7 : 3;
	Elf64_Nhdr n;

	while ((size_t)(end - at) >= sizeof(n)) {
		memcpy(&n, at, sizeof(n));
		at += sizeof(n);
		uint64_t name = (sizeof(n) + n.n_namesz + pad) / (pad + 1) * (pad + 1) - sizeof(n);
		uint64_t bytes = ((uint64_t)n.n_descsz + pad) & ~pad;

		if (name > (uint64_t)(end - at) || bytes > (uint64_t)(end - at) - name)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(at, "GNU", 4) == 0 &&
		    n.n_descsz <= sizeof(ret->build_id)) {
			memcpy(ret->build_id, at + name, n.n_descsz);
			ret->build_id_bytes = n.n_descsz;
			return;
		}
		at += name + bytes;
	}
}

static void read_header_segment(const struct headers *h, uint64_t bias, const Elf64_Phdr *p,
				struct object_image *ret)
{
	struct cfi_section *cfi = &ret->cfi;
	uint64_t at = bias + p->p_vaddr, low, high, frames;

	if (!segment_of(h, bias, at, p->p_memsz, &low, &high))
		return;
	cfi->header = (const uint8_t *)(uintptr_t)at;
	cfi->header_end = cfi->header + p->p_memsz;
	if (!cfi_header_frames(cfi, &frames) || !segment_of(h, bias, frames, 4, &low, &high))
		return;
	cfi->frames = (const uint8_t *)(uintptr_t)frames;
	cfi->low = (const uint8_t *)(uintptr_t)low;
	cfi->high = (const uint8_t *)(uintptr_t)high;
}

bool object_image(const struct object *o, struct object_image *ret)
{
	struct headers h;
	uint64_t low, high;

	*ret = (struct object_image){0};
	uint32_t texts = 0;

	if (!object_headers(o, &h) || !extent_of(&h, o->bias, &ret->start, &ret->stop))
		return false;
	for (uint32_t i = 0; i < h.count; i++) {
		const Elf64_Phdr *p = &h.at[i];
		uint64_t at = o->bias + p->p_vaddr;

		/* The largest one: linkers may give .init and .plt a segment of their own. */
		if (p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_X)) == (PF_R | PF_X)) {
			if (texts < MODULE_TEXTS)
				ret->text[texts++] = (struct text_range){at, at + p->p_filesz};
		} else if (p->p_type == PT_NOTE && ret->build_id_bytes == 0 &&
			   segment_of(&h, o->bias, at, p->p_memsz, &low, &high)) {
			read_build_id((const uint8_t *)(uintptr_t)at,
				      (const uint8_t *)(uintptr_t)(at + p->p_memsz), p->p_align,
				      ret);
		} else if (p->p_type == PT_GNU_EH_FRAME) {
			read_header_segment(&h, o->bias, p, ret);
		}
	}
	return true;
}
