#include "collect/symbolize_internal.h"

#include <string.h>

#include "collect/rewrite.h"

static const enum store_symbols store_levels[] = {
	[SYMBOLS_PENDING] = STORE_SYMBOLS_PENDING, [SYMBOLS_NONE] = STORE_SYMBOLS_NONE,
	[SYMBOLS_SYMTAB] = STORE_SYMBOLS_SYMTAB,   [SYMBOLS_LINES] = STORE_SYMBOLS_LINES,
	[SYMBOLS_FULL] = STORE_SYMBOLS_FULL,
};

static struct error *intern(struct collect_symbolizing *symbolizing, const char *text,
			    uint64_t *ret)
{
	return store_intern(symbolizing->writer, text, text ? strlen(text) : 0, ret);
}

static struct error *put_module(struct collect_symbolizing *symbolizing,
				const struct store_module *from)
{
	const uint64_t *at = map_u64_find(&symbolizing->module_at, from->id);
	const struct symbolize_module *module = &symbolizing->modules.items[*at];
	struct symbols_verdict verdict = symbols_module_verdict(module->symbols);
	struct store_module row = *from;

	row.build_id = (struct store_text){module->build_id, strlen(module->build_id)};
	if (row.build_id.length == 0)
		row.build_id.bytes = NULL;
	row.symbols = store_levels[verdict.level];
	TRY(store_copy_string(symbolizing->copy, from->path, &row.path));
	TRY(intern(symbolizing, verdict.debug_file, &row.debug_file));
	TRY(intern(symbolizing, verdict.reason, &row.reason));
	return store_put(symbolizing->writer, &row);
}

/* The rows of better modules are put here, the others copied. */
static bool change_module(void *context, void *row)
{
	struct collect_symbolizing *symbolizing = context;
	const struct store_module *from = row;
	const uint64_t *at = map_u64_find(&symbolizing->module_at, from->id);

	if (!at || !symbolizing->modules.items[*at].is_better || symbolizing->error)
		return true;
	symbolizing->error = put_module(symbolizing, from);
	return false;
}

/* What is kept of the lines also says what sites are named after. */
static bool change_line(void *context, void *row)
{
	struct collect_symbolizing *symbolizing = context;
	const struct store_line *line = row;
	const uint64_t *at = map_u64_find(&symbolizing->loc_at, line->loc);
	struct symbolize_loc *loc = at ? &symbolizing->locs.items[*at] : NULL;

	if (!loc || symbolizing->error)
		return true;
	if (symbolizing->modules.items[loc->module].is_better)
		return false;
	symbolizing->error =
		collect_titles_row(&symbolizing->titles, symbolizing->reader, line, &loc->named);
	return true;
}

static struct error *put_lines(struct collect_symbolizing *symbolizing, struct symbolize_loc *loc)
{
	size_t count;
	const struct symbols_frame *frames = collect_symbolize_frames(symbolizing, loc, &count);

	for (size_t i = 0; i < count; i++) {
		struct store_line row = {
			.loc = loc->id,
			.depth = i,
			.line = frames[i].line ? frames[i].line : STORE_UNKNOWN,
			.col = frames[i].column ? frames[i].column : STORE_UNKNOWN,
		};

		TRY(intern(symbolizing, frames[i].function, &row.function));
		TRY(intern(symbolizing, frames[i].file, &row.file));
		TRY(store_put(symbolizing->writer, &row));
		collect_titles_line(&symbolizing->titles, i, frames[i].function, &loc->named);
	}
	if (count == 0)
		loc->named = 0;
	return NULL;
}

static struct error *put_all_lines(struct collect_symbolizing *symbolizing)
{
	TRY(store_copy_table(symbolizing->copy, STORE_TABLE_LINE, change_line, symbolizing));
	TRY(STEAL(symbolizing->error));
	for (size_t i = 1; i < symbolizing->locs.count; i++) {
		struct symbolize_loc *loc = &symbolizing->locs.items[i];

		if (symbolizing->modules.items[loc->module].is_better)
			TRY(put_lines(symbolizing, loc));
		else if (!loc->has_lines)
			loc->named = 0;
	}
	return NULL;
}

static struct collect_titles_place place_of(void *context, uint64_t at)
{
	const struct collect_symbolizing *symbolizing = context;
	const struct symbolize_loc *loc = &symbolizing->locs.items[at];

	return (struct collect_titles_place){
		.id = loc->id,
		.named = loc->named,
		.is_runtime = symbolizing->modules.items[loc->module].is_runtime,
	};
}

static bool change_site(void *context, void *row)
{
	const struct collect_symbolizing *symbolizing = context;
	struct store_site *site = row;
	const uint64_t *at = map_u64_find(&symbolizing->stack_at, site->stack);

	collect_titles_set(site, symbolizing->stacks.items, at ? *at : 0, place_of, context);
	return true;
}

static struct error *put_tables(struct collect_symbolizing *symbolizing)
{
	struct store_copy *copy = symbolizing->copy;

	TRY(store_copy_meta(copy));
	TRY(store_copy_table(copy, STORE_TABLE_MODULE, change_module, symbolizing));
	TRY(STEAL(symbolizing->error));
	TRY(put_all_lines(symbolizing));
	TRY(store_copy_table(copy, STORE_TABLE_SITE, change_site, symbolizing));
	for (int table = 0; table < STORE_TABLE_COUNT; table++)
		if (table != STORE_TABLE_STRING && table != STORE_TABLE_MODULE &&
		    table != STORE_TABLE_LINE && table != STORE_TABLE_SITE)
			TRY(store_copy_table(copy, (enum store_table)table, NULL, NULL));
	return NULL;
}

static struct error *put_profile(void *context, struct store_writer *writer)
{
	struct collect_symbolizing *symbolizing = context;

	symbolizing->writer = writer;
	struct error *error =
		store_copy_begin(symbolizing->reader, symbolizing->writer, &symbolizing->copy);

	if (!error)
		error = put_tables(symbolizing);
	store_copy_end(symbolizing->copy);
	symbolizing->copy = NULL;
	symbolizing->writer = NULL;
	return error;
}

struct error *collect_symbolizing_write(struct collect_symbolizing *symbolizing,
					struct collect_output *output)
{
	return collect_rewrite(output, put_profile, symbolizing);
}
