#include "analyze/stacks.h"

#include <string.h>

#include "symbols/title.h"

static void enter(struct analyze_walk *walk, uint32_t frame, uint32_t skipped)
{
	const struct analyze_model *model = walk->model;
	const struct analyze_place *place = &model->places[model->frames[frame].place];

	walk->frame = frame;
	walk->next = model->frames[frame].parent;
	walk->line = place->first_line + skipped;
	walk->left = place->line_count - skipped - 1;
	walk->is_inlined = walk->left > 0;
}

bool analyze_walk_next(struct analyze_walk *walk)
{
	if (walk->left) {
		walk->line++;
		walk->left--;
		walk->is_inlined = walk->left > 0;
		return true;
	}
	if (walk->next == 0)
		return false;
	enter(walk, walk->next, 0);
	return true;
}

struct analyze_walk analyze_walk_after(const struct analyze_model *model, uint32_t frame,
				       uint32_t line)
{
	struct analyze_walk walk = {.model = model};
	uint32_t first = model->places[model->frames[frame].place].first_line;

	if (frame)
		enter(&walk, frame, line - first);
	return walk;
}

enum { NOT_ASKED, NO_WRAPPER, WRAPPER };

bool analyze_name_is_wrapper(const struct analyze_model *model, uint32_t name)
{
	const struct analyze_name *is = &model->names[name];
	uint8_t *known = &model->wrapper_names[name];

	if (*known == NOT_ASKED) {
		bool wrapper = model->modules[is->module].is_runtime;

		if (!wrapper && is->function)
			wrapper = symbols_title_is_wrapper(model->texts[is->function].bytes,
							   model->wrappers, model->wrapper_count);
		*known = wrapper ? WRAPPER : NO_WRAPPER;
	}
	return *known == WRAPPER;
}

/* pattern: a name, or the beginning of names and a star. */
static bool matches(const char *pattern, const char *name)
{
	size_t length = strcspn(pattern, "*");

	return strncmp(pattern, name, length) == 0 && (pattern[length] || !name[length]);
}

bool analyze_name_is_root(const struct analyze_model *model, uint32_t name)
{
	static const char *const roots[] = {
		"main",
		"_start",
		/* Python's interpreter: below them is all of the program. */
		"Py_BytesMain",
		"Py_Main",
		"Py_RunMain*",
		"pymain_*",
		"PyRun_*",
		"_PyRun_*",
		"pyrun_*",
		"run_mod",
		"run_eval_code_obj",
		"PyEval_*",
		"_PyEval_*",
		"_PyFunction_Vectorcall*",
		"PyObject_Call*",
		"_PyObject_Call*",
		"_PyObject_FastCall*",
		"PyObject_Vectorcall*",
		"_PyObject_Vectorcall*",
		"_PyObject_MakeTpCall*",
		"_PyVectorcall_Call*",
		"PyVectorcall_Call*",
		"object_vacall*",
		"method_vectorcall*",
		"cfunction_*",
		"do_call_core*",
		"builtin___import__*",
		"builtin_exec*",
		/* Go's, and Rust's. */
		"main.main",
		"runtime.main",
		"runtime.goexit*",
		"runtime.systemstack*",
		"runtime.mcall*",
		"runtime.rt0_go*",
		"runtime.mstart*",
		"lang_start*",
		"__rust_begin_short_backtrace*",
	};
	const struct analyze_name *is = &model->names[name];

	if (model->modules[is->module].is_runtime)
		return true;
	if (!is->function)
		return false;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (matches(roots[i], model->texts[is->function].bytes))
			return true;
	return false;
}

void analyze_name_plain(const struct analyze_model *model, uint32_t name, struct strbuf *ret)
{
	uint32_t function = model->names[name].function;

	if (function == 0)
		return;
	symbols_title_plain(model->texts[function].bytes, ret);
	/* Brackets alone. */
	if (ret->length == 0)
		strbuf_append_bytes(ret, model->texts[function].bytes,
				    model->texts[function].length);
}

uint32_t analyze_site_title(const struct analyze_model *model, const struct analyze_site *site)
{
	return model->lines[site->title_line].name;
}

/* --- titles anew -------------------------------------------------------------------- */

/* What a place may be named after, with the model's patterns. */
static uint32_t name_place(const struct analyze_model *model, const struct analyze_place *at)
{
	uint32_t named = SYMBOLS_TITLE_NONE;

	for (uint32_t i = 0; i < at->line_count; i++) {
		uint32_t name = model->lines[at->first_line + i].name;
		uint32_t function = model->names[name].function;

		symbols_title_line(&named, i, function ? model->texts[function].bytes : NULL,
				   model->wrappers, model->wrapper_count);
	}
	return named;
}

static void retitle(const struct analyze_model *model, const uint32_t *named,
		    struct analyze_site *site)
{
	struct symbols_title title = {0};

	for (uint32_t frame = site->frame; frame; frame = model->frames[frame].parent) {
		uint32_t place = model->frames[frame].place;

		if (place &&
		    !symbols_title_place(&title, frame, named[place],
					 model->modules[model->places[place].module].is_runtime))
			break;
	}
	symbols_title_end(&title);

	const struct analyze_place *at = &model->places[model->frames[title.place].place];

	site->title_frame = title.place;
	site->title_line = at->first_line + (title.depth < at->line_count ? title.depth : 0);
}

struct error *analyze_titles_set(struct analyze_model *model, const char *const *patterns,
				 size_t pattern_count)
{
	CLEANUP_FREE uint32_t *named = calloc(model->place_count, sizeof(*named));

	if (!named)
		return error_no_memory();
	model->wrappers = patterns;
	model->wrapper_count = pattern_count;
	memset(model->wrapper_names, NOT_ASKED, model->name_count);
	for (size_t i = 1; i < model->place_count; i++)
		named[i] = name_place(model, &model->places[i]);
	for (size_t i = 0; i < model->site_count; i++)
		retitle(model, named, &model->sites[i]);
	return NULL;
}
