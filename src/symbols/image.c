#include "symbols/image.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <stdarg.h>
#include <string.h>

#include "symbols/names.h"
#include "symbols/split.h"
#include "symbols/symtab.h"
#include "symbols/units.h"

struct symbols_image {
	struct symbols_search search;
	const char *path; /* of the module's file: the request's */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL = nothing to read */
	Dwarf_Addr dwarf_bias;
	bool has_symtab;    /* loaded */
	bool by_debug_file; /* the file itself is gone, its debug file stands for it */
	enum symbols_level level;
	struct strbuf reason;
	char *debug_file;
	struct symbols_units units;
	struct symbols_symtab symtab;
	struct symbols_names names;
};

static void because(struct symbols_image *image, const char *format, ...) ERROR_PRINTF(2, 3);

static void because(struct symbols_image *image, const char *format, ...)
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
 * when its link is the one noted for that, the file dwz made. libdwfl's own would ask
 * debuginfod servers. */
static int find_debuginfo(Dwfl_Module *module, void **user, const char *module_name,
			  Dwarf_Addr base, const char *file_name, const char *link, GElf_Word crc,
			  char **ret_path)
{
	struct symbols_image *image = *user;
	int fd;

	(void)module;
	(void)base;
	if (link && image->search.alternate && strcmp(link, image->search.alternate) == 0) {
		const char *path = image->debug_file ? image->debug_file : module_name;

		return symbols_search_alternate(&image->search, path, ret_path);
	}
	fd = symbols_search_build_id(&image->search, ret_path);
	if (fd < 0 && file_name)
		fd = symbols_search_name(&image->search, file_name, link, crc, ret_path);
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

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

/* Takes fd over. Addresses stay those of the file: no bias, wherever it was linked to. */
static struct error *report(struct symbols_image *image, const char *path, int fd)
{
	void **user;

	image->dwfl = dwfl_begin(&callbacks);
	if (!image->dwfl) {
		close(fd);
		return error_no_memory();
	}
	dwfl_report_begin(image->dwfl);
	image->module = dwfl_report_elf(image->dwfl, path, path, fd, 0, true);
	if (!image->module) {
		because(image, "not a usable ELF file: %s", dwfl_errmsg(-1));
		close(fd);
	}
	dwfl_report_end(image->dwfl, NULL, NULL);
	if (image->module) {
		dwfl_module_info(image->module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
		*user = image;
	}
	return NULL;
}

static void give_up(struct symbols_image *image)
{
	image->module = NULL;
	if (image->dwfl)
		dwfl_end(image->dwfl);
	image->dwfl = NULL;
}

/* tried: the file's, which is amended by what it is and goes to the trace. */
static void check_build_id(struct symbols_image *image, const struct symbols_build_id *recorded,
			   struct symbols_try *tried)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY, id = STRBUF_EMPTY;
	GElf_Addr bias;
	Elf *elf = image->module ? dwfl_module_getelf(image->module, &bias) : NULL;

	if (!elf) {
		if (image->module)
			because(image, "not a usable ELF file: %s", dwfl_errmsg(-1));
		tried->outcome = SYMBOLS_OUTCOME_NOT_ELF;
		symbols_trace_add(&image->search.trace, tried);
		give_up(image);
		return;
	}
	image->search.build_id = symbols_build_id_of(elf);
	symbols_search_note_alternate(&image->search, elf);
	tried->outcome = symbols_debug_outcome(elf);
	if (recorded->count == 0 || symbols_build_id_equal(recorded, &image->search.build_id)) {
		symbols_trace_add(&image->search.trace, tried);
		return;
	}
	symbols_build_id_print(&id, &image->search.build_id);
	if (image->search.build_id.count == 0)
		strbuf_append(&id, "none");
	tried->outcome = SYMBOLS_OUTCOME_OTHER_BUILD_ID;
	tried->detail = id.text;
	symbols_trace_add(&image->search.trace, tried);
	strbuf_append(&text, "the file there now is another: build-id ");
	symbols_build_id_print(&text, recorded);
	because(image, "%s was recorded, it has %s", text.text ? text.text : "",
		id.text ? id.text : "");
	give_up(image);
}

/* Everything an image needs can be in its separate debug file. */
static struct error *open_debug_file(struct symbols_image *image,
				     const struct symbols_build_id *build_id)
{
	CLEANUP_FREE char *path = NULL;

	image->search.build_id = *build_id;
	int fd = symbols_search_build_id(&image->search, &path);

	if (fd < 0)
		fd = symbols_search_poor(&image->search, &path);
	if (fd < 0)
		return NULL;
	TRY(report(image, path, fd));

	GElf_Addr bias;
	Elf *elf = image->module ? dwfl_module_getelf(image->module, &bias) : NULL;

	if (!elf) {
		symbols_trace_amend(&image->search.trace, path, SYMBOLS_OUTCOME_NOT_ELF, NULL);
		give_up(image);
		return NULL;
	}
	symbols_search_note_alternate(&image->search, elf);
	image->by_debug_file = true;
	image->debug_file = STEAL(path);
	return NULL;
}

static void cannot_open(struct symbols_image *image, const char *path, int number)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(path);

	if (length >= sizeof(deleted) && strcmp(path + length - sizeof(deleted) + 1, deleted) == 0)
		because(image, "the file was deleted or replaced while in use");
	else
		because(image, "cannot open the file: %s",
			number == EINVAL ? "not a regular file" : strerror(number));
}

