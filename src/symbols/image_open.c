#include "symbols/image_internal.h"

#include <elfutils/libdwelf.h>
#include <stdarg.h>
#include <string.h>

#include "symbols/split.h"

void symbols_image_because(struct symbols_image *image, const char *format, ...)
{
	CLEANUP_FREE char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		text = NULL;
		image->reason.failed = true;
		return;
	}
	if (image->reason.length > 0)
		strbuf_append(&image->reason, "; ");
	strbuf_append(&image->reason, text);
}

/* libdwfl's callback: the file with the debug information of a module that has none or,
 * when its link is the one noted for that, the file dwz made. libdwfl's own would wait
 * for debuginfod servers here. */
int symbols_image_find_debuginfo(Dwfl_Module *module, void **user, const char *module_name,
				 Dwarf_Addr base, const char *file_name, const char *link,
				 GElf_Word crc, char **ret_path)
{
	struct symbols_image *image = *user;
	int fd;

	(void)module;
	(void)base;
	if (link && image->search.alternate && strcmp(link, image->search.alternate) == 0) {
		const char *path = image->debug_file ? image->debug_file : module_name;

		return symbols_search_alternate(&image->search, path, ret_path);
	}
	if (image->has_searched)
		return -1;
	image->has_searched = true;
	fd = symbols_search_build_id(&image->search, ret_path);
	if (fd < 0 && file_name)
		fd = symbols_search_name(&image->search, file_name, link, crc, ret_path);
	if (fd < 0)
		fd = symbols_search_server(&image->search, &image->search.build_id, ret_path);
	if (fd < 0)
		fd = symbols_search_poor(&image->search, ret_path);
	if (fd < 0)
		return -1;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	symbols_search_note_alternate(&image->search, elf);
	elf_end(elf);
	free(image->debug_file);
	image->debug_file = strdup(*ret_path);
	return fd;
}

/* libdw looks for the dwz file on its own where we found none, and checks nothing. */
static bool alternate_is_right(struct symbols_image *image, Dwarf *dwarf)
{
	Dwarf *alternate = image->search.alternate ? dwarf_getalt(dwarf) : NULL;

	if (!alternate) {
		if (image->search.alternate)
			symbols_image_because(image,
					      "the file of %s it shares names with is missing",
					      image->search.alternate);
		return true;
	}
	struct symbols_build_id id = symbols_build_id_of(dwarf_getelf(alternate));

	if (symbols_build_id_equal(&id, &image->search.alternate_id))
		return true;
	symbols_image_because(image, "%s, which it shares names with, is of another build-id",
			      image->search.alternate);
	return false;
}

static void no_debug_information(struct symbols_image *image)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (image->search.build_id.count > 0) {
		strbuf_append(&text, "no debug information in it, and no debug file for build-id ");
		symbols_build_id_print(&text, &image->search.build_id);
		strbuf_append(&text, " under ");
		for (size_t i = 0; i < image->search.directories.count; i++)
			strbuf_printf(&text, "%s%s", i > 0 ? ", " : "",
				      image->search.directories.items[i]);
	} else {
		strbuf_append(&text, "no debug information in it, and no build-id to find it by");
	}
	symbols_image_because(image, "%s", text.text ? text.text : "");
	strbuf_clear(&text);
	symbols_search_refused(&image->search, &text);
	if (text.length > 0)
		symbols_image_because(image, "not used: %s", text.text);
}

struct error *symbols_image_open_dwarf(struct symbols_image *image)
{
	Dwarf *dwarf = dwfl_module_getdwarf(image->module, &image->dwarf_bias);

	if (!dwarf) {
		int number = dwfl_errno();

		no_debug_information(image);
		if (image->debug_file) {
			symbols_image_because(image, "%s: %s", image->debug_file,
					      dwfl_errmsg(number));
			symbols_trace_amend(&image->search.trace, image->debug_file,
					    SYMBOLS_OUTCOME_BAD_DEBUG, dwfl_errmsg(number));
		}
		return NULL;
	}
	if (!alternate_is_right(image, dwarf))
		return NULL;
	const char *paths[] = {
		image->debug_file ? image->debug_file : image->path,
		image->path,
	};
	size_t count = image->debug_file && image->path ? 2 : 1;

	TRY(symbols_split_open(paths, count, &image->package));
	TRY(symbols_units_load(dwarf, image->package, &image->units));
	symbols_split_trace(&image->units, paths, count, &image->search.trace);
	if (image->units.has_functions)
		image->level = SYMBOLS_FULL;
	else if (image->units.has_lines)
		image->level = SYMBOLS_LINES;
	if (image->units.lacks_split)
		symbols_image_because(image,
				      "its split debug information (.dwo files) was not found");
	else if (image->level == SYMBOLS_LINES)
		symbols_image_because(image, "its debug information has lines alone");
	else if (image->level != SYMBOLS_FULL)
		symbols_image_because(image, "its debug information describes no code");
	return NULL;
}
