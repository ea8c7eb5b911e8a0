#include "collect/elf.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

/* No linker makes more; a hostile file must not make us read forever. */
#define MAX_SEGMENTS 512u
#define MAX_SECTIONS 8192u
#define MAX_TABLE    (UINT64_C(64) << 20)

struct image {
	int fd;
	const char *path;
	uint64_t bytes;
	Elf64_Ehdr header;
	Elf64_Shdr *sections; /* NULL where there are none to be trusted */
	unsigned section_count;
};

static void image_cleanup(struct image *image) { free(image->sections); }

static struct error *damaged(const struct image *image, const char *what)
{
	return error_remedy(error_create_path(ERROR_DAMAGED, image->path,
					      "damaged ELF file: %s outside the file", what),
			    "Run it without mallograph to see whether it runs at all.");
}

/* Whether all of it could be read. */
static bool read_at(const struct image *image, uint64_t offset, void *buffer, uint64_t bytes)
{
	uint8_t *to = buffer;

	if (offset > image->bytes || bytes > image->bytes - offset)
		return false;
	while (bytes > 0) {
		ssize_t n = pread(image->fd, to, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		offset += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return true;
}

/* NULL where it is too large, not in the file, or memory is short. */
static void *load(const struct image *image, uint64_t offset, uint64_t bytes)
{
	if (bytes == 0 || bytes > MAX_TABLE || offset > image->bytes ||
	    bytes > image->bytes - offset)
		return NULL;
	void *table = malloc(bytes);

	if (table && !read_at(image, offset, table, bytes)) {
		free(table);
		return NULL;
	}
	return table;
}

/* Sections are optional in a program that runs: without them it has no hidden malloc
 * that anybody could know of. */
static void load_sections(struct image *image)
{
	const Elf64_Ehdr *header = &image->header;

	if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > MAX_SECTIONS)
		return;
	image->sections =
		load(image, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
	if (image->sections)
		image->section_count = header->e_shnum;
}

static const Elf64_Shdr *section_of_type(const struct image *image, uint32_t type)
{
	for (unsigned i = 0; i < image->section_count; i++)
		if (image->sections[i].sh_type == type)
			return &image->sections[i];
	return NULL;
}

/* The NUL-terminated table of names a section links to; NULL = none. */
static char *load_names(const struct image *image, const Elf64_Shdr *section, uint64_t *ret_bytes)
{
	if (section->sh_link >= image->section_count)
		return NULL;
	const Elf64_Shdr *names = &image->sections[section->sh_link];
	char *table = load(image, names->sh_offset, names->sh_size);

	if (table)
		table[names->sh_size - 1] = '\0';
	*ret_bytes = names->sh_size;
	return table;
}

enum found { NOT_THERE, IMPORTED, DEFINED };

static const char *one_of(const char *name, const char *const *wanted)
{
	while (*wanted && strcmp(name, *wanted) != 0)
		wanted++;
	return *wanted;
}

/* wanted: those looked for, ended by NULL; *which: the one that is defined. */
static enum found find_function(const struct image *image, uint32_t type, const char *const *wanted,
				const char **which)
{
	const Elf64_Shdr *section = section_of_type(image, type);
	enum found found = NOT_THERE;

	if (!section || section->sh_entsize != sizeof(Elf64_Sym))
		return found;
	CLEANUP_FREE Elf64_Sym *symbols = load(image, section->sh_offset, section->sh_size);
	uint64_t names_bytes = 0;
	CLEANUP_FREE char *names = load_names(image, section, &names_bytes);

	if (!symbols || !names)
		return found;
	for (uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Sym) && found != DEFINED; i++) {
		const Elf64_Sym *symbol = &symbols[i];

		const char *name = symbol->st_name < names_bytes
					   ? one_of(names + symbol->st_name, wanted)
					   : NULL;

		if (!name)
			continue;
		if (symbol->st_shndx == SHN_UNDEF)
			found = IMPORTED;
		else if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
			found = DEFINED;
		if (found == DEFINED)
			*which = name;
	}
	return found;
}

static bool has_hidden_malloc(const struct image *image)
{
	static const char *const wanted[] = {"malloc", NULL};
	const char *which = NULL;

	return find_function(image, SHT_DYNSYM, wanted, &which) == NOT_THERE &&
	       find_function(image, SHT_SYMTAB, wanted, &which) == DEFINED;
}

static const char *sanitizer_of(const struct image *image)
{
	static const char *const mallocs[] = {"malloc", NULL};
	static const char *const wanted[] = {
		"__asan_address_is_poisoned", "__tsan_func_entry",   "__msan_poison",
		"__lsan_do_leak_check",       "__hwasan_tag_memory", NULL,
	};
	const char *which = NULL;

	/* They all have that. */
	if (find_function(image, SHT_DYNSYM, mallocs, &which) == DEFINED ||
	    find_function(image, SHT_SYMTAB, mallocs, &which) == DEFINED) {
		which = NULL;
		if (find_function(image, SHT_DYNSYM, wanted, &which) != DEFINED)
			find_function(image, SHT_SYMTAB, wanted, &which);
	}
	return which;
}

static bool is_name(int64_t tag)
{
	return tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH;
}

static void each_dynamic_name(const struct image *image,
			      bool (*visit)(void *context, int64_t tag, const char *name),
			      void *context)
{
	const Elf64_Shdr *section = section_of_type(image, SHT_DYNAMIC);

	if (!section)
		return;
	CLEANUP_FREE Elf64_Dyn *entries = load(image, section->sh_offset, section->sh_size);
	uint64_t names_bytes = 0;
	CLEANUP_FREE char *names = load_names(image, section, &names_bytes);

	if (!entries || !names)
		return;
	for (uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Dyn); i++) {
		uint64_t name = entries[i].d_un.d_val;

		if (is_name(entries[i].d_tag) && name < names_bytes &&
		    !visit(context, entries[i].d_tag, names + name))
			return;
	}
}

