#include "collect/symbolize_internal.h"

#include <stdio.h>
#include <string.h>

#include "collect/files.h"
#include "symbols/title.h"

void collect_symbolizing_close(struct collect_symbolizing *symbolizing)
{
	if (!symbolizing)
		return;
	for (size_t i = 0; i < symbolizing->modules.count; i++) {
		free(symbolizing->modules.items[i].path);
		free(symbolizing->modules.items[i].build_id);
	}
	vector_free(&symbolizing->modules);
	map_u64_free(&symbolizing->module_at);
	vector_free(&symbolizing->locs);
	map_u64_free(&symbolizing->loc_at);
	vector_free(&symbolizing->stacks);
	map_u64_free(&symbolizing->stack_at);
	collect_titles_free(&symbolizing->titles);
	error_free(symbolizing->error);
	if (symbolizing->vdso >= 0)
		close(symbolizing->vdso);
	symbols_free(symbolizing->symbols);
	store_reader_close(symbolizing->reader);
	free(symbolizing);
}

/* --- reading ------------------------------------------------------------------------ */

static const enum symbols_level levels[] = {
	[STORE_SYMBOLS_FULL] = SYMBOLS_FULL,       [STORE_SYMBOLS_LINES] = SYMBOLS_LINES,
	[STORE_SYMBOLS_SYMTAB] = SYMBOLS_SYMTAB,   [STORE_SYMBOLS_NONE] = SYMBOLS_NONE,
	[STORE_SYMBOLS_PENDING] = SYMBOLS_PENDING,
};

static struct error *add_module(struct collect_symbolizing *symbolizing,
				const struct store_module *row)
{
	struct symbolize_module module = {.id = row->id, .level = levels[row->symbols]};
	struct store_text path;
	struct error *error = store_string(symbolizing->reader, row->path, &path);

	module.is_vdso = row->kind == STORE_MODULE_VDSO;
	/* Others have no file to read. */
	if (row->kind != STORE_MODULE_FILE && !module.is_vdso)
		module.level = SYMBOLS_FULL;
	if (!error)
		error = collect_plain_text(&path, &module.path);
	if (!error)
		module.is_runtime = symbols_title_is_runtime(module.path);
	if (!error)
		error = collect_plain_text(&row->build_id, &module.build_id);
	if (!error)
		error = map_u64_set(&symbolizing->module_at, row->id, symbolizing->modules.count);
	if (!error)
		error = vector_push(&symbolizing->modules, module);
	if (error) {
		free(module.path);
		free(module.build_id);
		return error;
	}
	return NULL;
}

/* One cursor's end, whichever error came first. */
static struct error *close_cursor(struct store_cursor *cursor, struct error *error)
{
	struct error *failure = store_cursor_close(cursor);

	if (error)
		error_free(failure);
	return error ? error : failure;
}

static struct error *read_modules(struct collect_symbolizing *symbolizing)
{
	struct store_cursor *cursor;
	struct store_module row;
	struct error *error = vector_push(&symbolizing->modules, (struct symbolize_module){0});

	if (error)
		return error;
	TRY(store_cursor_open(symbolizing->reader, STORE_TABLE_MODULE, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row))
		error = add_module(symbolizing, &row);
	return close_cursor(cursor, error);
}

static struct error *look_up(struct collect_symbolizing *symbolizing,
			     struct symbolize_module *module)
{
	CLEANUP_FREE char *file = NULL;
	uint8_t id[64];

	TRY(symbols_module_add(symbolizing->symbols, module->path, id,
			       symbols_parse_build_id(module->build_id, id, sizeof(id)),
			       &module->symbols));
	if (module->is_vdso)
		TRY(collect_vdso_path(&symbolizing->vdso, &file));
	return file ? symbols_module_add_file(module->symbols, file) : NULL;
}

static struct error *add_loc(struct collect_symbolizing *symbolizing, const struct store_loc *row)
{
	const uint64_t *at = map_u64_find(&symbolizing->module_at, row->module);
	struct symbolize_loc loc = {
		.id = row->id,
		.module = at ? (uint32_t)*at : 0,
		.offset = row->offset,
		.is_exact = row->flags & STORE_LOC_EXACT,
		.named = SYMBOLS_TITLE_NONE,
	};
	struct symbolize_module *module = &symbolizing->modules.items[loc.module];

	TRY(map_u64_set(&symbolizing->loc_at, row->id, symbolizing->locs.count));
	TRY(vector_push(&symbolizing->locs, loc));
	if (loc.module == 0 || module->level == SYMBOLS_FULL || row->offset == STORE_UNKNOWN)
		return NULL;
	if (!module->symbols)
		TRY(look_up(symbolizing, module));
	return symbols_address_add(module->symbols, loc.offset, loc.is_exact);
}

static struct error *read_locs(struct collect_symbolizing *symbolizing)
{
	struct store_cursor *cursor;
	struct store_loc row;
	struct error *error = vector_push(&symbolizing->locs, (struct symbolize_loc){0});

	if (error)
		return error;
	TRY(store_cursor_open(symbolizing->reader, STORE_TABLE_LOC, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row))
		error = add_loc(symbolizing, &row);
	return close_cursor(cursor, error);
}

