#include "agent/image.h"

#include <string.h>
#include <sys/auxv.h>

/* More than any chain of a sane table: only a damaged one is cut. */
#define MAX_CHAIN 65536u

/* The loader's; absent from some C libraries. */
extern struct r_debug _r_debug __attribute__((weak));

/* --- modules ------------------------------------------------------------------------ */

/* The loader's list as the program's own dynamic section names it: a program's copy of
 * _r_debug stays empty in some C libraries. */
static const struct r_debug *debug_of_program(void)
{
	const Elf64_Phdr *ph = (const Elf64_Phdr *)getauxval(AT_PHDR);
	const Elf64_Dyn *d = NULL;
	Elf64_Addr bias = 0;

	for (unsigned long i = 0; ph && i < getauxval(AT_PHNUM); i++) {
		if (ph[i].p_type == PT_PHDR)
			bias = (Elf64_Addr)ph - ph[i].p_vaddr;
		else if (ph[i].p_type == PT_DYNAMIC)
			d = (const Elf64_Dyn *)(bias + ph[i].p_vaddr);
	}
	for (; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_DEBUG)
			return (const struct r_debug *)d->d_un.d_ptr;
	}
	return NULL;
}

const struct r_debug *image_debug(void)
{
	const struct r_debug *debug = &_r_debug;

	return debug && debug->r_map ? debug : debug_of_program();
}

const struct link_map *image_first(void)
{
	const struct r_debug *debug = image_debug();

	return debug ? debug->r_map : NULL;
}

bool image_is_agent(const struct link_map *map) { return map->l_ld == _DYNAMIC; }

static bool inside(const struct image *image, const void *at, size_t bytes)
{
	uintptr_t a = (uintptr_t)at;

	return a >= image->start && a <= image->stop && bytes <= image->stop - a;
}

/* The loader has added the bias to addresses in a dynamic section it could write. */
static const void *table(const struct image *image, Elf64_Addr value, size_t bytes)
{
	const void *at = (const void *)value;

	if (value < image->bias || !inside(image, at, bytes))
		at = (const void *)(image->bias + value);
	return inside(image, at, bytes) ? at : NULL;
}

static bool read_dynamic(struct image *ret)
{
	for (const Elf64_Dyn *d = ret->map->l_ld; inside(ret, d, sizeof(*d)) && d->d_tag != DT_NULL;
	     d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			ret->symbols = table(ret, d->d_un.d_ptr, sizeof(Elf64_Sym));
			break;
		case DT_STRTAB:
			ret->strings = table(ret, d->d_un.d_ptr, 1);
			break;
		case DT_STRSZ:
			ret->string_bytes = d->d_un.d_val;
			break;
		case DT_GNU_HASH:
			ret->gnu_hash = table(ret, d->d_un.d_ptr, 16);
			break;
		case DT_HASH:
			ret->sysv_hash = table(ret, d->d_un.d_ptr, 8);
			break;
		case DT_VERSYM:
			ret->versions = table(ret, d->d_un.d_ptr, 2);
			break;
		case DT_SONAME:
			ret->soname = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	return ret->symbols && ret->strings && inside(ret, ret->strings, ret->string_bytes) &&
	       (ret->gnu_hash || ret->sysv_hash);
}

const char *image_string(const struct image *image, size_t offset)
{
	if (offset >= image->string_bytes ||
	    !memchr(image->strings + offset, 0, image->string_bytes - offset))
		return "";
	return image->strings + offset;
}

const char *image_soname(const struct image *image)
{
	return image->soname ? image_string(image, image->soname) : "";
}

struct image_name image_name(const char *name)
{
	struct image_name ret = {.name = name, .gnu = 5381};

	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		ret.gnu = ret.gnu * 33 + *c;
		ret.sysv = (ret.sysv << 4) + *c;
		ret.sysv = (ret.sysv ^ (ret.sysv >> 24 & 0xf0)) & 0xfffffff;
	}
	return ret;
}

/* How symbol i answers to the name: 2 by its default version, 1 by a hidden one. */
static int matches(const struct image *image, uint32_t i, const struct image_name *name)
{
	const Elf64_Sym *s = image->symbols + i;
	unsigned type;
	uint16_t version = 1;

	if (!inside(image, s, sizeof(*s)))
		return 0;
	type = ELF64_ST_TYPE(s->st_info);
	if (s->st_shndx == SHN_UNDEF || s->st_value == 0 ||
	    ELF64_ST_BIND(s->st_info) == STB_LOCAL ||
	    (type != STT_NOTYPE && type != STT_FUNC && type != STT_GNU_IFUNC))
		return 0;
	if (image->versions) {
		if (!inside(image, image->versions + i, 2))
			return 0;
		version = image->versions[i];
	}
	if ((version & 0x7fff) == 0 || strcmp(image_string(image, s->st_name), name->name) != 0)
		return 0;
	return version & 0x8000 ? 1 : 2;
}