static struct error *open_file(struct symbols_image *image,
			       const struct symbols_image_request *request)
{
	struct symbols_try tried;

	if (request->path[0] == '\0' || request->path[0] == '[') {
		because(image, "it has no file");
		return NULL;
	}
	int fd = symbols_search_open(&image->search, SYMBOLS_PLACE_FILE, request->path, &tried);

	if (fd >= 0) {
		TRY(report(image, request->path, fd));
		check_build_id(image, &request->build_id, &tried);
	} else {
		cannot_open(image, request->path, errno);
	}
	if (!image->module && request->build_id.count > 0)
		TRY(open_debug_file(image, &request->build_id));
	return NULL;
}

/* libdw looks for the dwz file on its own where we found none, and checks nothing. */
static bool alternate_is_right(struct symbols_image *image, Dwarf *dwarf)
{
	Dwarf *alternate = image->search.alternate ? dwarf_getalt(dwarf) : NULL;

	if (!alternate) {
		if (image->search.alternate)
			because(image, "the file of %s it shares names with is missing",
				image->search.alternate);
		return true;
	}
	struct symbols_build_id id = symbols_build_id_of(dwarf_getelf(alternate));

	if (symbols_build_id_equal(&id, &image->search.alternate_id))
		return true;
	because(image, "%s, which it shares names with, is of another build-id",
		image->search.alternate);
	return false;
}

static void no_debug_information(struct symbols_image *image)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	const struct symbols_options *options = image->search.options;

	if (image->search.build_id.count > 0) {
		strbuf_append(&text, "no debug information in it, and no debug file for build-id ");
		symbols_build_id_print(&text, &image->search.build_id);
		strbuf_append(&text, " under ");
		if (!options->debug_directories)
			strbuf_append(&text, "/usr/lib/debug");
		for (size_t i = 0; options->debug_directories && i < options->debug_directory_count;
		     i++)
			strbuf_printf(&text, "%s%s", i > 0 ? ", " : "",
				      options->debug_directories[i]);
	} else {
		strbuf_append(&text, "no debug information in it, and no build-id to find it by");
	}
	because(image, "%s", text.text ? text.text : "");
	strbuf_clear(&text);
	symbols_search_refused(&image->search, &text);
	if (text.length > 0)
		because(image, "not used: %s", text.text);
}

static struct error *open_dwarf(struct symbols_image *image)
{
	Dwarf *dwarf = dwfl_module_getdwarf(image->module, &image->dwarf_bias);

