#include "collect/merge_internal.h"

#include <string.h>

#include "base/strbuf.h"
#include "symbols/title.h"

struct error *merge_begin_places(struct merging *merging)
{
	TRY(vector_push(&merging->modules, (struct merge_module){0}));
	TRY(vector_push(&merging->locs, (struct merge_loc){0}));
	return vector_push(&merging->stacks, (struct store_stack){0});
}

void merge_free_places(struct merging *merging)
{
	for (size_t i = 0; i < merging->modules.count; i++) {
		free(merging->modules.items[i].build_id);
		free(merging->modules.items[i].arch);
	}
	vector_free(&merging->modules);
	vector_free(&merging->locs);
	vector_free(&merging->stacks);
	map_index_free(&merging->module_index);
	map_index_free(&merging->loc_index);
	map_index_free(&merging->stack_index);
}

/* One that was not there when it was read before. */
static struct error *has_changed(const struct merging *merging)
{
	return merge_damaged(merging, "it changes while it is read");
}

/* --- modules -------------------------------------------------------------------------- */

struct module_key {
	const struct merging *merging;
	const struct store_module *row;
	bool is_shared;
};

static bool same_module(void *context, uint32_t position)
{
	const struct module_key *key = context;
	const struct merge_module *is = &key->merging->modules.items[position];

	if (!key->is_shared)
		return is->input == key->merging->input.number && is->id == key->row->id;
	return is->row.kind == key->row->kind && is->build_id &&
	       strlen(is->build_id) == key->row->build_id.length &&
	       memcmp(is->build_id, key->row->build_id.bytes, key->row->build_id.length) == 0;
}

/* Code in no file is each process's own, and a file without a build-id may be another elsewhere. */
static bool is_shared(const struct store_module *row)
{
	return (row->kind == STORE_MODULE_FILE || row->kind == STORE_MODULE_VDSO) &&
	       row->build_id.length;
}

static struct error *copy_text(const struct store_text *from, char **ret)
{
	return from->bytes ? collect_plain_text(from, ret) : NULL;
}

/* Full comes first of the enum; 0 is not known. */
static bool is_better(uint64_t level, uint64_t than) { return level && (!than || level < than); }

static struct error *know_better(struct merging *merging, struct merge_module *module,
				 const struct store_module *row)
{
	merging->differ |= module->row.symbols && module->row.symbols != row->symbols;
	if (!is_better(row->symbols, module->row.symbols))
		return NULL;
	module->row.symbols = row->symbols;
	TRY(store_copy_string(merging->input.copy, row->debug_file, &module->row.debug_file));
	return store_copy_string(merging->input.copy, row->reason, &module->row.reason);
}

static struct error *open_module(struct merging *merging, const struct store_module *row,
				 bool shared, uint64_t hash)
{
	struct merge_module module = {.input = SIZE_MAX};
	CLEANUP_FREE char *path = NULL;
	struct store_text text;

	if (!shared) {
		module.input = merging->input.number;
		module.id = row->id;
	}
	TRY(store_string(merging->input.reader, row->path, &text));
	TRY(collect_plain_text(&text, &path));
	module.is_runtime = symbols_title_is_runtime(path);
	module.row.id = merging->modules.count;
	module.row.kind = row->kind;
	TRY(store_copy_string(merging->input.copy, row->path, &module.row.path));
	struct error *error = copy_text(&row->build_id, &module.build_id);

	if (!error)
		error = copy_text(&row->arch, &module.arch);
	if (!error)
		error = map_index_add(&merging->module_index, hash,
				      (uint32_t)merging->modules.count);
	if (!error)
		error = vector_push(&merging->modules, module);
	if (error) {
		free(module.build_id);
		free(module.arch);
	}
	return error;
}

static struct error *take_module(struct merging *merging, const void *from)
{
	const struct store_module *row = from;
	struct module_key key = {.merging = merging, .row = row, .is_shared = is_shared(row)};
	uint64_t hash = key.is_shared ? map_hash_bytes(row->build_id.bytes, row->build_id.length)
				      : map_hash(row->id ^ map_hash(merging->input.number));
	uint32_t at = map_index_find(&merging->module_index, hash, same_module, &key);

	if (at == MAP_NONE && !merging->is_gathering)
		return has_changed(merging);
	if (at == MAP_NONE) {
		at = (uint32_t)merging->modules.count;
		TRY(open_module(merging, row, key.is_shared, hash));
	}
	if (merging->is_gathering)
		TRY(know_better(merging, &merging->modules.items[at], row));
	TRY(map_u64_set(&merging->input.levels, row->id, row->symbols));
	return map_u64_set(&merging->input.module_at, row->id, at);
}

struct error *merge_put_modules(struct merging *merging)
{
	for (size_t i = 1; i < merging->modules.count; i++) {
		struct merge_module *module = &merging->modules.items[i];

		if (module->build_id)
			module->row.build_id =
				(struct store_text){module->build_id, strlen(module->build_id)};
		if (module->arch)
			module->row.arch = (struct store_text){module->arch, strlen(module->arch)};
		TRY(store_put(merging->writer, &module->row));
	}
	return NULL;
}