/* Keeps the better of what was found and symbol i; true: no better one can come. */
static bool consider(const struct image *image, uint32_t i, const struct image_name *name,
		     uint32_t *found)
{
	int how = matches(image, i, name);

	if (how == 2 || (how == 1 && *found == 0))
		*found = i;
	return how == 2;
}

static uint32_t find_gnu(const struct image *image, const struct image_name *name)
{
	const uint32_t *head = image->gnu_hash;
	uint32_t buckets = head[0], first = head[1], words = head[2], shift = head[3];
	const Elf64_Addr *bloom = (const Elf64_Addr *)(head + 4);
	const uint32_t bits = sizeof(Elf64_Addr) * 8;
	const uint32_t *bucket, *chain;
	uint32_t i, found = 0;
	Elf64_Addr word;

	if (buckets == 0 || words == 0 ||
	    !inside(image, bloom, words * sizeof(*bloom) + buckets * sizeof(*bucket)))
		return 0;
	word = bloom[name->gnu / bits % words];
	if (!(word >> name->gnu % bits & word >> (name->gnu >> (shift & 31)) % bits & 1))
		return 0;
	bucket = (const uint32_t *)(bloom + words);
	chain = bucket + buckets;
	i = bucket[name->gnu % buckets];
	if (i < first)
		return 0;
	for (uint32_t n = 0; n < MAX_CHAIN; n++, i++) {
		const uint32_t *link = chain + (i - first);

		if (!inside(image, link, sizeof(*link)))
			break;
		if ((*link | 1) == (name->gnu | 1) && consider(image, i, name, &found))
			break;
		if (*link & 1)
			break;
	}
	return found;
}

static uint32_t find_sysv(const struct image *image, const struct image_name *name)
{
	const uint32_t *head = image->sysv_hash;
	uint32_t buckets = head[0], chains = head[1], found = 0;
	const uint32_t *bucket = head + 2, *chain;

	if (buckets == 0 || !inside(image, bucket, ((size_t)buckets + chains) * sizeof(*bucket)))
		return 0;
	chain = bucket + buckets;
	for (uint32_t n = 0, i = bucket[name->sysv % buckets]; i != 0 && i < chains && n < chains;
	     n++, i = chain[i]) {
		if (consider(image, i, name, &found))
			break;
	}
	return found;
}

bool image_symbol(const struct image *image, const struct image_name *name,
		  struct image_symbol *ret)
{
	uint32_t i = image->gnu_hash ? find_gnu(image, name) : find_sysv(image, name);
	const Elf64_Sym *s = image->symbols + i;

	if (i == 0)
		return false;
	/* An absolute symbol would not move with its module: no function is one. */
	ret->address = image->bias + s->st_value;
	ret->bytes = s->st_size;
	ret->type = ELF64_ST_TYPE(s->st_info);
	return inside(image, (const void *)ret->address, 1);
}

/* What is not defined stands before what the table indexes. */
bool image_imports(const struct image *image, const char *name)
{
	uint32_t count = image->gnu_hash ? image->gnu_hash[1] : 0;

	for (uint32_t i = 1; i < count; i++) {
		const Elf64_Sym *s = image->symbols + i;

		if (!inside(image, s, sizeof(*s)))
			break;
		if (s->st_shndx == SHN_UNDEF && strcmp(image_string(image, s->st_name), name) == 0)
			return true;
	}
	return false;
}

/* --- _dl_find_object ---------------------------------------------------------------- */

/* Looked up like any other: to be linked with it, even weakly, is to be refused by the
 * loader of a C library that does not know its version, and with us the program. */
#ifndef IMAGE_FIND_NAME
#define IMAGE_FIND_NAME "_dl_find_object"
#endif

static bool open_unbounded(struct image *ret, const struct link_map *map)
{
	*ret = (struct image){.map = map, .bias = map->l_addr, .stop = UINTPTR_MAX};
	return map->l_ld && read_dynamic(ret);
}

typedef int find_function(void *address, struct image_found *ret);

#define FIND_UNKNOWN ((uintptr_t)0)
#define FIND_ABSENT  ((uintptr_t)1)
static _Atomic uintptr_t find_address;

