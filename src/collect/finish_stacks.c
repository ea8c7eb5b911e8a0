/* Modules, places in them, their names; stacks; and the sites with what they are named after. */
#include "collect/finish_internal.h"

#include <string.h>

#include "base/strbuf.h"
#include "symbols/title.h"
#include "symbols/symbols.h"

/* Where frames are, whatever is above or below them. */
struct loc {
	uint32_t module; /* place in stacks */
	uint32_t flags;
	uint64_t offset;
	uint32_t named;  /* of symbols_title_line() */
	bool is_runtime; /* of the C or C++ library */
};

struct finish_placing {
	struct finishing *finishing;
	struct symbols *symbols;
	struct symbols_module **modules; /* by place in stacks; NULL = nothing to look up */
	int vdso;                        /* descriptor of this kernel's; −1 = not open */
	struct symbols_jit *jits;        /* likewise, of code in no module */
	size_t jit_count;
	VECTOR(struct loc) locs; /* [0] is not used */
	struct map_index loc_index;
	VECTOR(uint32_t) frame_locs; /* by frame, as far as they are placed; 0 = cut */
};

struct loc_key {
	const struct finish_placing *placing;
	struct loc loc;
};

/* How a frame was found does not make it another place. */
static bool same_loc(void *context, uint32_t position)
{
	const struct loc_key *key = context;
	const struct loc *is = &key->placing->locs.items[position];

	return is->module == key->loc.module && is->offset == key->loc.offset &&
	       !((is->flags ^ key->loc.flags) & STORE_LOC_EXACT);
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
	uint64_t hash = map_hash(key.loc.offset ^ map_hash((uint64_t)key.loc.module << 1 |
							   (key.loc.flags & STORE_LOC_EXACT)));
	uint32_t at = map_index_find(&placing->loc_index, hash, same_loc, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)placing->locs.count;
		TRY(vector_push(&placing->locs, key.loc));
		TRY(map_index_add(&placing->loc_index, hash, at));
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
		TRY(vector_push(&placing->locs, (struct loc){0}));
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

static bool has_symbols(const struct ledger_module *module)
{
	return !(module->flags & (MGL_MODULE_AGENT | LEDGER_MODULE_NOWHERE));
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
		const struct loc *loc = &placing->locs.items[i];
		const struct ledger_module *module = stacks->modules.items[loc->module];
		struct symbols_module **known = &placing->modules[loc->module];

		if (!has_symbols(module))
			continue;
		/* Opening a library's debug information takes its time: not for nothing. */
		if (!*known)
			TRY(add_module(placing, module, known));
		TRY(symbols_address_add(*known, loc->offset, loc->flags & STORE_LOC_EXACT));
	}
	return symbols_start(placing->symbols);
}

/* --- writing ------------------------------------------------------------------------ */

static struct error *intern(struct finish_placing *placing, const char *text, uint64_t *ret)
{
	return store_intern(placing->finishing->writer, text, text ? strlen(text) : 0, ret);
}

static const enum store_symbols levels[] = {
	[SYMBOLS_PENDING] = STORE_SYMBOLS_PENDING, [SYMBOLS_NONE] = STORE_SYMBOLS_NONE,
	[SYMBOLS_SYMTAB] = STORE_SYMBOLS_SYMTAB,   [SYMBOLS_LINES] = STORE_SYMBOLS_LINES,
	[SYMBOLS_FULL] = STORE_SYMBOLS_FULL,
};

static struct error *set_verdict(struct finish_placing *placing, size_t at,
				 struct store_module *row)
{
	struct symbols_verdict verdict = {.level = SYMBOLS_NONE};

	if (placing->modules[at])
		verdict = symbols_module_verdict(placing->modules[at]);
	else if (has_symbols(placing->finishing->stacks.modules.items[at]))
		verdict.level = SYMBOLS_PENDING;
	row->symbols = levels[verdict.level];
	TRY(intern(placing, verdict.debug_file, &row->debug_file));
	return intern(placing, verdict.reason, &row->reason);
}

static struct error *put_module(struct finish_placing *placing, size_t at)
{
	struct store_writer *writer = placing->finishing->writer;
	const struct ledger_module *module = placing->finishing->stacks.modules.items[at];
	bool is_vdso = module->flags & MGL_MODULE_VDSO;
	CLEANUP_STRBUF struct strbuf build_id = STRBUF_EMPTY;
	struct store_module row = {
		.id = at,
		.kind = is_vdso ? STORE_MODULE_VDSO : STORE_MODULE_FILE,
		.arch = {"x86_64", 6},
	};

