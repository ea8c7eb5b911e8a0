/* Stacks, the places their frames are in, and the reading of symbols for those. */
#include "collect/finish_placing.h"

#include "symbols/title.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

struct loc_key {
	const struct finish_placing *placing;
	struct finish_loc loc;
};

/* How a frame was found does not make it another place. */
static bool same_loc(void *context, uint32_t position)
{
	const struct loc_key *key = context;
	const struct finish_loc *is = &key->placing->locs.items[position];

	return is->module == key->loc.module && is->offset == key->loc.offset &&
	       !((is->flags ^ key->loc.flags) & STORE_LOC_EXACT);
}

static uint64_t loc_hash(const struct finish_loc *loc)
{
	return map_hash(loc->offset ^
			map_hash((uint64_t)loc->module << 1 | (loc->flags & STORE_LOC_EXACT)));
}

bool collect_finish_has_loc(const struct finish_placing *placing, const struct finish_loc *loc)
{
	struct loc_key key = {.placing = placing, .loc = *loc};

	return map_index_find(&placing->loc_index, loc_hash(loc), same_loc, &key) != MAP_NONE;
}

struct error *collect_finish_load_loc(struct finish_placing *placing, struct finish_loc loc)
{
	TRY(vector_push(&placing->locs, loc));
	return map_index_add(&placing->loc_index, loc_hash(&loc),
			     (uint32_t)placing->locs.count - 1);
}

static struct error *loc_of(struct finish_placing *placing, const struct ledger_frame *frame,
			    uint32_t *ret)
{
	struct loc_key key = {
		.placing = placing,
		.loc =
			{
				.module = frame->module,
				.flags = (frame->flags & MGL_NODE_EXACT ? STORE_LOC_EXACT : 0) |
					 (frame->flags & MGL_NODE_FP ? STORE_LOC_FP : 0),
				.offset = frame->offset,
			},
	};
	uint32_t at = map_index_find(&placing->loc_index, loc_hash(&key.loc), same_loc, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)placing->locs.count;
		TRY(collect_finish_load_loc(placing, key.loc));
	}
	placing->locs.items[at].flags |= key.loc.flags;
	*ret = at;
	return NULL;
}

static struct error *place_frame(struct finish_placing *placing, uint32_t at)
{
	const struct ledger_frame *frame = &placing->finishing->stacks.frames.items[at];
	struct store_stack row = {.id = at, .parent = frame->parent};
	uint32_t loc = 0;

	if (!(frame->flags & MGL_NODE_CUT))
		TRY(loc_of(placing, frame, &loc));
	row.loc = loc;
	TRY(vector_push(&placing->frame_locs, loc));
	return store_put(placing->finishing->writer, &row);
}

struct error *collect_finish_frames(struct finishing *finishing)
{
	struct finish_placing *placing = finishing->placing;

	if (!placing) {
		placing = calloc(1, sizeof(*placing));
		if (!placing)
			return error_no_memory();
		finishing->placing = placing;
		placing->finishing = finishing;
		placing->vdso = -1;
		TRY(vector_push(&placing->locs, (struct finish_loc){0}));
		TRY(vector_push(&placing->frame_locs, 0));
	}
	while (placing->frame_locs.count < finishing->stacks.frames.count)
		TRY(place_frame(placing, (uint32_t)placing->frame_locs.count));
	return NULL;
}

void collect_finish_frames_free(struct finishing *finishing)
{
	struct finish_placing *placing = finishing->placing;

	if (!placing)
		return;
	symbols_free(placing->symbols);
	free(placing->modules);
	if (placing->vdso >= 0)
		close(placing->vdso);
	for (size_t i = 0; i < placing->jit_count; i++)
		symbols_jit_free(&placing->jits[i]);
	free(placing->jits);
	vector_free(&placing->frame_locs);
	vector_free(&placing->locs);
	map_index_free(&placing->loc_index);
	free(placing);
}

static struct error *add_module(struct finish_placing *placing, const struct ledger_module *module,
				struct symbols_module **ret)
{
	CLEANUP_FREE char *file = NULL;