struct sought {
	int64_t tag;
	bool (*is_sought)(const char *name);
	bool found;
};

static bool seek(void *context, int64_t tag, const char *name)
{
	struct sought *sought = context;

	sought->found = tag == sought->tag && sought->is_sought(name);
	return !sought->found;
}

/* Whether the dynamic section has an entry of this tag whose name is one sought. */
static bool has_dynamic_name(const struct image *image, int64_t tag,
			     bool (*is_sought)(const char *name))
{
	struct sought sought = {.tag = tag, .is_sought = is_sought};

	each_dynamic_name(image, seek, &sought);
	return sought.found;
}

static bool is_loader_name(const char *name) { return strncmp(name, "ld-linux-", 9) == 0; }

bool collect_elf_is_first_or_nothing(const char *name)
{
	return strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libtsan.so", 10) == 0 ||
	       strncmp(name, "liblsan.so", 10) == 0 || strncmp(name, "libhwasan.so", 12) == 0 ||
	       (strncmp(name, "libclang_rt.", 12) == 0 &&
		strncmp(name, "libclang_rt.ubsan", 17) != 0);
}

static struct error *read_loader(const struct image *image, const Elf64_Phdr *segment,
				 struct collect_elf *ret)
{
	uint64_t bytes = segment->p_filesz;

	if (bytes >= sizeof(ret->loader))
		return error_create_path(ERROR_REFUSED, image->path,
					 "the name of its dynamic loader is too long");
	if (!read_at(image, segment->p_offset, ret->loader, bytes))
		return damaged(image, "the name of its dynamic loader");
	ret->loader[bytes] = '\0';
	return NULL;
}

