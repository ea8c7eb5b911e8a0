/* What modules, places in them and sites are called. */
#include "collect/finish_placing.h"

#include <string.h>

#include "base/strbuf.h"
#include "symbols/title.h"

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

	if (placing->modules && placing->modules[at])
		verdict = symbols_module_verdict(placing->modules[at]);
	else if (collect_finish_has_symbols(placing->finishing->stacks.modules.items[at]))
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

static struct error *put_nowhere(struct finish_placing *placing, size_t at)
{
	static const struct symbols_jit nothing;
	const struct symbols_jit *jit = placing->jits ? &placing->jits[at] : &nothing;
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

static struct error *put_modules(struct finish_placing *placing, size_t first)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	for (uint32_t i = (uint32_t)first; i < stacks->modules.count; i++) {
		if (stacks->modules.items[i]->flags & MGL_MODULE_AGENT)
			continue;
		if (collect_finish_is_nowhere(placing, i))
			TRY(put_nowhere(placing, i));
		else
			TRY(put_module(placing, i));
	}
	return NULL;
}

struct error *collect_finish_put_modules(struct finish_placing *placing)
{
	size_t first = placing->modules_put ? placing->modules_put : 1;

	TRY(put_modules(placing, first));
	placing->modules_put = placing->finishing->stacks.modules.count;
	return NULL;
}

static uint64_t jit_pc(const struct finish_loc *loc)
{
	return loc->flags & STORE_LOC_EXACT ? loc->offset : loc->offset - 1;
}

struct error *collect_finish_name_jits(struct finish_placing *placing)
{
	const struct ledger_stacks *stacks = &placing->finishing->stacks;

	placing->jits = calloc(stacks->modules.count, sizeof(*placing->jits));
	if (!placing->jits)
		return error_no_memory();
	placing->jit_count = stacks->modules.count;
	for (size_t i = 1; i < placing->locs.count; i++) {
		const struct finish_loc *loc = &placing->locs.items[i];

		if (loc->module && collect_finish_is_nowhere(placing, loc->module))
			TRY(symbols_jit_add(&placing->jits[loc->module], jit_pc(loc)));
	}
	for (size_t i = 1; i < stacks->modules.count; i++)
		if (placing->jits[i].pcs.count)
			TRY(collect_finish_jit(placing->finishing, stacks->modules.items[i]->index,
					       &placing->jits[i]));
	return NULL;
}

/* false = it has no name. */
static bool jit_frame(const struct finish_placing *placing, const struct finish_loc *loc,
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
	struct finish_loc *loc = &placing->locs.items[at];
	const struct collect_finish_options *options = placing->finishing->options;
	const struct symbols_frame *frames = NULL;
	struct symbols_frame made;
	size_t count = 0;

	loc->named = SYMBOLS_TITLE_NONE;
	if (placing->modules[loc->module])
		frames = symbols_frames(placing->modules[loc->module], loc->offset,
					loc->flags & STORE_LOC_EXACT, &count);
	else if (collect_finish_is_nowhere(placing, loc->module) &&
		 jit_frame(placing, loc, &made)) {
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

/* stack: its innermost frame. */
static void find_title(void *context, uint64_t stack, struct store_title *ret)
{
	const struct finish_placing *placing = context;
	const struct ledger_stacks *stacks = &placing->finishing->stacks;
	struct symbols_title title = {0};
	uint32_t frame = stack < stacks->frames.count ? (uint32_t)stack : 0;

	for (; frame; frame = stacks->frames.items[frame].parent) {
		uint32_t at = placing->frame_locs.items[frame];
		const struct finish_loc *loc = &placing->locs.items[at];

		if (at && !symbols_title_place(&title, at, loc->named, loc->is_runtime))
			break;
	}
	symbols_title_end(&title);
	*ret = (struct store_title){.loc = title.place, .depth = title.depth};
}

static uint64_t live(uint64_t in, uint64_t out) { return (int64_t)(in - out) < 0 ? 0 : in - out; }

static uint64_t positive(uint64_t value) { return (int64_t)value < 0 ? 0 : value; }

static struct error *put_site(struct finishing *finishing, size_t at,
			      const struct store_title *title)
{
	const struct finish_site *site = &finishing->sites.items[at];
	const struct finish_counts *counts = &site->counts;

	return store_put(finishing->writer,
			 &((struct store_site){
				 .id = collect_finish_site_id(finishing, at),
				 .process = site->serial,
				 .stack = site->frame,
				 .api = site->api,
				 .title = title->loc,
				 .title_depth = title->loc ? title->depth : STORE_UNKNOWN,
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
			 }));
}

struct error *collect_finish_put_untitled(struct finishing *finishing)
{
	static const struct store_title none;

	for (size_t i = 0; i < finishing->sites.count; i++)
		TRY(put_site(finishing, i, &none));
	finishing->sites_put += finishing->sites.count;
	finishing->sites.count = 0;
	map_index_free(&finishing->site_index);
	return NULL;
}

struct error *collect_finish_put_names(struct finish_placing *placing)
{
	struct finishing *finishing = placing->finishing;

	if (placing->modules_put)
		TRY(store_forget_modules(finishing->writer));
	TRY(put_modules(placing, 1));
	for (size_t i = 1; i < placing->locs.count; i++)
		TRY(put_lines(placing, i));
	for (size_t i = 0; i < finishing->sites.count; i++) {
		struct store_title title;

		find_title(placing, finishing->sites.items[i].frame, &title);
		TRY(put_site(finishing, i, &title));
	}
	return finishing->sites_put ? store_title_sites(finishing->writer, finishing->sites_put,
							find_title, placing)
				    : NULL;
}
