#include "symbols/image_internal.h"

#include <dwarf.h>
#include <string.h>

struct error *symbols_image_load_symtab(struct symbols_image *image)
{
	if (image->has_symtab)
		return NULL;
	image->has_symtab = true;
	return symbols_symtab_load(image->module, &image->symtab);
}

static struct error *appraise_symtab(struct symbols_image *image)
{
	TRY(symbols_image_load_symtab(image));
	if (image->symtab.names.count == 0) {
		symbols_image_because(image, "no functions in its symbol tables");
		return NULL;
	}
	image->level = SYMBOLS_SYMTAB;
	if (!image->symtab.is_full)
		symbols_image_because(image, "stripped: names of exported functions alone");
	return NULL;
}

static struct error *fill(struct symbols_image *image, const struct symbols_image_request *request)
{
	TRY(symbols_names_init(&image->names));
	TRY(symbols_image_open_file(image, request));
	if (!image->module)
		return NULL;
	symbols_build_id_print(&image->build_id, &image->search.build_id);
	if (request->build_id.count == 0 && !request->is_present)
		symbols_image_because(
			image, "recorded without a build-id: not certain to be the same file");
	if (!request->names_only)
		TRY(symbols_image_open_dwarf(image));
	if (image->level == SYMBOLS_NONE)
		TRY(appraise_symtab(image));
	TRY(strbuf_result(&image->build_id));
	return strbuf_result(&image->reason);
}

struct error *symbols_image_open(const struct symbols_image_request *request,
				 struct symbols_image **ret)
{
	struct symbols_image *image = calloc(1, sizeof(*image));

	if (!image)
		return error_no_memory();
	image->level = SYMBOLS_NONE;
	elf_version(EV_CURRENT);

	struct error *error =
		symbols_search_init(&image->search, request->options, request->fetches);

	if (!error)
		error = fill(image, request);

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
	symbols_package_close(image->package);
	if (image->dwfl)
		dwfl_end(image->dwfl);
	symbols_search_free(&image->search);
	strbuf_free(&image->reason);
	strbuf_free(&image->build_id);
	free(image->debug_file);
	free(image->path);
	free(image);
}

const symbols_id_list *symbols_image_wanted(const struct symbols_image *image)
{
	return &image->search.wanted;
}

struct symbols_verdict symbols_image_verdict(const struct symbols_image *image)
{
	return (struct symbols_verdict){
		.level = image->level,
		.build_id = image->build_id.length > 0 ? image->build_id.text : NULL,
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
	    (dwarf_getsrcfiles(&unit->code, &files, &count) != 0 &&
	     dwarf_getsrcfiles(&unit->die, &files, &count) != 0) ||
	    number >= count)
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
	TRY(symbols_image_load_symtab(image));
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
