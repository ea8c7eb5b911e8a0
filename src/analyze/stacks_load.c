/* Strings, modules, places with their lines and names, and frames, out of the profile. */
#include "analyze/model_internal.h"

#include <string.h>

#include "symbols/title.h"

/* Deeper than any agent records, with all that can be inlined there. */
#define MAX_DEPTH 65536u

struct error *analyze_ids_add(struct analyze_ids *ids, uint64_t id)
{
	return vector_push(&ids->list, (uint32_t)id);
}

struct error *analyze_ids_find(const struct analyze_ids *ids, uint64_t id, const char *what,
			       uint32_t *ret)
{
	size_t low = 0, high = ids->list.count;

	*ret = 0;
	if (id == 0)
		return NULL;
	/* Without gaps, as they are written. */
	if (id <= high && ids->list.items[id - 1] == id) {
		*ret = (uint32_t)id;
		return NULL;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ids->list.items[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == ids->list.count || ids->list.items[low] != id)
		return error_create(ERROR_DAMAGED,
				    "the profile is damaged: there is no %s %llu, which is "
				    "referred to",
				    what, (unsigned long long)id);
	*ret = (uint32_t)low + 1;
	return NULL;
}

/* --- strings ------------------------------------------------------------------------ */

static struct error *add_text(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_string *row = from;
	struct analyze_text text = {.length = row->s.length};
	size_t start = loading->text_bytes.count;

	TRY(analyze_ids_add(&loading->texts, row->id));
	TRY(vector_reserve(&loading->text_bytes, row->s.length + 1));
	char *to = loading->text_bytes.items + start;

	memcpy(to, row->s.bytes, row->s.length);
	if (memmem(to, row->s.length, "\\x", 2))
		text.length = store_unescape(to, row->s.length);
	to[text.length] = '\0';
	loading->text_bytes.count += text.length + 1;
	return vector_push(&loading->text_list, text);
}

static struct error *load_texts(struct loading *loading)
{
	struct store_string row;

	TRY(vector_push(&loading->text_list, (struct analyze_text){0}));
	TRY(analyze_each_row(loading->reader, STORE_TABLE_STRING, STORE_ALL, &row, add_text,
			     loading));

	/* Now that they no longer move. */
	const char *at = loading->text_bytes.items;

	for (size_t i = 1; i < loading->text_list.count; i++) {
		loading->text_list.items[i].bytes = at;
		at += loading->text_list.items[i].length + 1;
	}
	return NULL;
}

/* An empty one says as little as none. */
static struct error *find_text(struct loading *loading, uint64_t id, uint32_t *ret)
{
	TRY(analyze_ids_find(&loading->texts, id, "string", ret));
	if (loading->text_list.items[*ret].length == 0)
		*ret = 0;
	return NULL;
}

struct error *analyze_loading_text(struct loading *loading, uint64_t id, struct analyze_text *ret)
{
	uint32_t at;

	TRY(find_text(loading, id, &at));
	*ret = loading->text_list.items[at];
	return NULL;
}

/* --- modules ------------------------------------------------------------------------ */

static enum analyze_symbols symbols_of(uint64_t symbols)
{
	switch (symbols) {
	case STORE_SYMBOLS_FULL:
		return ANALYZE_SYMBOLS_FULL;
	case STORE_SYMBOLS_LINES:
		return ANALYZE_SYMBOLS_LINES;
	case STORE_SYMBOLS_SYMTAB:
		return ANALYZE_SYMBOLS_SYMTAB;
	case STORE_SYMBOLS_PENDING:
		return ANALYZE_SYMBOLS_PENDING;
	default:
		return ANALYZE_SYMBOLS_NONE;
	}
}

static struct error *add_module(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_module *row = from;
	struct analyze_module module = {
		.symbols = symbols_of(row->symbols),
		.is_file = row->kind == STORE_MODULE_FILE,
		.is_made = row->kind == STORE_MODULE_ANON || row->kind == STORE_MODULE_JIT,
	};

	TRY(analyze_ids_add(&loading->modules, row->id));
	if (row->kind != STORE_MODULE_ANON)
		TRY(analyze_loading_text(loading, row->path, &module.path));
	TRY(analyze_loading_text(loading, row->debug_file, &module.debug_file));
	TRY(analyze_loading_text(loading, row->reason, &module.reason));
	if (module.path.bytes)
		module.is_runtime = symbols_title_is_runtime(module.path.bytes);
	if (row->build_id.length)
		TRY(analyze_text_copy(&module.build_id, &row->build_id));
	struct error *error = vector_push(&loading->module_list, module);

	if (error)
		free((char *)(uintptr_t)module.build_id.bytes);
	return error;
}

static struct error *load_modules(struct loading *loading)
{
	struct store_module row;

	TRY(vector_push(&loading->module_list, (struct analyze_module){0}));
	return analyze_each_row(loading->reader, STORE_TABLE_MODULE, STORE_ALL, &row, add_module,
				loading);
}

/* --- names, lines, places ----------------------------------------------------------- */

struct name_key {
	const struct loading *loading;
	struct analyze_name name;
};

static bool same_name(void *context, uint32_t position)
{
	const struct name_key *key = context;
	const struct analyze_name *is = &key->loading->name_list.items[position];

	return is->module == key->name.module && is->function == key->name.function &&
	       is->offset == key->name.offset;
}

static struct error *name_of(struct loading *loading, uint32_t module, uint32_t function,
			     uint64_t offset, uint32_t *ret)
{
	struct name_key key = {
		.loading = loading,
		.name = {.module = module, .function = function, .offset = function ? 0 : offset},
	};
	uint64_t hash =
		map_hash(key.name.offset ^ map_hash((uint64_t)module << 32 | key.name.function));
	uint32_t at = map_index_find(&loading->name_index, hash, same_name, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)loading->name_list.count;
		TRY(vector_push(&loading->name_list, key.name));
		TRY(map_index_add(&loading->name_index, hash, at));
	}
	*ret = at;
	return NULL;
}