	if (!dwarf) {
		int number = dwfl_errno();

		no_debug_information(image);
		if (image->debug_file) {
			because(image, "%s: %s", image->debug_file, dwfl_errmsg(number));
			symbols_trace_amend(&image->search.trace, image->debug_file,
					    SYMBOLS_OUTCOME_BAD_DEBUG, dwfl_errmsg(number));
		}
		return NULL;
	}
	if (!alternate_is_right(image, dwarf))
		return NULL;
	TRY(symbols_units_load(dwarf, &image->units));
	symbols_split_trace(&image->units, image->debug_file ? image->debug_file : image->path,
			    &image->search.trace);
	if (image->units.has_functions)
		image->level = SYMBOLS_FULL;
	else if (image->units.has_lines)
		image->level = SYMBOLS_LINES;
	if (image->units.lacks_split)
		because(image, "its split debug information (.dwo files) was not found");
	else if (image->level == SYMBOLS_LINES)
		because(image, "its debug information has lines alone");
	else if (image->level != SYMBOLS_FULL)
		because(image, "its debug information describes no code");
	return NULL;
}

static struct error *load_symtab(struct symbols_image *image)
{
	if (image->has_symtab)
		return NULL;
	image->has_symtab = true;
	return symbols_symtab_load(image->module, &image->symtab);
}

static struct error *appraise_symtab(struct symbols_image *image)
{
	TRY(load_symtab(image));
	if (image->symtab.names.count == 0) {
		because(image, "no functions in its symbol tables");
		return NULL;
	}
	image->level = SYMBOLS_SYMTAB;
	if (!image->symtab.is_full)
		because(image, "stripped: names of exported functions alone");
	return NULL;
}

static struct error *fill(struct symbols_image *image, const struct symbols_image_request *request)
{
	TRY(symbols_names_init(&image->names));
	TRY(open_file(image, request));
	if (!image->module)
		return NULL;
	if (request->build_id.count == 0)
		because(image, "recorded without a build-id: not certain to be the same file");
	if (!request->names_only)
		TRY(open_dwarf(image));
	if (image->level == SYMBOLS_NONE)
		TRY(appraise_symtab(image));
	return strbuf_result(&image->reason);
}

struct error *symbols_image_open(const struct symbols_image_request *request,
				 struct symbols_image **ret)
{
	struct symbols_image *image = calloc(1, sizeof(*image));

	if (!image)
		return error_no_memory();
	symbols_search_init(&image->search, request->options);
	image->path = request->path;
	image->level = SYMBOLS_NONE;
	elf_version(EV_CURRENT);

	struct error *error = fill(image, request);

	if (error) {
		symbols_image_close(image);
		return error;
	}
	*ret = image;
	return NULL;
}

void symbols_image_close(struct symbols_image *image)
{
	if (!image)
		return;
	symbols_names_free(&image->names);
	symbols_symtab_free(&image->symtab);
	symbols_units_free(&image->units);
	if (image->dwfl)
		dwfl_end(image->dwfl);
	symbols_search_free(&image->search);
	strbuf_free(&image->reason);
	free(image->debug_file);
	free(image);
}

struct symbols_verdict symbols_image_verdict(const struct symbols_image *image)
{
	return (struct symbols_verdict){
		.level = image->level,
		.reason = image->reason.length > 0 ? image->reason.text : NULL,
		.debug_file = image->level > SYMBOLS_SYMTAB || image->by_debug_file
				      ? image->debug_file
				      : NULL,
	};
}

const struct symbols_trace *symbols_image_trace(const struct symbols_image *image)
{
	return &image->search.trace;
}

static uint32_t number_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0 || value > INT32_MAX)
		return 0;
	return (uint32_t)value;
}