static __attribute__((cold, noinline)) uintptr_t find_look_up(void)
{
	struct image_name name = image_name(IMAGE_FIND_NAME);
	uintptr_t found = FIND_ABSENT;
	struct image_symbol symbol;
	struct image image;
	uint32_t n = 0;

	for (const struct link_map *map = image_first(); map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		if (!open_unbounded(&image, map) || !image_symbol(&image, &name, &symbol))
			continue;
		found = symbol.address;
		break;
	}
	find_address = found;
	return found;
}

static find_function *find_object(void)
{
	uintptr_t at = find_address;

	if (at == FIND_UNKNOWN)
		at = find_look_up();
	return at == FIND_ABSENT ? NULL : (find_function *)at;
}

bool image_find_is_exact(void) { return find_object() != NULL; }

/* The loader's code uses vector registers. A function that was changed where it stands may not: then
 * its caller can have things in them (-fipa-ra). */
__attribute__((visibility("hidden"))) int image_find_aside(void *, struct image_found *,
							   find_function *);
__asm__(".pushsection .text\n"
	".globl image_find_aside\n"
	".hidden image_find_aside\n"
	".type image_find_aside, @function\n"
	"image_find_aside:\n"
	".cfi_startproc\n"
	"subq $264, %rsp\n"
	".cfi_adjust_cfa_offset 264\n"
	"movups %xmm0, 0(%rsp)\n"
	"movups %xmm1, 16(%rsp)\n"
	"movups %xmm2, 32(%rsp)\n"
	"movups %xmm3, 48(%rsp)\n"
	"movups %xmm4, 64(%rsp)\n"
	"movups %xmm5, 80(%rsp)\n"
	"movups %xmm6, 96(%rsp)\n"
	"movups %xmm7, 112(%rsp)\n"
	"movups %xmm8, 128(%rsp)\n"
	"movups %xmm9, 144(%rsp)\n"
	"movups %xmm10, 160(%rsp)\n"
	"movups %xmm11, 176(%rsp)\n"
	"movups %xmm12, 192(%rsp)\n"
	"movups %xmm13, 208(%rsp)\n"
	"movups %xmm14, 224(%rsp)\n"
	"movups %xmm15, 240(%rsp)\n"
	"call *%rdx\n"
	"movups 0(%rsp), %xmm0\n"
	"movups 16(%rsp), %xmm1\n"
	"movups 32(%rsp), %xmm2\n"
	"movups 48(%rsp), %xmm3\n"
	"movups 64(%rsp), %xmm4\n"
	"movups 80(%rsp), %xmm5\n"
	"movups 96(%rsp), %xmm6\n"
	"movups 112(%rsp), %xmm7\n"
	"movups 128(%rsp), %xmm8\n"
	"movups 144(%rsp), %xmm9\n"
	"movups 160(%rsp), %xmm10\n"
	"movups 176(%rsp), %xmm11\n"
	"movups 192(%rsp), %xmm12\n"
	"movups 208(%rsp), %xmm13\n"
	"movups 224(%rsp), %xmm14\n"
	"movups 240(%rsp), %xmm15\n"
	"addq $264, %rsp\n"
	".cfi_adjust_cfa_offset -264\n"
	"ret\n"
	".cfi_endproc\n"
	".size image_find_aside, . - image_find_aside\n"
	".popsection\n");

bool image_find(uintptr_t pc, struct image_found *ret)
{
	find_function *find = find_object();

	return find && image_find_aside((void *)pc, ret, find) == 0;
}

const struct link_map *image_of(uintptr_t pc)
{
	struct image_found found;

	return image_find(pc, &found) ? found.map : NULL;
}

bool image_open(struct image *ret, const struct link_map *map)
{
	struct image_found found;

	if (!image_find((uintptr_t)map->l_ld, &found))
		return open_unbounded(ret, map);
	if (found.map != map) /* going, or gone */
		return false;
	*ret = (struct image){
		.map = map,
		.bias = map->l_addr,
		.start = (uintptr_t)found.start,
		.stop = (uintptr_t)found.stop,
	};
	/* Where there are gaps between its segments, that was one of them. */
	return read_dynamic(ret) || open_unbounded(ret, map);
}

void *image_function(const struct image *image, const struct image_symbol *symbol)
{
	void *(*resolver)(void);
	void *target;

	if (symbol->type != STT_GNU_IFUNC)
		return (void *)symbol->address;
	if (!inside(image, (const void *)symbol->address, 1))
		return NULL;
	resolver = (void *(*)(void))symbol->address;
	target = resolver();
	return image_find_is_exact() && !image_of((uintptr_t)target) ? NULL : target;
}
