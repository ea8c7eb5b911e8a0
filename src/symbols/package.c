#include "symbols/package.h"

#include <dwarf.h>
#include <gelf.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cursor.h"
#include "base/vector.h"
#include "symbols/candidate.h"
#include "symbols/package_base.h"

/* What an index calls them: DWARF 5's numbers; version 2 has no more of them that matter. */
enum { INFO = 1, ABBREV = 3, LINE = 4, STR_OFFSETS = 6, RNGLISTS = 8, KINDS };

/* As they stand in the package, and as they are given to libdw. */
static const char *const section_names[KINDS] = {
	[INFO] = ".debug_info",         [ABBREV] = ".debug_abbrev",
	[LINE] = ".debug_line",         [STR_OFFSETS] = ".debug_str_offsets",
	[RNGLISTS] = ".debug_rnglists",
};

#define MOST_COLUMNS 64u

struct opened {
	Elf *elf;
	Dwarf *dwarf;
	char *names; /* of its sections */
	struct package_copies copies;
};

struct symbols_package {
	int fd;
	int memory; /* a descriptor libelf wants; nothing is written to it */
	Elf *elf;
	struct package_bytes sections[KINDS];
	struct package_bytes strings;
	struct cursor index;
	uint32_t version, columns, units, slots;
	VECTOR(struct opened) opened;
};

void symbols_package_close(struct symbols_package *package)
{
	if (!package)
		return;
	for (size_t i = 0; i < package->opened.count; i++) {
		struct opened *opened = &package->opened.items[i];

		dwarf_end(opened->dwarf);
		elf_end(opened->elf);
		free(opened->names);
		symbols_package_copies_free(&opened->copies);
	}
	vector_free(&package->opened);
	elf_end(package->elf);
	if (package->fd >= 0)
		close(package->fd);
	if (package->memory >= 0)
		close(package->memory);
	free(package);
}

/* Empty where there is no such section. */
static struct package_bytes find_section(Elf *elf, const char *name, const char *suffix)
{
	struct package_bytes none = {NULL, 0};
	size_t names, length = strlen(name);
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return none;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		const char *is = gelf_getshdr(section, &header)
					 ? elf_strptr(elf, names, header.sh_name)
					 : NULL;

		if (!is || strncmp(is, name, length) != 0 || strcmp(is + length, suffix) != 0)
			continue;
		if (header.sh_flags & SHF_COMPRESSED && elf_compress(section, 0, 0) < 0)
			return none;
		const Elf_Data *data = elf_rawdata(section, NULL);

		return data && data->d_buf ? (struct package_bytes){data->d_buf, data->d_size}
					   : none;
	}
	return none;
}

static bool read_index(struct symbols_package *package)
{
	struct package_bytes bytes = find_section(package->elf, ".debug_cu_index", "");
	const char *ident = elf_getident(package->elf, NULL);

	if (!bytes.at || !ident || ident[EI_DATA] != ELFDATA2LSB)
		return false;
	package->index = cursor_over(bytes.at, bytes.count);
	/* Version 5 is of 16 bits, and 16 of padding; 2 of 32. */
	package->version = cursor_u32(&package->index);
	package->columns = cursor_u32(&package->index);
	package->units = cursor_u32(&package->index);
	package->slots = cursor_u32(&package->index);
	return !package->index.failed && (package->version == 2 || package->version == 5) &&
	       package->columns <= MOST_COLUMNS && package->slots > 0 &&
	       (package->slots & (package->slots - 1)) == 0 &&
	       (uint64_t)package->slots * 12 +
			       ((uint64_t)package->units * 2 + 1) * package->columns * 4 <=
		       cursor_left(&package->index);
}

static bool open_package(struct symbols_package *package, const char *path)
{
	package->fd = symbols_file_open(path);
	if (package->fd < 0)
		return false;
	package->elf = elf_begin(package->fd, ELF_C_READ_MMAP, NULL);
	package->memory = memfd_create("mallograph", MFD_CLOEXEC);
	if (!package->elf || elf_kind(package->elf) != ELF_K_ELF || package->memory < 0 ||
	    !read_index(package))
		return false;
	for (int kind = 0; kind < KINDS; kind++)
		if (section_names[kind])
			package->sections[kind] =
				find_section(package->elf, section_names[kind], ".dwo");
	package->strings = find_section(package->elf, ".debug_str", ".dwo");
	return package->sections[INFO].at && package->sections[ABBREV].at;
}