	for (uint32_t i = 0; i < module->build_id_bytes; i++)
		strbuf_printf(&build_id, "%02x", module->build_id[i]);
	TRY(strbuf_result(&build_id));
	row.build_id = (struct store_text){build_id.text, build_id.length};
	if (module->path.length || !is_vdso)
		TRY(store_intern(writer, module->path.bytes, module->path.length, &row.path));
	else
		TRY(intern(placing, "[vdso]", &row.path));
	TRY(set_verdict(placing, at, &row));
	return store_put(writer, &row);
}

static bool is_nowhere(const struct finish_placing *placing, uint32_t module)
{
	return placing->finishing->stacks.modules.items[module]->flags & LEDGER_MODULE_NOWHERE;
}

static struct error *put_nowhere(struct finish_placing *placing, size_t at)
{
	const struct symbols_jit *jit = &placing->jits[at];
	struct store_module row = {
		.id = at,
		.kind = jit->named ? STORE_MODULE_JIT : STORE_MODULE_ANON,
		.symbols = STORE_SYMBOLS_NONE,
	};

	if (jit->named)
		row.symbols = jit->lined ? STORE_SYMBOLS_FULL : STORE_SYMBOLS_SYMTAB;
	if (jit->named < jit->pcs.count)
		TRY(intern(placing,
			   jit->named ? "some of the code is in no perf map or jitdump file"
				      : "code made at run time, and no perf map or jitdump file",
			   &row.reason));
	TRY(intern(placing, jit->named ? "[jit]" : "[anonymous]", &row.path));
	return store_put(placing->finishing->writer, &row);
}

static struct error *put_modules(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	for (uint32_t i = 1; i < stacks->modules.count; i++) {
		if (stacks->modules.items[i]->flags & MGL_MODULE_AGENT)
			continue;
		if (is_nowhere(placing, i))
			TRY(put_nowhere(placing, i));
		else
			TRY(put_module(placing, i));
	}
	return NULL;
}

static uint64_t jit_pc(const struct loc *loc)
{
	return loc->flags & STORE_LOC_EXACT ? loc->offset : loc->offset - 1;
}

static struct error *name_jits(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	placing->jits = calloc(stacks->modules.count, sizeof(*placing->jits));
	if (!placing->jits)
		return error_no_memory();
	placing->jit_count = stacks->modules.count;
	for (size_t i = 1; i < placing->locs.count; i++) {
		const struct loc *loc = &placing->locs.items[i];

		if (loc->module && is_nowhere(placing, loc->module))
			TRY(symbols_jit_add(&placing->jits[loc->module], jit_pc(loc)));
	}
	for (size_t i = 1; i < stacks->modules.count; i++)
		if (placing->jits[i].pcs.count)
			TRY(collect_finish_jit(placing->finishing, stacks->modules.items[i]->index,
					       &placing->jits[i]));
	return NULL;
}

/* false = it has no name. */
static bool jit_frame(const struct finish_placing *placing, const struct loc *loc,
		      struct symbols_frame *ret)
{
	const struct symbols_jit *jit = &placing->jits[loc->module];
	const struct symbols_jit_pc *pc = symbols_jit_find(jit, jit_pc(loc));

	if (!pc || !pc->function)
		return false;
	*ret = (struct symbols_frame){
		.function = symbols_jit_text(jit, pc->function),
		.file = symbols_jit_text(jit, pc->file),
		.line = pc->line,
		.column = pc->column,
	};
	return true;
}

static struct error *put_lines(struct finish_placing *placing, size_t at)
{
	struct loc *loc = &placing->locs.items[at];
	const struct collect_finish_options *options = placing->finishing->options;
	const struct symbols_frame *frames = NULL;
	struct symbols_frame made;
	size_t count = 0;

