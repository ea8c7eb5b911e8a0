/* Going on with a profile that was kept and whose maker is gone, in a new one. */
#include "collect/finish_placing.h"

#include <string.h>

#define AGENTS 1024u /* of them in a row are more than a session has */

struct resuming {
	struct finishing *finishing;
	struct store_reader *reader;
	struct store_copy *copy;
	struct map_u64 programs; /* strings that are some process's program */
	struct error *error;
};

static struct error *damaged(const char *what)
{
	return error_create(ERROR_DAMAGED, "what was kept of ended processes makes no sense: %s",
			    what);
}

static unsigned int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? (unsigned int)(c - '0')
				    : ((unsigned int)(c | 0x20) - 'a' + 10) & 15;
}

static void read_build_id(const struct store_text *text, struct ledger_module *module)
{
	for (size_t i = 0; i + 1 < text->length && i / 2 < sizeof(module->build_id); i += 2) {
		module->build_id[i / 2] =
			(uint8_t)(hex_digit(text->bytes[i]) << 4 | hex_digit(text->bytes[i + 1]));
		module->build_id_bytes = (uint32_t)(i / 2) + 1;
	}
}

/* A profile does not say which of its modules are programs but by who ran them. */
static uint32_t module_flags(const struct resuming *resuming, const struct store_module *row)
{
	if (row->kind == STORE_MODULE_VDSO)
		return MGL_MODULE_VDSO;
	if (row->kind != STORE_MODULE_FILE)
		return LEDGER_MODULE_NOWHERE;
	return map_u64_find(&resuming->programs, row->path) ? MGL_MODULE_PROGRAM : 0;
}

static struct error *load_module(struct resuming *resuming, const struct store_module *row)
{
	struct ledger_stacks *stacks = &resuming->finishing->stacks;
	struct ledger_module module = {.flags = module_flags(resuming, row)};
	struct ledger_module agent = {.flags = MGL_MODULE_AGENT, .path = {.bytes = ""}};
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;
	struct store_text text = {"", 0};

	/* The agent's own are left out of a profile. */
	while (stacks->modules.count < row->id && row->id - stacks->modules.count < AGENTS)
		TRY(ledger_stacks_add_module(stacks, &agent));
	if (stacks->modules.count != row->id)
		return damaged("modules");
	if (row->kind == STORE_MODULE_FILE)
		TRY(store_string(resuming->reader, row->path, &text));
	strbuf_append_bytes(&path, text.bytes ? text.bytes : "", text.bytes ? text.length : 0);
	strbuf_append_char(&path, '\0');
	TRY(strbuf_result(&path));
	module.path = (struct ledger_text){path.text, store_unescape(path.text, path.length - 1)};
	if (row->build_id.bytes)
		read_build_id(&row->build_id, &module);
	return ledger_stacks_add_module(stacks, &module);
}

static struct error *load_modules(struct resuming *resuming)
{
	struct store_cursor *cursor;
	struct store_module row;
	struct error *error = NULL, *failure;

	TRY(store_cursor_open(resuming->reader, STORE_TABLE_MODULE, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row))
		error = load_module(resuming, &row);
	failure = store_cursor_close(cursor);
	if (error)
		error_free(failure);
	return error ? error : failure;
}

static struct error *load_locs(struct resuming *resuming, struct finish_placing *placing)
{
	size_t modules = resuming->finishing->stacks.modules.count;
	struct store_cursor *cursor;
	struct store_loc row;
	struct error *error = NULL, *failure;

	TRY(store_cursor_open(resuming->reader, STORE_TABLE_LOC, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row)) {
		struct finish_loc loc = {
			.module = (uint32_t)row.module,
			.flags = (uint32_t)row.flags,
			.offset = row.offset,
		};

		error = row.id == placing->locs.count && row.module && row.module < modules
				? collect_finish_load_loc(placing, loc)
				: damaged("places");
	}
	failure = store_cursor_close(cursor);
	if (error)
		error_free(failure);
	return error ? error : failure;
}

static struct error *load_stack(struct resuming *resuming, struct finish_placing *placing,
				const struct store_stack *row)
{
	struct ledger_stacks *stacks = &resuming->finishing->stacks;
	struct ledger_frame frame = {.parent = (uint32_t)row->parent, .flags = MGL_NODE_CUT};

	if (row->id != stacks->frames.count || row->parent >= row->id ||
	    row->loc >= placing->locs.count)
		return damaged("stacks");
	if (row->loc) {
		const struct finish_loc *loc = &placing->locs.items[row->loc];

		frame.module = loc->module;
		frame.offset = loc->offset;
		frame.flags = (loc->flags & STORE_LOC_EXACT ? MGL_NODE_EXACT : 0) |
			      (loc->flags & STORE_LOC_FP ? MGL_NODE_FP : 0);
	}
	return ledger_stacks_add_frame(stacks, frame);
}