/* --- places and stacks ------------------------------------------------------------------ */

struct loc_key {
	const struct merging *merging;
	struct merge_loc loc;
};

static bool same_loc(void *context, uint32_t position)
{
	const struct loc_key *key = context;
	const struct merge_loc *is = &key->merging->locs.items[position];

	return is->module == key->loc.module && is->offset == key->loc.offset &&
	       is->flags == key->loc.flags;
}

static struct error *take_loc(struct merging *merging, const void *from)
{
	const struct store_loc *row = from;
	const uint64_t *module = map_u64_find(&merging->input.module_at, row->module);
	struct loc_key key = {
		.merging = merging,
		.loc = {.offset = row->offset,
			.flags = (uint8_t)row->flags,
			.named = SYMBOLS_TITLE_NONE},
	};

	if (row->module && !module)
		return merge_damaged(merging, "a place is in no module");
	key.loc.module = module ? (uint32_t)*module : 0;
	uint64_t hash =
		map_hash(row->offset ^ map_hash((uint64_t)key.loc.module << 8 | row->flags));
	uint32_t at = map_index_find(&merging->loc_index, hash, same_loc, &key);

	if (at == MAP_NONE && !merging->is_gathering)
		return has_changed(merging);
	if (at == MAP_NONE) {
		at = (uint32_t)merging->locs.count;
		TRY(map_index_add(&merging->loc_index, hash, at));
		TRY(vector_push(&merging->locs, key.loc));
		TRY(store_put(merging->writer,
			      &((struct store_loc){at, key.loc.module, row->offset, row->flags})));
	}
	const uint64_t *level = map_u64_find(&merging->input.levels, row->module);

	if (!merging->is_gathering && level &&
	    *level != merging->modules.items[key.loc.module].row.symbols)
		TRY(map_u64_set(&merging->input.worse, row->id, 1));
	return map_u64_set(&merging->input.loc_at, row->id, at);
}

static bool same_stack(void *context, uint32_t position)
{
	void **pair = context;
	const struct merging *merging = pair[0];
	const struct store_stack *stack = pair[1];
	const struct store_stack *is = &merging->stacks.items[position];

	return is->parent == stack->parent && is->loc == stack->loc;
}

/* A parent comes before its children: so does its new id. */
static struct error *take_stack(struct merging *merging, const void *from)
{
	const struct store_stack *row = from;
	const uint64_t *parent = map_u64_find(&merging->input.stack_at, row->parent);
	const uint64_t *loc = map_u64_find(&merging->input.loc_at, row->loc);
	struct store_stack stack = {.parent = parent ? *parent : 0, .loc = loc ? *loc : 0};
	void *pair[] = {merging, &stack};

	if ((row->parent && !parent) || (row->loc && !loc))
		return merge_damaged(merging, "a stack goes through what is not there");
	uint64_t hash = map_hash(stack.loc ^ map_hash(stack.parent));
	uint32_t at = map_index_find(&merging->stack_index, hash, same_stack, pair);

	if (at == MAP_NONE && !merging->is_gathering)
		return has_changed(merging);
	if (at == MAP_NONE) {
		at = (uint32_t)merging->stacks.count;
		stack.id = at;
		TRY(map_index_add(&merging->stack_index, hash, at));
		TRY(vector_push(&merging->stacks, stack));
		TRY(store_put(merging->writer, &stack));
	}
	return map_u64_set(&merging->input.stack_at, row->id, at);
}

struct error *merge_places(struct merging *merging)
{
	struct store_module module;
	struct store_loc loc;
	struct store_stack stack;

	TRY(merge_each(merging, STORE_TABLE_MODULE, &module, take_module));
	TRY(merge_each(merging, STORE_TABLE_LOC, &loc, take_loc));
	return merge_each(merging, STORE_TABLE_STACK, &stack, take_stack);
}

/* --- lines -------------------------------------------------------------------------------- */

/* All lines of a place are one profile's: of the first that knows its module best, in a second
 * pass of the first that has any. */
static bool change_line(void *context, void *row)
{
	struct merging *merging = context;
	struct store_line *line = row;
	const uint64_t *at = map_u64_find(&merging->input.loc_at, line->loc);
	uint32_t tag =
		(uint32_t)(merging->pass * merging->merge->count + merging->input.number + 1);

	if (merging->error)
		return false;
	if (!at || *at == 0) {
		merging->error = merge_damaged(merging, "a line is of no place");
		return false;
	}
	struct merge_loc *loc = &merging->locs.items[*at];

	if (loc->lines && loc->lines != tag)
		return false;
	if (merging->pass == 0 && map_u64_find(&merging->input.worse, line->loc))
		return false;
	loc->lines = tag;
	merging->error =
		collect_titles_row(&merging->titles, merging->input.reader, line, &loc->named);
	line->loc = *at;
	return !merging->error;
}

struct error *merge_lines(struct merging *merging)
{
	TRY(store_copy_table(merging->input.copy, STORE_TABLE_LINE, change_line, merging));
	return STEAL(merging->error);
}