struct error *symbols_package_open(const char *path, struct symbols_package **ret)
{
	struct symbols_package *package = calloc(1, sizeof(*package));

	*ret = NULL;
	if (!package)
		return error_no_memory();
	package->fd = package->memory = -1;
	if (open_package(package, path))
		*ret = package;
	else
		symbols_package_close(package);
	return NULL;
}

static uint32_t index_u32(const struct symbols_package *package, uint64_t place)
{
	struct cursor at = package->index;

	cursor_skip(&at, place);
	return cursor_u32(&at);
}

/* The unit's row of the tables, from 1; 0 = it is not there. */
static uint32_t find_row(const struct symbols_package *package, uint64_t id)
{
	uint32_t mask = package->slots - 1, slot = (uint32_t)id & mask;
	uint32_t step = ((uint32_t)(id >> 32) & mask) | 1;

	for (uint32_t i = 0; i < package->slots; i++) {
		struct cursor at = package->index;
		uint32_t row =
			index_u32(package, (uint64_t)package->slots * 8 + slot * UINT64_C(4));

		cursor_skip(&at, slot * UINT64_C(8));
		if (row == 0)
			return 0;
		if (cursor_u64(&at) == id)
			return row <= package->units ? row : 0;
		slot = (slot + step) & mask;
	}
	return 0;
}

static void find_parts(const struct symbols_package *package, uint32_t row,
		       struct package_bytes parts[KINDS])
{
	uint64_t columns = package->columns, tables = (uint64_t)package->slots * 12;

	for (uint64_t column = 0; column < columns; column++) {
		uint32_t kind = index_u32(package, tables + column * 4);
		uint64_t offset = index_u32(package, tables + (columns * row + column) * 4);
		uint64_t size = index_u32(
			package,
			tables + (columns * (package->units + (uint64_t)row) + column) * 4);

		if (kind >= KINDS || !package->sections[kind].at ||
		    offset > package->sections[kind].count ||
		    size > package->sections[kind].count - offset)
			continue;
		parts[kind] = (struct package_bytes){package->sections[kind].at + offset, size};
	}
}

/* --- what libdw gets ----------------------------------------------------------------- */

struct making {
	Elf *elf;
	char *names;
	size_t names_count;
	bool failed;
};

static void add_section(struct making *making, const char *name, struct package_bytes bytes,
			uint32_t type)
{
	Elf_Scn *section = bytes.at && !making->failed ? elf_newscn(making->elf) : NULL;
	Elf_Data *data = section ? elf_newdata(section) : NULL;
	GElf_Shdr header;

	if (!bytes.at)
		return;
	if (!data || !gelf_getshdr(section, &header)) {
		making->failed = true;
		return;
	}
	data->d_buf = (void *)(uintptr_t)bytes.at;
	data->d_size = bytes.count;
	data->d_align = 1;
	data->d_type = ELF_T_BYTE;
	data->d_version = EV_CURRENT;
	header.sh_type = type;
	header.sh_size = bytes.count;
	header.sh_name = (GElf_Word)making->names_count;
	memcpy(making->names + making->names_count, name, strlen(name) + 1);
	making->names_count += strlen(name) + 1;
	making->failed |= !gelf_update_shdr(section, &header);
}

static bool begin(struct making *making, int memory)
{
	GElf_Ehdr header;

	making->elf = elf_begin(memory, ELF_C_WRITE, NULL);
	making->names = calloc(1, 512);
	making->names_count = 1;
	if (!making->elf || !making->names || !gelf_newehdr(making->elf, ELFCLASS64) ||
	    !gelf_getehdr(making->elf, &header))
		return false;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_type = ET_EXEC;
	header.e_machine = EM_X86_64;
	header.e_version = EV_CURRENT;
	return gelf_update_ehdr(making->elf, &header) != 0;
}