static struct error *load_stacks(struct resuming *resuming, struct finish_placing *placing)
{
	struct store_cursor *cursor;
	struct store_stack row;
	struct error *error = NULL, *failure;

	TRY(store_cursor_open(resuming->reader, STORE_TABLE_STACK, STORE_ALL, &cursor));
	while (!error && store_next(cursor, &row))
		error = load_stack(resuming, placing, &row);
	failure = store_cursor_close(cursor);
	if (error)
		error_free(failure);
	return error ? error : failure;
}

/* --- what is copied, and what it leaves to go on with ------------------------------- */

static bool see_process(void *context, void *row)
{
	struct resuming *resuming = context;
	const struct store_process *process = row;
	const struct ledger_session *session = ledger_reader_session(resuming->finishing->reader);

	if (process->id > UINT32_MAX && !resuming->error)
		resuming->error = damaged("processes");
	struct finish_retired retired = {
		.kin =
			{
				.serial = (uint32_t)process->id,
				.pid = process->pid == STORE_UNKNOWN ? 0 : (int32_t)process->pid,
			},
		.start_ns = session->start_ns + process->start,
	};

	if (!resuming->error)
		resuming->error = map_u64_set(&resuming->programs, process->exe, 1);
	if (!resuming->error)
		resuming->error = collect_finish_add_retired(resuming->finishing, retired);
	return true;
}

/* They are dense, as this program writes them; those to come go on from there. */
static bool see_id(struct resuming *resuming, uint64_t id, uint64_t *last)
{
	if (id != *last + 1 && !resuming->error)
		resuming->error = damaged("ids");
	*last = id;
	return true;
}

static bool see_thread(void *context, void *row)
{
	struct resuming *resuming = context;

	return see_id(resuming, ((struct store_thread *)row)->id, &resuming->finishing->threads);
}

static bool see_snap(void *context, void *row)
{
	struct resuming *resuming = context;

	return see_id(resuming, ((struct store_snap *)row)->id, &resuming->finishing->snaps);
}

static bool see_site(void *context, void *row)
{
	struct resuming *resuming = context;
	struct store_site *site = row;

	/* Places are numbered as they were, but what is known of them comes later. */
	site->title = 0;
	site->title_depth = STORE_UNKNOWN;
	return see_id(resuming, site->id, &resuming->finishing->sites_put);
}

static bool see_series(void *context, void *row)
{
	struct resuming *resuming = context;

	(void)row;
	resuming->finishing->series++;
	return true;
}

static bool see_block(void *context, void *row)
{
	struct resuming *resuming = context;

	(void)row;
	if (resuming->finishing->blocks_left)
		resuming->finishing->blocks_left--;
	return true;
}

static struct error *copy_all(struct resuming *resuming)
{
	static store_change *const changes[STORE_TABLE_COUNT] = {
		[STORE_TABLE_PROCESS] = see_process, [STORE_TABLE_THREAD] = see_thread,
		[STORE_TABLE_SNAP] = see_snap,       [STORE_TABLE_SITE] = see_site,
		[STORE_TABLE_SERIES] = see_series,   [STORE_TABLE_BLOCK] = see_block,
	};

	for (int table = 0; table < STORE_TABLE_COUNT; table++) {
		/* Put by whoever goes on, with what it knows. */
		if (table == STORE_TABLE_STRING || table == STORE_TABLE_MODULE ||
		    table == STORE_TABLE_LOC || table == STORE_TABLE_LINE ||
		    table == STORE_TABLE_STACK)
			continue;
		TRY(store_copy_table(resuming->copy, (enum store_table)table, changes[table],
				     resuming));
		TRY(STEAL(resuming->error));
	}
	return NULL;
}

static struct error *resume(struct resuming *resuming)
{
	struct finishing *finishing = resuming->finishing;

	TRY(store_copy_begin(resuming->reader, finishing->writer, &resuming->copy));
	TRY(copy_all(resuming));
	TRY(load_modules(resuming));
	TRY(collect_finish_frames(finishing));
	TRY(load_locs(resuming, finishing->placing));
	TRY(load_stacks(resuming, finishing->placing));
	return collect_finish_frames(finishing);
}

struct error *collect_finishing_resume(struct finishing *finishing, const char *path)
{
	struct resuming resuming = {.finishing = finishing};
	struct error *error = store_reader_open_kept(path, &resuming.reader);

	if (!error)
		error = resume(&resuming);
	store_copy_end(resuming.copy);
	store_reader_close(resuming.reader);
	map_u64_free(&resuming.programs);
	error_free(resuming.error);
	return error;
}
