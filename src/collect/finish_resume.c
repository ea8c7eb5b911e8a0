/* Going on with a profile that was kept and whose maker is gone, in a new one. */
#include "collect/finish_placing.h"

#include <stddef.h>
#include <string.h>

#define AGENTS 1024u /* of them in a row are more than a session has */

struct resuming {
	struct finishing *finishing;
	struct store_reader *reader;
	struct store_copy *copy;
	struct map_u64 programs; /* strings that are some process's program */
	uint64_t last_stack;     /* of those referred to */
	enum store_table table;  /* that is copied */
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

/* Agents stand where a profile has none. */
static bool is_module(const struct resuming *resuming, uint64_t id)
{
	const struct ledger_stacks *stacks = &resuming->finishing->stacks;

	return id && id < stacks->modules.count &&
	       !(stacks->modules.items[id]->flags & MGL_MODULE_AGENT);
}

static struct error *load_loc(struct finish_placing *placing, struct finish_loc loc)
{
	return collect_finish_has_loc(placing, &loc) ? damaged("one place under two numbers")
						     : collect_finish_load_loc(placing, loc);
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

		error = row.id == placing->locs.count && row.module < modules &&
					is_module(resuming, row.module)
				? load_loc(placing, loc)
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

enum kind { PROCESS, MODULE, STACK, THREAD, SITE, SNAP };

/* What rows refer to, which whoever reads the profile will look for. */
static const struct reference {
	enum store_table table;
	enum kind to;
	size_t offset;
} references[] = {
	{STORE_TABLE_API, PROCESS, offsetof(struct store_api, process)},
	{STORE_TABLE_THREAD, PROCESS, offsetof(struct store_thread, process)},
	{STORE_TABLE_LOSS, PROCESS, offsetof(struct store_loss, process)},
	{STORE_TABLE_MAPPING, PROCESS, offsetof(struct store_mapping, process)},
	{STORE_TABLE_MAPPING, MODULE, offsetof(struct store_mapping, module)},
	{STORE_TABLE_SITE, PROCESS, offsetof(struct store_site, process)},
	{STORE_TABLE_SITE, STACK, offsetof(struct store_site, stack)},
	{STORE_TABLE_SITE_SIZE, SITE, offsetof(struct store_site_size, site)},
	{STORE_TABLE_THREAD_SIZE, PROCESS, offsetof(struct store_thread_size, process)},
	{STORE_TABLE_THREAD_SIZE, THREAD, offsetof(struct store_thread_size, thread)},
	{STORE_TABLE_SITE_LIFETIME, SITE, offsetof(struct store_site_lifetime, site)},
	{STORE_TABLE_SITE_THREAD, SITE, offsetof(struct store_site_thread, site)},
	{STORE_TABLE_SITE_THREAD, THREAD, offsetof(struct store_site_thread, thread)},
	{STORE_TABLE_SNAP, PROCESS, offsetof(struct store_snap, process)},
	{STORE_TABLE_SERIES, SITE, offsetof(struct store_series, site)},
	{STORE_TABLE_SERIES, SNAP, offsetof(struct store_series, snap)},
	{STORE_TABLE_COHORT, SNAP, offsetof(struct store_cohort, snap)},
	{STORE_TABLE_COHORT, SITE, offsetof(struct store_cohort, site)},
	{STORE_TABLE_BLOCK, PROCESS, offsetof(struct store_block, process)},
	{STORE_TABLE_BLOCK, SITE, offsetof(struct store_block, site)},
	{STORE_TABLE_BLOCK, THREAD, offsetof(struct store_block, thread)},
};

static bool is_there(struct resuming *resuming, enum kind kind, uint64_t id)
{
	const struct finishing *finishing = resuming->finishing;

	switch (kind) {
	case PROCESS:
		return id <= UINT32_MAX && collect_finish_is_retired(finishing, (uint32_t)id);
	case MODULE:
		return is_module(resuming, id);
	case STACK:
		if (id > resuming->last_stack)
			resuming->last_stack = id;
		return true;
	case THREAD:
		return id <= finishing->threads;
	case SITE:
		return id <= finishing->sites_put;
	default:
		return id <= finishing->snaps;
	}
}

static struct error *check_references(struct resuming *resuming, const void *row)
{
	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		const struct reference *reference = &references[i];
		uint64_t id;