static bool end(struct making *making)
{
	static const char own[] = ".shstrtab";
	struct package_bytes names = {(const uint8_t *)making->names,
				      making->names_count + sizeof(own)};
	GElf_Ehdr header;
	size_t count;

	add_section(making, own, names, SHT_STRTAB);
	if (making->failed || elf_getshdrnum(making->elf, &count) != 0 ||
	    !gelf_getehdr(making->elf, &header))
		return false;
	header.e_shstrndx = (GElf_Half)(count - 1);
	return gelf_update_ehdr(making->elf, &header) != 0;
}

static bool make(const struct symbols_package *package, struct opened *opened,
		 const struct package_bytes parts[KINDS], const struct package_extra *extra)
{
	struct making making = {.elf = NULL};
	bool good = begin(&making, package->memory);

	for (int kind = 0; kind < KINDS && good; kind++)
		if (section_names[kind])
			add_section(&making, section_names[kind], parts[kind], SHT_PROGBITS);
	if (good) {
		add_section(&making, ".debug_str", package->strings, SHT_PROGBITS);
		add_section(&making, ".debug_addr", extra->addresses, SHT_PROGBITS);
		add_section(&making, ".debug_ranges", extra->ranges, SHT_PROGBITS);
		good = end(&making);
	}
	opened->elf = making.elf;
	opened->names = making.names;
	opened->dwarf = good ? dwarf_begin_elf(making.elf, DWARF_C_READ, NULL) : NULL;
	return opened->dwarf != NULL;
}

static struct package_bytes after(struct package_bytes bytes, Dwarf_Die *die, unsigned base)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset = 0;

	if (dwarf_formudata(dwarf_attr(die, base, &attribute), &offset) != 0)
		offset = 0;
	if (!bytes.at || offset > bytes.count)
		return (struct package_bytes){NULL, 0};
	return (struct package_bytes){bytes.at + offset, bytes.count - offset};
}

/* What the program has of the unit. */
static struct package_extra extra_of(Dwarf_Die *skeleton, uint32_t version)
{
	Elf *elf = dwarf_getelf(dwarf_cu_getdwarf(skeleton->cu));
	struct package_extra extra = {.low_pc = 0};

	extra.addresses = after(find_section(elf, ".debug_addr", ""), skeleton,
				version == 2 ? DW_AT_GNU_addr_base : DW_AT_addr_base);
	if (version == 2)
		extra.ranges = after(find_section(elf, ".debug_ranges", ""), skeleton,
				     DW_AT_GNU_ranges_base);
	if (dwarf_lowpc(skeleton, &extra.low_pc) != 0)
		extra.low_pc = 0;
	return extra;
}

bool symbols_package_unit(struct symbols_package *package, Dwarf_Die *skeleton, Dwarf_Die *ret)
{
	struct package_bytes parts[KINDS] = {{NULL, 0}};
	struct opened opened = {.elf = NULL};
	struct package_extra extra;
	uint64_t id;
	uint8_t type;

	if (dwarf_cu_info(skeleton->cu, NULL, NULL, NULL, NULL, &id, NULL, NULL) != 0)
		return false;
	uint32_t row = find_row(package, id);

	if (row == 0)
		return false;
	find_parts(package, row, parts);
	extra = extra_of(skeleton, package->version);
	symbols_package_give_base(&parts[INFO], &parts[ABBREV], &extra, &opened.copies);

	bool good = parts[INFO].at && parts[ABBREV].at && make(package, &opened, parts, &extra) &&
		    dwarf_get_units(opened.dwarf, NULL, &(Dwarf_CU *){NULL}, NULL, &type, ret,
				    NULL) == 0;
	struct error *error = vector_push(&package->opened, opened);

	if (error) {
		dwarf_end(opened.dwarf);
		elf_end(opened.elf);
		free(opened.names);
		symbols_package_copies_free(&opened.copies);
		error_free(error);
		return false;
	}
	return good;
}