/* A parent's id is less than its child's, which the reader does not check. */
static struct error *add_stack(struct collect_symbolizing *symbolizing,
			       const struct store_stack *row)
{
	const uint64_t *parent = map_u64_find(&symbolizing->stack_at, row->parent);
	const uint64_t *loc = map_u64_find(&symbolizing->loc_at, row->loc);
	const struct store_stack stack = {
		.id = row->id,
		.parent = parent && row->parent < row->id ? *parent : 0,
		.loc = loc ? *loc : 0,
	};

	TRY(map_u64_set(&symbolizing->stack_at, row->id, symbolizing->stacks.count));
	return vector_push(&symbolizing->stacks, stack);
}

static struct error *read_stacks(struct collect_symbolizing *symbolizing)
{
	struct store_cursor *cursor;
	struct store_stack row;
	struct error *error = vector_push(&symbolizing->stacks, (struct store_stack){0});

	if (error)
		return error;
	TRY(store_cursor_open(symbolizing->reader, STORE_TABLE_STACK, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row))
		error = add_stack(symbolizing, &row);
	return close_cursor(cursor, error);
}

/* --- what is better ------------------------------------------------------------------ */

/* What the profile has. */
static struct error *read_lines(struct collect_symbolizing *symbolizing)
{
	struct store_cursor *cursor;
	struct store_line row;

	TRY(store_cursor_open(symbolizing->reader, STORE_TABLE_LINE, STORE_ALL, &cursor));
	while (store_next(cursor, &row)) {
		const uint64_t *at = map_u64_find(&symbolizing->loc_at, row.loc);
		struct symbolize_loc *loc = at ? &symbolizing->locs.items[*at] : NULL;

		if (!loc)
			continue;
		loc->has_lines = true;
		symbolizing->modules.items[loc->module].named_then += row.function != 0;
	}
	return store_cursor_close(cursor);
}

const struct symbols_frame *collect_symbolize_frames(const struct collect_symbolizing *symbolizing,
						     const struct symbolize_loc *loc,
						     size_t *ret_count)
{
	const struct symbolize_module *module = &symbolizing->modules.items[loc->module];

	*ret_count = 0;
	return module->symbols
		       ? symbols_frames(module->symbols, loc->offset, loc->is_exact, ret_count)
		       : NULL;
}

static void compare(struct collect_symbolizing *symbolizing)
{
	for (size_t i = 1; i < symbolizing->locs.count; i++) {
		size_t count;
		const struct symbolize_loc *loc = &symbolizing->locs.items[i];
		const struct symbols_frame *frames =
			collect_symbolize_frames(symbolizing, loc, &count);

		for (size_t k = 0; k < count; k++)
			symbolizing->modules.items[loc->module].named_now +=
				frames[k].function != NULL;
	}
	for (size_t i = 1; i < symbolizing->modules.count; i++) {
		struct symbolize_module *module = &symbolizing->modules.items[i];
		enum symbols_level level = module->symbols
						   ? symbols_module_verdict(module->symbols).level
						   : SYMBOLS_PENDING;

		module->is_better =
			level > module->level ||
			(level == module->level && module->named_now > module->named_then);
	}
}

static struct error *read_all(struct collect_symbolizing *symbolizing, const char *path,
			      const struct symbols_options *options)
{
	TRY(store_reader_open(path, &symbolizing->reader));
	if (!store_reader_finished(symbolizing->reader))
		return error_create_path(ERROR_REFUSED, path,
					 "not written to its end: it would look whole");
	TRY(symbols_create(options, &symbolizing->symbols));
	TRY(collect_titles_read(&symbolizing->titles, symbolizing->reader));
	TRY(read_modules(symbolizing));
	TRY(read_locs(symbolizing));
	TRY(symbols_start(symbolizing->symbols));
	TRY(read_stacks(symbolizing));
	TRY(read_lines(symbolizing));
	TRY(symbols_resolve(symbolizing->symbols));
	compare(symbolizing);
	return NULL;
}

struct error *collect_symbolizing_open(const char *path, const struct symbols_options *options,
				       struct collect_symbolizing **ret)
{
	struct collect_symbolizing *symbolizing = calloc(1, sizeof(*symbolizing));

	if (!symbolizing)
		return error_no_memory();
	symbolizing->vdso = -1;
	struct error *error = read_all(symbolizing, path, options);

	if (error)
		collect_symbolizing_close(symbolizing);
	else
		*ret = symbolizing;
	return error;
}

static enum symbols_level level_of(const struct symbolize_module *module)
{
	return module->is_better ? symbols_module_verdict(module->symbols).level : module->level;
}

bool collect_symbolizing_module(const struct collect_symbolizing *symbolizing, size_t i,
				struct collect_symbolized_module *ret)
{
	/* Those that were looked up, and those that need not be, of which some place is known. */
	for (size_t at = 1; at < symbolizing->modules.count; at++) {
		const struct symbolize_module *module = &symbolizing->modules.items[at];

		if (!module->symbols && module->named_then == 0)
			continue;
		if (i-- > 0)
			continue;
		*ret = (struct collect_symbolized_module){
			.path = module->path,
			.build_id = module->build_id,
			.is_file = !module->is_vdso,
			.has_lines = level_of(module) >= SYMBOLS_LINES,
			.is_better = module->is_better,
		};
		return true;
	}
	return false;
}