static struct error *put_line(struct loading *loading, struct analyze_place *place,
			      uint32_t function, struct analyze_line line)
{
	TRY(name_of(loading, place->module, function, place->offset, &line.name));
	if (place->line_count == 0)
		place->first_line = (uint32_t)loading->line_list.count;
	place->line_count++;
	return vector_push(&loading->line_list, line);
}

static struct error *add_line(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_line *row = from;
	struct analyze_line line = {
		.line = row->line > UINT32_MAX ? 0 : (uint32_t)row->line,
		.column = row->col > UINT32_MAX ? 0 : (uint32_t)row->col,
	};
	uint32_t place, function;

	TRY(analyze_ids_find(&loading->places, row->loc, "loc", &place));
	TRY(find_text(loading, row->function, &function));
	TRY(find_text(loading, row->file, &line.file));
	return put_line(loading, &loading->place_list.items[place], function, line);
}

static struct error *load_lines(struct loading *loading)
{
	struct store_line row;

	TRY(analyze_each_row(loading->reader, STORE_TABLE_LINE, STORE_ALL, &row, add_line,
			     loading));
	/* Those without have one that says where they are. */
	for (size_t i = 1; i < loading->place_list.count; i++)
		if (loading->place_list.items[i].line_count == 0)
			TRY(put_line(loading, &loading->place_list.items[i], 0,
				     (struct analyze_line){0}));
	return NULL;
}

static struct error *add_place(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_loc *row = from;
	struct analyze_place place = {
		.offset = row->offset,
		.is_exact = row->flags & STORE_LOC_EXACT,
	};

	TRY(analyze_ids_add(&loading->places, row->id));
	TRY(analyze_ids_find(&loading->modules, row->module, "module", &place.module));
	return vector_push(&loading->place_list, place);
}

static struct error *load_places(struct loading *loading)
{
	struct store_loc row;

	TRY(vector_push(&loading->name_list, (struct analyze_name){0}));
	TRY(vector_push(&loading->line_list, (struct analyze_line){0}));
	TRY(vector_push(&loading->place_list, ((struct analyze_place){.line_count = 1})));
	TRY(analyze_each_row(loading->reader, STORE_TABLE_LOC, STORE_ALL, &row, add_place,
			     loading));
	return load_lines(loading);
}

/* --- frames ------------------------------------------------------------------------- */

static struct error *add_frame(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_stack *row = from;
	struct analyze_frame frame = {0};

	TRY(analyze_ids_find(&loading->frames, row->parent, "stack", &frame.parent));
	TRY(analyze_ids_find(&loading->places, row->loc, "loc", &frame.place));
	TRY(analyze_ids_add(&loading->frames, row->id));
	frame.depth = loading->frame_list.items[frame.parent].depth + 1;
	if (frame.depth > MAX_DEPTH)
		return error_create(ERROR_DAMAGED,
				    "the profile is damaged: a stack of more than %u frames",
				    MAX_DEPTH);
	return vector_push(&loading->frame_list, frame);
}

static struct error *load_frames(struct loading *loading)
{
	struct store_stack row;

	TRY(vector_push(&loading->frame_list, (struct analyze_frame){0}));
	return analyze_each_row(loading->reader, STORE_TABLE_STACK, STORE_ALL, &row, add_frame,
				loading);
}

struct error *analyze_loading_stacks(struct loading *loading)
{
	TRY(load_texts(loading));
	TRY(load_modules(loading));
	TRY(load_places(loading));
	return load_frames(loading);
}