static struct error *read_segments(const struct image *image, struct collect_elf *ret)
{
	const Elf64_Ehdr *header = &image->header;
	bool has_loader = false, has_dynamic = false;

	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > MAX_SEGMENTS)
		return damaged(image, "its program headers");
	CLEANUP_FREE Elf64_Phdr *segments =
		load(image, header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr));

	if (!segments)
		return damaged(image, "its program headers");
	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (segments[i].p_type == PT_DYNAMIC)
			has_dynamic = true;
		if (segments[i].p_type == PT_INTERP && !has_loader) {
			TRY(read_loader(image, &segments[i], ret));
			has_loader = true;
		}
	}
	if (has_loader)
		ret->link = COLLECT_ELF_DYNAMIC;
	else if (has_dynamic)
		ret->link = has_dynamic_name(image, DT_SONAME, is_loader_name)
				    ? COLLECT_ELF_LOADER
				    : COLLECT_ELF_STATIC_PIE;
	else
		ret->link = COLLECT_ELF_STATIC;
	return NULL;
}

struct error *collect_elf_read(int fd, const char *path, struct collect_elf *ret)
{
	CLEANUP(image_cleanup) struct image image = {.fd = fd, .path = path};
	struct stat st;

	memset(ret, 0, sizeof(*ret));
	if (fstat(fd, &st) != 0)
		return error_create_system(errno, path, "cannot read the program");
	image.bytes = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	if (!read_at(&image, 0, image.header.e_ident, SELFMAG) ||
	    memcmp(image.header.e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;

	/* e_machine stands at the same place in both classes. */
	if (!read_at(&image, 0, &image.header, sizeof(Elf32_Ehdr)))
		return damaged(&image, "its header");
	ret->is_elf = true;
	ret->is_64 = image.header.e_ident[EI_CLASS] == ELFCLASS64;
	ret->is_appimage = memcmp(image.header.e_ident + 8, "AI", 2) == 0;
	ret->little_endian = image.header.e_ident[EI_DATA] == ELFDATA2LSB;
	ret->machine = ret->little_endian ? image.header.e_machine
					  : __builtin_bswap16(image.header.e_machine);
	if (!ret->is_64 || !ret->little_endian)
		return NULL;
	if (!read_at(&image, 0, &image.header, sizeof(image.header)))
		return damaged(&image, "its header");
	load_sections(&image);
	TRY(read_segments(&image, ret));
	ret->must_be_first = ret->link == COLLECT_ELF_DYNAMIC &&
			     has_dynamic_name(&image, DT_NEEDED, collect_elf_is_first_or_nothing);
	if (ret->link == COLLECT_ELF_DYNAMIC)
		ret->sanitizer = sanitizer_of(&image);
	return NULL;
}

/* Of a 64-bit little-endian file; false = it is none. */
static bool open_image(int fd, struct image *image)
{
	struct stat st;

	*image = (struct image){.fd = fd, .path = ""};
	if (fstat(fd, &st) != 0 || st.st_size <= 0)
		return false;
	image->bytes = (uint64_t)st.st_size;
	if (!read_at(image, 0, &image->header, sizeof(image->header)) ||
	    memcmp(image->header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    image->header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    image->header.e_ident[EI_DATA] != ELFDATA2LSB)
		return false;
	load_sections(image);
	return true;
}

void collect_elf_dynamic(int fd, bool (*visit)(void *context, int64_t tag, const char *name),
			 void *context)
{
	CLEANUP(image_cleanup) struct image image;

	if (open_image(fd, &image))
		each_dynamic_name(&image, visit, context);
}

const char *collect_elf_allocator(int fd)
{
	/* jemalloc as C and Rust link it, mimalloc, tcmalloc, TBB's, and smaller ones. */
	static const char *const wanted[] = {
		"je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc", "scalable_malloc",
		"rpmalloc",  "nedmalloc",    "dlmalloc",  NULL,
	};
	CLEANUP(image_cleanup) struct image image;
	const char *which = NULL;

	if (!open_image(fd, &image))
		return NULL;
	if (has_hidden_malloc(&image))
		return "malloc";
	if (find_function(&image, SHT_SYMTAB, wanted, &which) != DEFINED)
		find_function(&image, SHT_DYNSYM, wanted, &which);
	return which;
}