static const char *call_file(struct symbols_unit *unit, Dwarf_Die *inlined)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;
	Dwarf_Files *files;
	size_t count;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) != 0 ||
	    dwarf_getsrcfiles(&unit->code, &files, &count) != 0 || number >= count)
		return NULL;
	return dwarf_filesrc(files, number, NULL, NULL);
}

static bool line_of(struct symbols_unit *unit, uint64_t address, struct symbols_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
	int number = 0, column = 0;

	if (!line)
		return false;
	dwarf_lineno(line, &number);
	dwarf_linecol(line, &column);
	frame->file = dwarf_linesrc(line, NULL, NULL);
	frame->line = number > 0 ? (uint32_t)number : 0;
	frame->column = number > 0 && column > 0 ? (uint32_t)column : 0;
	return true;
}

static struct error *find_symbol(struct symbols_image *image, uint64_t pc, const char **ret)
{
	TRY(load_symtab(image));
	*ret = symbols_symtab_find(&image->symtab, pc);
	return NULL;
}

static struct error *name_function(struct symbols_image *image, struct symbols_function *function,
				   uint64_t address, const char **ret)
{
	const char *symbol;

	TRY(symbols_names_of_die(&image->names, &function->die, ret));
	if (!symbols_names_may_improve(&function->die, *ret))
		return NULL;
	TRY(find_symbol(image, address + image->dwarf_bias, &symbol));
	return symbol ? symbols_names_improve(&image->names, &function->die, symbol, ret) : NULL;
}

/* Frames of a function, given where the innermost one is. */
static struct error *function_frames(struct symbols_image *image, struct symbols_unit *unit,
				     struct symbols_function *function, uint64_t address,
				     struct symbols_frame frame, symbols_frame_list *frames)
{
	uint32_t inlined[SYMBOLS_INLINED_MAX];
	unsigned count;

	TRY(symbols_function_inlined(function, address, inlined, &count));
	while (count-- > 0) {
		Dwarf_Die *die = &function->inlined.items[inlined[count]].die;

		frame.inlined = true;
		TRY(symbols_names_of_die(&image->names, die, &frame.function));
		TRY(vector_push(frames, frame));
		frame = (struct symbols_frame){
			.file = call_file(unit, die),
			.line = number_attribute(die, DW_AT_call_line),
			.column = number_attribute(die, DW_AT_call_column),
		};
	}
	TRY(name_function(image, function, address, &frame.function));
	return vector_push(frames, frame);
}

/* The unit that has a function there
 * comes before one that has a line alone. */
static struct error *dwarf_frames(struct symbols_image *image, uint64_t address,
				  symbols_frame_list *frames)
{
	size_t position = SYMBOLS_INTERVALS_FIRST;
	const struct symbols_interval *interval;
	struct symbols_frame line_only = {0};
	bool has_line = false;

	while ((interval = symbols_intervals_next(&image->units.intervals, address, &position)) !=
	       NULL) {
		struct symbols_unit *unit = &image->units.all.items[interval->value];
		struct symbols_frame frame = {0};
		struct symbols_function *function;
		bool found = line_of(unit, address, &frame);

		TRY(symbols_unit_function(unit, address, &function));
		if (function)
			return function_frames(image, unit, function, address, frame, frames);
		if (found && !has_line)
			line_only = frame;
		has_line |= found;
	}
	return has_line ? vector_push(frames, line_only) : NULL;
}

struct error *symbols_image_frames(struct symbols_image *image, uint64_t pc,
				   symbols_frame_list *frames)
{
	size_t before = frames->count;
	const char *symbol;

	if (!image->module)
		return NULL;
	TRY(dwarf_frames(image, pc - image->dwarf_bias, frames));

	bool known = frames->count > before;

	if (known && frames->items[frames->count - 1].function)
		return NULL;
	TRY(find_symbol(image, pc, &symbol));
	if (!symbol)
		return NULL;
	if (!known)
		TRY(vector_push(frames, ((struct symbols_frame){0})));
	return symbols_names_of_symbol(&image->names, symbol,
				       &frames->items[frames->count - 1].function);
}
