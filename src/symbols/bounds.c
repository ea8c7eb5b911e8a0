#include "symbols/bounds.h"

#include <gelf.h>
#include <string.h>

void symbols_bounds_free(struct symbols_bounds *bounds)
{
	vector_free(&bounds->files);
	vector_free(&bounds->sections);
}

static bool has_strings(const char *name)
{
	static const char *const names[] = {"debug_str", "debug_line_str", "debug_info",
					    "debug_types"};

	if (*name != '.')
		return false;
	name += name[1] == 'z' ? 2 : 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(name, names[i], length) == 0 &&
		    (name[length] == '\0' || strcmp(name + length, ".dwo") == 0))
			return true;
	}
	return false;
}

static struct error *add_data(struct symbols_bounds *bounds, const Elf_Data *data)
{
	if (!data || !data->d_buf || data->d_size == 0)
		return NULL;
	return vector_push(&bounds->sections, ((struct symbols_extent){data->d_buf, data->d_size}));
}

static struct error *add_file(struct symbols_bounds *bounds, Dwarf *dwarf)
{
	Elf *elf = dwarf_getelf(dwarf);
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	TRY(vector_push(&bounds->files, dwarf));
	if (!elf || elf_getshdrstrndx(elf, &names) != 0)
		return NULL;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;

		if (!name || !has_strings(name))
			continue;
		/* libdw has it either way. */
		TRY(add_data(bounds, elf_rawdata(section, NULL)));
		TRY(add_data(bounds, elf_getdata(section, NULL)));
	}
	return NULL;
}

static struct error *know_file(struct symbols_bounds *bounds, Dwarf *dwarf)
{
	for (size_t i = 0; i < bounds->files.count; i++)
		if (bounds->files.items[i] == dwarf)
			return NULL;
	return add_file(bounds, dwarf);
}

/* One of a section that is not known is believed: there is none that we know of. */
static bool has_end(const struct symbols_bounds *bounds, const char *text)
{
	for (size_t i = 0; i < bounds->sections.count; i++) {
		const struct symbols_extent *section = &bounds->sections.items[i];
		size_t at = (size_t)((uintptr_t)text - (uintptr_t)section->start);

		if (at < section->size)
			return memchr(text, '\0', section->size - at) != NULL;
	}
	return true;
}

struct error *symbols_bounds_string(struct symbols_bounds *bounds, Dwarf_Die *die, unsigned name,
				    const char **ret)
{
	Dwarf_Attribute attribute;

	*ret = NULL;
	if (!dwarf_attr_integrate(die, name, &attribute))
		return NULL;
	const char *text = dwarf_formstring(&attribute);
	Dwarf *dwarf = text ? dwarf_cu_getdwarf(attribute.cu) : NULL;
	Dwarf *alternate = dwarf ? dwarf_getalt(dwarf) : NULL;

	if (dwarf)
		TRY(know_file(bounds, dwarf));
	if (alternate)
		TRY(know_file(bounds, alternate));
	if (text && has_end(bounds, text))
		*ret = text;
	return NULL;
}
