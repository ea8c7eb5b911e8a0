/* The tables of schema.sql as rows of store.h: one line a column, for writer and reader. */
#include "store/store_internal.h"

#define ANY_NUMBER ((uint64_t)INT64_MAX)
#define ANY_ID     ((uint64_t)UINT32_MAX)
#define MAX_DEPTH  65535
#define MAX_CLASS  255

static const char *const how_words[] = {NULL,    "root", "fork",   "vfork",
					"spawn", "exec", "attach", NULL};
static const char *const end_words[] = {NULL,      "exit",     "signal", "exec",
					"running", "detached", "lost",   NULL};
static const char *const kind_words[] = {NULL, "file", "vdso", "jit", "anon", NULL};
static const char *const symbols_words[] = {NULL,   "full",    "lines", "symtab",
					    "none", "pending", NULL};

#define COLUMN(table, member, kind_, required_, most_, words_)                     \
	{                                                                          \
		.name = #member, .kind = (kind_), .required = (required_),         \
		.offset = offsetof(struct store_##table, member), .most = (most_), \
		.words = (words_)                                                  \
	}
#define KEY(table, member)       COLUMN(table, member, COLUMN_REFERENCE, true, ANY_ID, NULL)
#define REFERENCE(table, member) COLUMN(table, member, COLUMN_REFERENCE, false, ANY_ID, NULL)
#define STRING(table, member)                                                    \
	{                                                                        \
		.name = #member, .kind = COLUMN_REFERENCE, .is_string = true,    \
		.offset = offsetof(struct store_##table, member), .most = ANY_ID \
	}
#define NUMBER(table, member)        COLUMN(table, member, COLUMN_NUMBER, false, ANY_NUMBER, NULL)
#define LIMITED(table, member, most) COLUMN(table, member, COLUMN_NUMBER, true, most, NULL)
/* Columns that came after version 1 was first written. */
#define LATE(table, member, kind_, most_)                                         \
	{                                                                         \
		.name = #member, .kind = (kind_), .is_late = true,                \
		.offset = offsetof(struct store_##table, member), .most = (most_) \
	}
#define LATE_NUMBER(table, member)    LATE(table, member, COLUMN_NUMBER, ANY_NUMBER)
#define LATE_REFERENCE(table, member) LATE(table, member, COLUMN_REFERENCE, ANY_ID)
#define ADDRESS(table, member)        COLUMN(table, member, COLUMN_ADDRESS, false, 0, NULL)
#define SIGNED(table, member)         COLUMN(table, member, COLUMN_SIGNED, false, 0, NULL)
#define WORD(table, member, words)    COLUMN(table, member, COLUMN_WORD, false, 0, words)
#define TEXT(table, member)           COLUMN(table, member, COLUMN_TEXT, false, 0, NULL)
#define TEXT_KEY(table, member)       COLUMN(table, member, COLUMN_TEXT, true, 0, NULL)
#define BLOB(table, member)           COLUMN(table, member, COLUMN_BLOB, false, 0, NULL)

static const struct column string_columns[] = {
	KEY(string, id),
	TEXT_KEY(string, s),
};

static const struct column process_columns[] = {
	KEY(process, id),
	REFERENCE(process, parent),
	WORD(process, how, how_words),
	NUMBER(process, pid),
	NUMBER(process, ppid),
	STRING(process, exe),
	STRING(process, cwd),
	BLOB(process, argv),
	NUMBER(process, start),
	NUMBER(process, stop),
	WORD(process, end_kind, end_words),
	NUMBER(process, end_code),
	NUMBER(process, sample_period),
	NUMBER(process, allocs),
	NUMBER(process, frees),
	NUMBER(process, failed),
	NUMBER(process, unknown_frees),
	NUMBER(process, alloc_bytes),
	NUMBER(process, live_blocks),
	NUMBER(process, live_bytes),
	NUMBER(process, temporary),
	NUMBER(process, realloc_moved),
	NUMBER(process, peak_bytes),
	NUMBER(process, peak_blocks),
	NUMBER(process, peak_time),
	NUMBER(process, peak_error),
	NUMBER(process, mapped_bytes),
	NUMBER(process, mapped_peak),
	NUMBER(process, rss_peak),
	NUMBER(process, ledger_bytes),
	NUMBER(process, threads),
	LATE_NUMBER(process, tree_peak_bytes),
	LATE_NUMBER(process, inherited_frees),
	LATE_REFERENCE(process, source),
};

static const struct column api_columns[] = {
	KEY(api, process),   LIMITED(api, api, MAX_CLASS), NUMBER(api, calls),
	NUMBER(api, failed), NUMBER(api, bytes),
};

static const struct column thread_columns[] = {
	KEY(thread, id),       KEY(thread, process),   STRING(thread, name),
	NUMBER(thread, tid),   NUMBER(thread, merged), NUMBER(thread, allocs),
	NUMBER(thread, frees), NUMBER(thread, bytes),
};

static const struct column loss_columns[] = {
	KEY(loss, process),
	TEXT_KEY(loss, kind),
	NUMBER(loss, count),
	TEXT_KEY(loss, detail),
};

static const struct column module_columns[] = {
	KEY(module, id),
	WORD(module, kind, kind_words),
	STRING(module, path),
	TEXT(module, build_id),
	TEXT(module, arch),
	WORD(module, symbols, symbols_words),
	STRING(module, debug_file),
	STRING(module, reason),
};

static const struct column mapping_columns[] = {
	KEY(mapping, process),     KEY(mapping, module),          ADDRESS(mapping, start),
	ADDRESS(mapping, stop),    ADDRESS(mapping, file_offset), NUMBER(mapping, loaded),
	NUMBER(mapping, unloaded),
};

static const struct column loc_columns[] = {
	KEY(loc, id),
	REFERENCE(loc, module),
	ADDRESS(loc, offset),
	LIMITED(loc, flags, STORE_LOC_EXACT | STORE_LOC_FP),
};

static const struct column line_columns[] = {
	KEY(line, loc),         LIMITED(line, depth, MAX_DEPTH),
	STRING(line, function), STRING(line, file),
	NUMBER(line, line),     NUMBER(line, col),
};

static const struct column stack_columns[] = {
	KEY(stack, id),
	LIMITED(stack, parent, ANY_ID),
	REFERENCE(stack, loc),
};

static const struct column site_columns[] = {
	KEY(site, id),
	KEY(site, process),
	REFERENCE(site, stack),
	LIMITED(site, api, MAX_CLASS),
	REFERENCE(site, heap),
	REFERENCE(site, title),
	NUMBER(site, title_depth),
	NUMBER(site, allocs),
	NUMBER(site, frees),
	NUMBER(site, alloc_bytes),
	NUMBER(site, live_blocks),
	NUMBER(site, live_bytes),
	NUMBER(site, temporary),
	NUMBER(site, peak_blocks),
	NUMBER(site, peak_bytes),
	NUMBER(site, lifetime_allocs),
	NUMBER(site, realloc_moved),
	NUMBER(site, foreign_frees),
};

static const struct column site_size_columns[] = {
	KEY(site_size, site),      LIMITED(site_size, class, MAX_CLASS),
	NUMBER(site_size, allocs), NUMBER(site_size, live),
	NUMBER(site_size, bytes),
};

static const struct column thread_size_columns[] = {
	KEY(thread_size, process),
	KEY(thread_size, thread),
	LIMITED(thread_size, class, MAX_CLASS),
	NUMBER(thread_size, allocs),
	SIGNED(thread_size, live),
	NUMBER(thread_size, bytes),
};

static const struct column site_lifetime_columns[] = {
	KEY(site_lifetime, site),
	LIMITED(site_lifetime, class, MAX_CLASS),
	NUMBER(site_lifetime, frees),
};

static const struct column site_thread_columns[] = {
	KEY(site_thread, site),     KEY(site_thread, thread),   NUMBER(site_thread, allocs),
	NUMBER(site_thread, frees), NUMBER(site_thread, bytes),
};

static const struct column snap_columns[] = {
	KEY(snap, id),
	LIMITED(snap, process, ANY_ID),
	NUMBER(snap, time),
	LIMITED(snap, why, STORE_WHY_USER),
	NUMBER(snap, live_blocks),
	NUMBER(snap, live_bytes),
	NUMBER(snap, allocs),
	NUMBER(snap, frees),
	NUMBER(snap, mapped),
	NUMBER(snap, rss),
	NUMBER(snap, anon),
	NUMBER(snap, file),
	NUMBER(snap, shmem),
	NUMBER(snap, swap),
};

static const struct column series_columns[] = {
	KEY(series, site),          KEY(series, snap),      NUMBER(series, live_blocks),
	NUMBER(series, live_bytes), NUMBER(series, allocs),
};

static const struct column cohort_columns[] = {
	KEY(cohort, snap),      KEY(cohort, site),     KEY(cohort, born),
	NUMBER(cohort, blocks), NUMBER(cohort, bytes),
};

static const struct column block_columns[] = {
	KEY(block, process),      COLUMN(block, address, COLUMN_ADDRESS, true, 0, NULL),
	REFERENCE(block, site),   NUMBER(block, size),
	NUMBER(block, number),    NUMBER(block, born),
	REFERENCE(block, thread),
};

static const struct column source_columns[] = {
	KEY(source, id),
	STRING(source, file),
	STRING(source, host),
	NUMBER(source, rank),
	NUMBER(source, start_unix_ns),
	NUMBER(source, finished),
	NUMBER(source, tree_peak_bytes),
	NUMBER(source, tree_peak_time),
	NUMBER(source, tree_peak_error),
};

#define ANY_TABLE(name_, order_, keys_, filter_, late_)                                        \
	{                                                                                      \
		.name = #name_, .columns = name_##_columns,                                    \
		.column_count = sizeof(name_##_columns) / sizeof(struct column),               \
		.row_bytes = sizeof(struct store_##name_), .order = (order_), .keys = (keys_), \
		.filter = (filter_), .is_late = (late_)                                        \
	}
#define TABLE(name_, order_, keys_, filter_)      ANY_TABLE(name_, order_, keys_, filter_, false)
#define LATE_TABLE(name_, order_, keys_, filter_) ANY_TABLE(name_, order_, keys_, filter_, true)

const struct table store_tables[STORE_TABLE_COUNT] = {
	[STORE_TABLE_STRING] = TABLE(string, "id", 1, NULL),
	[STORE_TABLE_PROCESS] = TABLE(process, "id", 1, "id"),
	[STORE_TABLE_API] = TABLE(api, "process, api", 2, "process"),
	[STORE_TABLE_THREAD] = TABLE(thread, "id", 1, "process"),
	[STORE_TABLE_LOSS] = TABLE(loss, "process, kind, detail", 0, "process"),
	[STORE_TABLE_MODULE] = TABLE(module, "id", 1, NULL),
	[STORE_TABLE_MAPPING] = TABLE(mapping, "rowid", 0, "process"),
	[STORE_TABLE_LOC] = TABLE(loc, "id", 1, NULL),
	[STORE_TABLE_LINE] = TABLE(line, "loc, depth", 2, "loc"),
	[STORE_TABLE_STACK] = TABLE(stack, "id", 1, NULL),
	[STORE_TABLE_SITE] = TABLE(site, "id", 1, "process"),
	[STORE_TABLE_SITE_SIZE] = TABLE(site_size, "site, class", 2, "site"),
	[STORE_TABLE_THREAD_SIZE] = TABLE(thread_size, "process, thread, class", 3, "process"),
	[STORE_TABLE_SITE_LIFETIME] = TABLE(site_lifetime, "site, class", 2, "site"),
	[STORE_TABLE_SITE_THREAD] = TABLE(site_thread, "site, thread", 2, "site"),
	[STORE_TABLE_SNAP] = TABLE(snap, "id", 1, "process"),
	[STORE_TABLE_SERIES] = TABLE(series, "site, snap", 2, "site"),
	[STORE_TABLE_COHORT] = TABLE(cohort, "snap, site, born", 3, "snap"),
	[STORE_TABLE_BLOCK] = TABLE(block, "process, address", 2, "process"),
	[STORE_TABLE_SOURCE] = LATE_TABLE(source, "id", 1, NULL),
};
