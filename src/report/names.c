/* How functions, places and modules are called in text. */
#include "report/words.h"

#include <inttypes.h>

#include "analyze/stacks.h"

/* Names longer than this are cut in text; the JSON has them whole. */
#define NAME_COLUMNS 1000u
/* In a stack, a name longer than this goes without parameters and template arguments. */
#define FULL_COLUMNS 80u

void report_put_module(struct strbuf *out, const struct analyze_model *model, uint32_t module)
{
	struct analyze_text name = report_base_name(&model->modules[module].path);

	if (module == 0 || !name.bytes)
		strbuf_append(out, "[anonymous]");
	else if (name.length == 0)
		strbuf_append(out, "[no name]");
	else
		strbuf_printable(out, name.bytes, name.length);
}

static void put_offset(struct strbuf *out, const struct analyze_model *model, uint32_t module,
		       uint64_t offset)
{
	if (model->modules[module].path.bytes) {
		report_put_module(out, model, module);
		strbuf_append_char(out, '+');
	}
	strbuf_printf(out, "0x%" PRIx64, offset);
}

static void put_printable_cut(struct strbuf *out, const char *bytes, size_t length)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printable(&text, bytes, length);
	report_put_cut(out, &text, NAME_COLUMNS);
}

static void put_plain(struct strbuf *out, const struct analyze_model *model, uint32_t name)
{
	CLEANUP_STRBUF struct strbuf plain = STRBUF_EMPTY;

	analyze_name_plain(model, name, &plain);
	if (plain.failed)
		out->failed = true;
	else
		put_printable_cut(out, plain.text, plain.length);
}

void report_put_name(struct strbuf *out, const struct analyze_model *model, uint32_t name)
{
	const struct analyze_name *is = &model->names[name];

	if (name == 0)
		strbuf_append(out, model->has_folded ? "[small sites]" : "[stack not known]");
	else if (is->function)
		put_plain(out, model, name);
	else
		put_offset(out, model, is->module, is->offset);
}

/* Of a qualified name too long for its column the end says most: "RawTable::reserve". */
static const char *unqualified(const char *name, size_t columns)
{
	const char *next;

	while (*name != '<' && strbuf_columns(name, strlen(name)) > columns &&
	       (next = strstr(name, "::")) != NULL && next[2])
		name = next + 2;
	return name;
}

/* The offset says where; a module is known by its beginning. */
static void put_place_in(struct strbuf *out, const struct analyze_model *model,
			 const struct analyze_name *name, size_t columns)
{
	CLEANUP_STRBUF struct strbuf module = STRBUF_EMPTY;
	char offset[24];
	size_t end = (size_t)snprintf(offset, sizeof(offset), "+0x%" PRIx64, name->offset);

	report_put_module(&module, model, name->module);
	report_put_cut(out, &module, columns > end ? columns - end : 0);
	strbuf_append(out, offset);
}

void report_put_name_in(struct strbuf *out, const struct analyze_model *model, uint32_t name,
			size_t columns)
{
	const struct analyze_name *is = &model->names[name];
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY, end = STRBUF_EMPTY;

	report_put_name(&text, model, name);
	if (text.failed || !text.text || strbuf_columns(text.text, text.length) <= columns) {
		report_put_cut(out, &text, columns);
	} else if (is->function == 0 && model->modules[is->module].path.bytes) {
		put_place_in(out, model, is, columns);
	} else {
		strbuf_append(&end, unqualified(text.text, columns));
		report_put_cut(out, &end, columns);
	}
}

void report_put_line(struct strbuf *out, const struct analyze_model *model, uint32_t place,
		     uint32_t line)
{
	const struct analyze_line *at = &model->lines[line];
	const struct analyze_name *name = &model->names[at->name];
	const struct analyze_text *function = &model->texts[name->function];
	const struct analyze_text *file = &model->texts[at->file];

	if (place == 0) {
		strbuf_append(out, "[cut: outer frames not known]");
		return;
	}
	if (function->length > FULL_COLUMNS)
		put_plain(out, model, at->name);
	else if (function->length)
		put_printable_cut(out, function->bytes, function->length);
	else
		put_offset(out, model, name->module, model->places[place].offset);
	if (file->length == 0 && function->length == 0)
		return;
	strbuf_append(out, " (");
	if (file->length == 0) {
		put_offset(out, model, name->module, model->places[place].offset);
	} else {
		put_printable_cut(out, file->bytes, file->length);
		if (at->line)
			strbuf_printf(out, ":%" PRIu32, at->line);
		if (at->line && at->column)
			strbuf_printf(out, ":%" PRIu32, at->column);
	}
	strbuf_append_char(out, ')');
}

void report_put_cut(struct strbuf *out, const struct strbuf *text, size_t columns)
{
	if (text->failed) {
		out->failed = true;
		return;
	}
	if (text->length == 0)
		return;
	if (strbuf_columns(text->text, text->length) <= columns) {
		strbuf_append_bytes(out, text->text, text->length);
		return;
	}
	if (columns < 3)
		return;
	strbuf_append_bytes(out, text->text, strbuf_prefix(text->text, text->length, columns - 3));
	strbuf_append(out, "...");
}