	loc->named = SYMBOLS_TITLE_NONE;
	if (placing->modules[loc->module])
		frames = symbols_frames(placing->modules[loc->module], loc->offset,
					loc->flags & STORE_LOC_EXACT, &count);
	else if (is_nowhere(placing, loc->module) && jit_frame(placing, loc, &made)) {
		frames = &made;
		count = 1;
	}
	if (count == 0)
		loc->named = 0;
	for (size_t i = 0; i < count; i++) {
		const struct symbols_frame *frame = &frames[i];
		struct store_line row = {
			.loc = at,
			.depth = i,
			.line = frame->line ? frame->line : STORE_UNKNOWN,
			.col = frame->column ? frame->column : STORE_UNKNOWN,
		};

		TRY(intern(placing, frame->function, &row.function));
		TRY(intern(placing, frame->file, &row.file));
		TRY(store_put(placing->finishing->writer, &row));
		symbols_title_line(&loc->named, (uint32_t)i, frame->function, options->alloc_fns,
				   options->alloc_fn_count);
	}
	return NULL;
}

static struct error *put_locs(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	/* How a frame was found may have been said since it was placed. */
	for (size_t i = 1; i < stacks->frames.count; i++)
		if (placing->frame_locs.items[i] && stacks->frames.items[i].flags & MGL_NODE_FP)
			placing->locs.items[placing->frame_locs.items[i]].flags |= STORE_LOC_FP;
	for (size_t i = 1; i < placing->locs.count; i++) {
		struct loc *loc = &placing->locs.items[i];

		TRY(store_put(placing->finishing->writer, &((struct store_loc){
								  .id = i,
								  .module = loc->module,
								  .offset = loc->offset,
								  .flags = loc->flags,
							  })));
		loc->is_runtime =
			symbols_title_is_runtime(stacks->modules.items[loc->module]->path.bytes);
	}
	return NULL;
}

static void find_title(const struct finish_placing *placing, uint32_t innermost,
		       struct store_site *site)
{
	const struct ledger_frame *frames = placing->finishing->stacks.frames.items;
	struct symbols_title title = {0};

	for (uint32_t frame = innermost; frame; frame = frames[frame].parent) {
		uint32_t at = placing->frame_locs.items[frame];
		const struct loc *loc = &placing->locs.items[at];

		if (at && !symbols_title_place(&title, at, loc->named, loc->is_runtime))
			break;
	}
	symbols_title_end(&title);
	site->title = title.place;
	site->title_depth = title.place ? title.depth : STORE_UNKNOWN;
}

static uint64_t live(uint64_t in, uint64_t out) { return (int64_t)(in - out) < 0 ? 0 : in - out; }

static uint64_t positive(uint64_t value) { return (int64_t)value < 0 ? 0 : value; }

static struct error *put_sites(struct finish_placing *placing)
{
	struct finishing *finishing = placing->finishing;

	for (size_t i = 0; i < finishing->sites.count; i++) {
		const struct finish_site *site = &finishing->sites.items[i];
		const struct finish_counts *counts = &site->counts;
		struct store_site row = {
			.id = i + 1,
			.process = ledger_reader_process(finishing->reader, site->process)->serial,
			.stack = site->frame,
			.api = site->api,
			.allocs = counts->allocs,
			.frees = counts->frees,
			.alloc_bytes = counts->bytes_in,
			.live_blocks = live(counts->allocs, counts->frees),
			.live_bytes = live(counts->bytes_in, counts->bytes_out),
			.temporary = counts->temporaries,
			.peak_blocks = positive(counts->peak_blocks),
			.peak_bytes = positive(counts->peak_bytes),
			.lifetime_allocs = counts->lifetime,
			.realloc_moved = counts->moved,
			.foreign_frees = counts->foreign_frees,
		};

		find_title(placing, site->frame, &row);
		TRY(store_put(finishing->writer, &row));
	}
	return NULL;
}

struct error *collect_finish_symbols(struct finishing *finishing)
{
	TRY(collect_finish_frames(finishing));
	TRY(put_locs(finishing->placing));
	TRY(start_symbols(finishing->placing));
	return name_jits(finishing->placing);
}

struct error *collect_finish_stacks(struct finishing *finishing)
{
	if (!finishing->placing || !finishing->placing->modules)
		TRY(collect_finish_symbols(finishing));

	struct finish_placing *placing = finishing->placing;

	if (placing->symbols)
		TRY(symbols_resolve(placing->symbols));
	TRY(put_modules(placing));
	for (size_t i = 1; i < placing->locs.count; i++)
		TRY(put_lines(placing, i));
	return put_sites(placing);
}