	if (module->flags & MGL_MODULE_VDSO)
		TRY(collect_vdso_path(&placing->vdso, &file));
	else
		TRY(collect_files_find(placing->finishing->options->files, module, &file));
	TRY(symbols_module_add(placing->symbols, module->path.bytes, module->build_id,
			       module->build_id_bytes, ret));
	return file ? symbols_module_add_file(*ret, file) : NULL;
}

static struct error *start_symbols(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	placing->modules = calloc(stacks->modules.count, sizeof(*placing->modules));
	if (!placing->modules)
		return error_no_memory();
	if (placing->finishing->options->no_symbols)
		return NULL;
	TRY(symbols_create(placing->finishing->options->symbols, &placing->symbols));
	for (size_t i = 1; i < placing->locs.count; i++) {
		const struct finish_loc *loc = &placing->locs.items[i];
		const struct ledger_module *module = stacks->modules.items[loc->module];
		struct symbols_module **known = &placing->modules[loc->module];

		if (!collect_finish_has_symbols(module))
			continue;
		/* Opening a library's debug information takes its time: not for nothing. */
		if (!*known)
			TRY(add_module(placing, module, known));
		TRY(symbols_address_add(*known, loc->offset, loc->flags & STORE_LOC_EXACT));
	}
	return symbols_start(placing->symbols);
}

static struct error *put_loc(struct finish_placing *placing, size_t at)
{
	struct store_writer *writer = placing->finishing->writer;
	struct finish_loc *loc = &placing->locs.items[at];
	struct store_loc row = {
		.id = at,
		.module = loc->module,
		.offset = loc->offset,
		.flags = loc->flags,
	};

	if (at < placing->locs_put && loc->put_flags == loc->flags)
		return NULL;
	loc->put_flags = loc->flags;
	return at < placing->locs_put ? store_change_loc(writer, at, loc->flags)
				      : store_put(writer, &row);
}

static struct error *put_locs(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	/* How a frame was found may have been said since it was placed. */
	for (size_t i = 1; i < stacks->frames.count; i++)
		if (placing->frame_locs.items[i] && stacks->frames.items[i].flags & MGL_NODE_FP)
			placing->locs.items[placing->frame_locs.items[i]].flags |= STORE_LOC_FP;
	for (size_t i = 1; i < placing->locs.count; i++)
		TRY(put_loc(placing, i));
	placing->locs_put = placing->locs.count;
	return NULL;
}

static void find_runtimes(struct finish_placing *placing)
{
	struct ledger_module **modules = placing->finishing->stacks.modules.items;

	for (size_t i = 1; i < placing->locs.count; i++) {
		struct finish_loc *loc = &placing->locs.items[i];

		loc->is_runtime = symbols_title_is_runtime(modules[loc->module]->path.bytes);
	}
}

struct error *collect_finish_put_places(struct finishing *finishing)
{
	TRY(collect_finish_frames(finishing));
	TRY(put_locs(finishing->placing));
	return collect_finish_put_modules(finishing->placing);
}

/* Where there are no descriptors or processes to be had for reading symbols, a profile without
 * is better than none: they are pending, as of one recorded so. */
static struct error *without_names(struct finish_placing *placing, struct error *error)
{
	if (!error || error->code != ERROR_SYSTEM)
		return error;
	log_warn("no names: %s", error->message);
	error_free(error);
	symbols_free(placing->symbols);
	placing->symbols = NULL;
	for (size_t i = 0; i < placing->finishing->stacks.modules.count; i++)
		placing->modules[i] = NULL;
	return NULL;
}

struct error *collect_finish_symbols(struct finishing *finishing)
{
	TRY(collect_finish_frames(finishing));
	TRY(put_locs(finishing->placing));
	find_runtimes(finishing->placing);
	TRY(without_names(finishing->placing, start_symbols(finishing->placing)));
	return collect_finish_name_jits(finishing->placing);
}

struct error *collect_finish_stacks(struct finishing *finishing)
{
	if (!finishing->placing || !finishing->placing->modules)
		TRY(collect_finish_symbols(finishing));

	struct finish_placing *placing = finishing->placing;

	if (placing->symbols)
		TRY(without_names(placing, symbols_resolve(placing->symbols)));
	return collect_finish_put_names(placing);
}