		if (reference->table != resuming->table)
			continue;
		memcpy(&id, (const char *)row + reference->offset, sizeof(id));
		if (id && id != STORE_UNKNOWN && !is_there(resuming, reference->to, id))
			return damaged("it refers to what is not there");
	}
	return NULL;
}

static struct error *see_process(struct resuming *resuming, struct store_process *process)
{
	const struct ledger_session *session = ledger_reader_session(resuming->finishing->reader);

	if (process->id > UINT32_MAX)
		return damaged("processes");
	struct finish_retired retired = {
		.kin =
			{
				.serial = (uint32_t)process->id,
				.pid = process->pid == STORE_UNKNOWN ? 0 : (int32_t)process->pid,
			},
		.start_ns = session->start_ns + process->start,
	};

	process->source = 0;
	TRY(map_u64_set(&resuming->programs, process->exe, 1));
	return collect_finish_add_retired(resuming->finishing, retired);
}

/* They are dense, as this program writes them; those to come go on from there. */
static struct error *see_id(uint64_t id, uint64_t *last)
{
	if (id != *last + 1)
		return damaged("ids");
	*last = id;
	return NULL;
}

static struct error *see_site(struct resuming *resuming, struct store_site *site)
{
	/* Places are numbered as they were, but what is known of them comes later. */
	site->title = 0;
	site->title_depth = STORE_UNKNOWN;
	return see_id(site->id, &resuming->finishing->sites_put);
}

static struct error *see(struct resuming *resuming, void *row)
{
	struct finishing *finishing = resuming->finishing;

	TRY(check_references(resuming, row));
	switch (resuming->table) {
	case STORE_TABLE_PROCESS:
		return see_process(resuming, row);
	case STORE_TABLE_THREAD:
		return see_id(((struct store_thread *)row)->id, &finishing->threads);
	case STORE_TABLE_SNAP:
		return see_id(((struct store_snap *)row)->id, &finishing->snaps);
	case STORE_TABLE_SITE:
		return see_site(resuming, row);
	case STORE_TABLE_SERIES:
		finishing->series++;
		return NULL;
	case STORE_TABLE_BLOCK:
		finishing->blocks_left -= finishing->blocks_left > 0;
		return NULL;
	default:
		return NULL;
	}
}

static bool see_row(void *context, void *row)
{
	struct resuming *resuming = context;

	if (!resuming->error)
		resuming->error = see(resuming, row);
	return !resuming->error;
}

/* For a while one is both there and in the session file; it is the same one then. */
static struct error *check_processes(const struct resuming *resuming)
{
	const struct finishing *finishing = resuming->finishing;

	for (size_t i = 0; i < ledger_reader_process_count(finishing->reader); i++) {
		const struct ledger_process *process = ledger_reader_process(finishing->reader, i);
		const struct finish_retired *retired =
			collect_finish_retired(finishing, process->serial);

		if (retired && retired->kin.pid && retired->kin.pid != process->pid)
			return damaged("a process that it has not");
	}
	return NULL;
}

static struct error *copy_table(struct resuming *resuming, enum store_table table)
{
	resuming->table = table;
	TRY(store_copy_table(resuming->copy, table, see_row, resuming));
	return STEAL(resuming->error);
}

static struct error *copy_all(struct resuming *resuming)
{
	TRY(copy_table(resuming, STORE_TABLE_PROCESS));
	TRY(check_processes(resuming));
	TRY(load_modules(resuming));
	for (int table = 0; table < STORE_TABLE_COUNT; table++)
		switch (table) {
		case STORE_TABLE_PROCESS:
		case STORE_TABLE_SOURCE: /* of merged profiles */
		/* Put by whoever goes on, with what it knows. */
		case STORE_TABLE_STRING:
		case STORE_TABLE_MODULE:
		case STORE_TABLE_LOC:
		case STORE_TABLE_LINE:
		case STORE_TABLE_STACK:
			break;
		default:
			TRY(copy_table(resuming, (enum store_table)table));
			break;
		}
	return NULL;
}

static struct error *resume(struct resuming *resuming)
{
	struct finishing *finishing = resuming->finishing;

	TRY(store_copy_begin(resuming->reader, finishing->writer, &resuming->copy));
	TRY(copy_all(resuming));
	TRY(collect_finish_frames(finishing));
	TRY(load_locs(resuming, finishing->placing));
	TRY(load_stacks(resuming, finishing->placing));
	if (resuming->last_stack >= finishing->stacks.frames.count)
		return damaged("sites of no stack");
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
