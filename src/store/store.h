/*
 * The profile (.mgp): one SQLite database for a tree of processes. schema.sql has its
 * tables, docs/FORMAT.md what they mean; a struct store_T here is a row of table T, its
 * members the columns in their order.
 *
 * An integer STORE_UNKNOWN, a text whose bytes are NULL and a word of 0 stand for NULL.
 * Ids are the writer's caller's, from 1; a reference of 0 is written as NULL (but
 * stack.parent, where 0 is the root). Texts of `string` may be any bytes: what is not
 * UTF-8 is escaped on the way in (store_escape()).
 *
 * The writer fills an empty file and cannot be read from meanwhile. It neither names nor
 * renames: write to a temporary file beside the target and rename that after
 * store_writer_finish(). What it says is in one transaction, and meta.finished is 1 once
 * it is whole.
 *
 * The reader trusts nothing: each column's type and range is checked in each row, the
 * file's own views, triggers and schema tricks are not used, what refers to nothing is an
 * error where it is followed. What is wrong ends in ERROR_DAMAGED.
 *
 * Owner: whoever opened a writer, reader, cursor or query ends it. Texts in a row belong
 * to the cursor, until its next step; those of store_string() to the reader.
 * Threads: one at a time each; a writer has one of its own where rows are many. An error of
 * an insert is then what a later call returns. Units: bytes; ns since the session began.
 */
#ifndef MALLOGRAPH_STORE_STORE_H
#define MALLOGRAPH_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

#define STORE_UNKNOWN UINT64_MAX
#define STORE_ALL     UINT64_MAX
#define STORE_VERSION 1

/* Of a snap alone, and where a cursor's key is a process. */
#define STORE_ALL_PROCESSES UINT64_C(0)

struct store_text {
	const char *bytes;
	size_t length;
};

enum store_how {
	STORE_HOW_ROOT = 1,
	STORE_HOW_FORK,
	STORE_HOW_VFORK,
	STORE_HOW_SPAWN,
	STORE_HOW_EXEC,
	STORE_HOW_ATTACH,
};

enum store_end {
	STORE_END_EXIT = 1,
	STORE_END_SIGNAL,
	STORE_END_EXEC,
	STORE_END_RUNNING,
	STORE_END_DETACHED,
	STORE_END_LOST,
};

enum store_module_kind {
	STORE_MODULE_FILE = 1,
	STORE_MODULE_VDSO,
	STORE_MODULE_JIT,
	STORE_MODULE_ANON, /* no module: offsets are addresses */
};

enum store_symbols {
	STORE_SYMBOLS_FULL = 1, /* functions, files and lines */
	STORE_SYMBOLS_LINES,    /* lines without inlined functions */
	STORE_SYMBOLS_SYMTAB,   /* names of functions alone */
	STORE_SYMBOLS_NONE,
	STORE_SYMBOLS_PENDING, /* nobody looked yet */
};

enum store_why {
	STORE_WHY_TICK = 0,
	STORE_WHY_MARK,
	STORE_WHY_PEAK,
	STORE_WHY_END,
	STORE_WHY_USER,
};

enum store_loc_flags { STORE_LOC_EXACT = 1, STORE_LOC_FP = 2 };

struct store_string {
	uint64_t id;
	struct store_text s;
};

struct store_process {
	uint64_t id;
	uint64_t parent;
	uint64_t how; /* enum store_how */
	uint64_t pid, ppid;
	uint64_t exe, cwd;      /* strings */
	struct store_text argv; /* each argument ended by a NUL */
	uint64_t start, stop;
	uint64_t end_kind; /* enum store_end */
	uint64_t end_code;
	uint64_t sample_period;
	uint64_t allocs, frees, failed, unknown_frees, alloc_bytes;
	uint64_t live_blocks, live_bytes, temporary, realloc_moved;
	uint64_t peak_bytes, peak_blocks, peak_time, peak_error;
	uint64_t mapped_bytes, mapped_peak, rss_peak, ledger_bytes, threads;
	uint64_t tree_peak_bytes; /* live in it when most lived in all processes together */
	uint64_t inherited_frees; /* of blocks it had from its parent */
	uint64_t source;          /* the profile it was merged from; 0 = this one */
};

struct store_api {
	uint64_t process, api;
	uint64_t calls, failed, bytes;
};

struct store_thread {
	uint64_t id, process;
	uint64_t name; /* string */
	uint64_t tid;
	uint64_t merged;
	uint64_t allocs, frees, bytes;
};

struct store_loss {
	uint64_t process;
	struct store_text kind;
	uint64_t count;
	struct store_text detail; /* never NULL */
};

struct store_module {
	uint64_t id;
	uint64_t kind; /* enum store_module_kind */
	uint64_t path; /* string */
	struct store_text build_id;
	struct store_text arch;
	uint64_t symbols;            /* enum store_symbols */
	uint64_t debug_file, reason; /* strings */
};

struct store_mapping {
	uint64_t process, module;
	uint64_t start, stop;
	uint64_t file_offset;
	uint64_t loaded, unloaded;
};

struct store_loc {
	uint64_t id, module;
	uint64_t offset;
	uint64_t flags; /* enum store_loc_flags */
};

struct store_line {
	uint64_t loc, depth;
	uint64_t function, file; /* strings */
	uint64_t line, col;
};

/* A parent's id is less than its child's, so that no stack goes round. */
struct store_stack {
	uint64_t id, parent;
	uint64_t loc; /* 0 = cut */
};

struct store_site {
	uint64_t id, process, stack, api, heap;
	uint64_t title, title_depth;
	uint64_t allocs, frees, alloc_bytes, live_blocks, live_bytes, temporary;
	uint64_t peak_blocks, peak_bytes;
	uint64_t lifetime_allocs, realloc_moved, foreign_frees;
};

struct store_site_size {
	uint64_t site, class;
	uint64_t allocs, live, bytes;
};

struct store_thread_size {
	uint64_t process, thread, class;
	uint64_t allocs;
	int64_t live; /* below 0 where the thread freed what others allocated */
	uint64_t bytes;
};

struct store_site_lifetime {
	uint64_t site, class;
	uint64_t frees;
};

struct store_site_thread {
	uint64_t site, thread;
	uint64_t allocs, frees, bytes;
};

struct store_snap {
	uint64_t id;
	uint64_t process; /* STORE_ALL_PROCESSES: of all, at one instant */
	uint64_t time;
	uint64_t why; /* enum store_why */
	uint64_t live_blocks, live_bytes, allocs, frees, mapped;
	uint64_t rss, anon, file, shmem, swap;
};

struct store_series {
	uint64_t site, snap;
	uint64_t live_blocks, live_bytes, allocs;
};

struct store_cohort {
	uint64_t snap, site, born;
	uint64_t blocks, bytes;
};

struct store_block {
	uint64_t process, address, site;
	uint64_t size, number, born;
	uint64_t thread;
};

/* A profile that this one was merged from. */
struct store_source {
	uint64_t id;
	uint64_t file, host; /* strings */
	uint64_t rank;
	uint64_t start_unix_ns;
	uint64_t finished;                                         /* 1 = it was whole */
	uint64_t tree_peak_bytes, tree_peak_time, tree_peak_error; /* of its processes together */
};

enum store_table {
	STORE_TABLE_STRING,
	STORE_TABLE_PROCESS,
	STORE_TABLE_API,
	STORE_TABLE_THREAD,
	STORE_TABLE_LOSS,
	STORE_TABLE_MODULE,
	STORE_TABLE_MAPPING,
	STORE_TABLE_LOC,
	STORE_TABLE_LINE,
	STORE_TABLE_STACK,
	STORE_TABLE_SITE,
	STORE_TABLE_SITE_SIZE,
	STORE_TABLE_THREAD_SIZE,
	STORE_TABLE_SITE_LIFETIME,
	STORE_TABLE_SITE_THREAD,
	STORE_TABLE_SNAP,
	STORE_TABLE_SERIES,
	STORE_TABLE_COHORT,
	STORE_TABLE_BLOCK,
	STORE_TABLE_SOURCE,
	STORE_TABLE_COUNT,
};

/* The table of a row's type. */
#define STORE_TABLE_OF(row)                                            \
	_Generic(*(row), struct store_string                           \
		 : STORE_TABLE_STRING, struct store_process            \
		 : STORE_TABLE_PROCESS, struct store_api               \
		 : STORE_TABLE_API, struct store_thread                \
		 : STORE_TABLE_THREAD, struct store_loss               \
		 : STORE_TABLE_LOSS, struct store_module               \
		 : STORE_TABLE_MODULE, struct store_mapping            \
		 : STORE_TABLE_MAPPING, struct store_loc               \
		 : STORE_TABLE_LOC, struct store_line                  \
		 : STORE_TABLE_LINE, struct store_stack                \
		 : STORE_TABLE_STACK, struct store_site                \
		 : STORE_TABLE_SITE, struct store_site_size            \
		 : STORE_TABLE_SITE_SIZE, struct store_thread_size     \
		 : STORE_TABLE_THREAD_SIZE, struct store_site_lifetime \
		 : STORE_TABLE_SITE_LIFETIME, struct store_site_thread \
		 : STORE_TABLE_SITE_THREAD, struct store_snap          \
		 : STORE_TABLE_SNAP, struct store_series               \
		 : STORE_TABLE_SERIES, struct store_cohort             \
		 : STORE_TABLE_COHORT, struct store_block              \
		 : STORE_TABLE_BLOCK, struct store_source              \
		 : STORE_TABLE_SOURCE)

/* --- writing ------------------------------------------------------------------ */

struct store_writer;

/* path: a file that is empty or not there; name: what messages call it, NULL = path. */
struct error *store_writer_open(const char *path, const char *name,
				struct store_writer **ret) ERROR_MUST_CHECK;
/* Until store_writer_hurry() others go first: for rows put while somebody else's program runs.
 * Before the first row. */
void store_writer_yield(struct store_writer *writer);
struct error *store_writer_hurry(struct store_writer *writer) ERROR_MUST_CHECK;
/* Everything is in the file after this and the writer is closed, whatever it returns. */
struct error *store_writer_finish(struct store_writer *writer) ERROR_MUST_CHECK;
/* What was put so far stays in the file even if this process is killed; more can follow. From
 * then on until the end SQLite has files beside it (-wal, -shm), which belong to it. */
struct error *store_writer_keep(struct store_writer *writer) ERROR_MUST_CHECK;
/* Gives up; the file is not whole. */
void store_writer_abort(struct store_writer *writer);

/* The id of a string; equal ones have one. bytes NULL = 0, which is written as NULL. */
struct error *store_intern(struct store_writer *writer, const char *bytes, size_t length,
			   uint64_t *ret) ERROR_MUST_CHECK;

/* Values of meta; integers and texts are told apart. */
struct error *store_put_meta_text(struct store_writer *writer, const char *key,
				  const char *value) ERROR_MUST_CHECK;
struct error *store_put_meta_number(struct store_writer *writer, const char *key,
				    uint64_t value) ERROR_MUST_CHECK;

/* Insert a row: store_put(writer, &row), row of any struct store_* but string. A table's
 * rows go in fastest in the order of its primary key. */
#define store_put(writer, row) store_writer_put((writer), STORE_TABLE_OF(row), (row))
struct error *store_writer_put(struct store_writer *writer, enum store_table table,
			       const void *row) ERROR_MUST_CHECK;

/* What was put before it was known, or is known better now. All modules go, to be put again. */
struct error *store_forget_modules(struct store_writer *writer) ERROR_MUST_CHECK;
struct error *store_change_loc(struct store_writer *writer, uint64_t id,
			       uint64_t flags) ERROR_MUST_CHECK;

/* What lived in a process at the tree's peak; STORE_ALL_PROCESSES: the same for each. */
struct error *store_put_tree_peak(struct store_writer *writer, uint64_t process,
				  uint64_t bytes) ERROR_MUST_CHECK;

struct store_title {
	uint64_t loc; /* 0 = none */
	uint64_t depth;
};
typedef void store_title_of(void *context, uint64_t stack, struct store_title *ret);

/* The titles of sites 1 … last, by their stacks. */
struct error *store_title_sites(struct store_writer *writer, uint64_t last,
				store_title_of *title_of, void *context) ERROR_MUST_CHECK;

/* --- reading ------------------------------------------------------------------ */

struct store_reader;
struct store_cursor;

/* Whether a file begins like a profile, of whatever version. */
bool store_reader_recognises(int fd);

/* Refuses what is no profile (ERROR_FORMAT), another version, naming its writer
 * (ERROR_VERSION), and one that is cut short or damaged (ERROR_DAMAGED). */
struct error *store_reader_open(const char *path, struct store_reader **ret) ERROR_MUST_CHECK;
/* One that its writer has kept, or keeps, with what lies beside it: what was there when it was
 * first read. Only where nobody else could have put these files. */
struct error *store_reader_open_kept(const char *path, struct store_reader **ret) ERROR_MUST_CHECK;
void store_reader_close(struct store_reader *reader);

/* Whether its writer came to its end: a profile that is not finished lacks something. */
bool store_reader_finished(const struct store_reader *reader);

/* false = there is no such key, or it is of the other kind. The text is malloc'd. */
struct error *store_meta_text(struct store_reader *reader, const char *key, char **ret,
			      bool *found) ERROR_MUST_CHECK;
struct error *store_meta_number(struct store_reader *reader, const char *key, uint64_t *ret,
				bool *found) ERROR_MUST_CHECK;

/* The rows of a table in the order of their key: all of them, or those of one key: of a
 * site for line's loc and for tables that start with a site, else of a process; cohort's
 * is a snap. Tables without such a column (string, module, loc, stack) take STORE_ALL. */
struct error *store_cursor_open(struct store_reader *reader, enum store_table table, uint64_t key,
				struct store_cursor **ret) ERROR_MUST_CHECK;
/* The next row into *row, whose type must be the table's; false at the end and at an
 * error, which store_cursor_close() returns. */
#define store_next(cursor, row) store_cursor_next((cursor), STORE_TABLE_OF(row), (row))
bool store_cursor_next(struct store_cursor *cursor, enum store_table table, void *row);
struct error *store_cursor_close(struct store_cursor *cursor) ERROR_MUST_CHECK;

/* The row with an id; ERROR_DAMAGED if there is none. For string, process, thread, module,
 * loc, stack, site and snap. Texts last until the next store_get() of the table. */
#define store_get(reader, id, row) store_reader_get((reader), STORE_TABLE_OF(row), (id), (row))
struct error *store_reader_get(struct store_reader *reader, enum store_table table, uint64_t id,
			       void *row) ERROR_MUST_CHECK;

/* A string, kept until the reader is closed; id 0 or STORE_UNKNOWN: bytes NULL. */
struct error *store_string(struct store_reader *reader, uint64_t id,
			   struct store_text *ret) ERROR_MUST_CHECK;

/* --- anybody's questions ---------------------------------------------------------- */

struct store_query;

/* One statement that reads; anything else is ERROR_USAGE. */
struct error *store_query_open(struct store_reader *reader, const char *sql,
			       struct store_query **ret) ERROR_MUST_CHECK;
unsigned int store_query_columns(const struct store_query *query);
const char *store_query_name(const struct store_query *query, unsigned int column);
/* false at the end and at an error, which store_query_close() returns. */
bool store_query_next(struct store_query *query);
/* Text as SQLite would print it; bytes NULL for NULL. Until the next step. */
struct store_text store_query_text(const struct store_query *query, unsigned int column);
bool store_query_is_number(const struct store_query *query, unsigned int column);
struct error *store_query_close(struct store_query *query) ERROR_MUST_CHECK;

/* --- from one profile into another ------------------------------------------------- */

/* Owner: the caller, who ends it before the reader and the writer. */
struct store_copy;

struct error *store_copy_begin(struct store_reader *reader, struct store_writer *writer,
			       struct store_copy **ret) ERROR_MUST_CHECK;
void store_copy_end(struct store_copy *copy);

/* A look at a row of the reader's, which may be changed; its strings are the reader's. false
 * = it is left out. */
typedef bool store_change(void *context, void *row);

/* All rows of a table but string, through change if that is not NULL. */
struct error *store_copy_table(struct store_copy *copy, enum store_table table,
			       store_change *change, void *context) ERROR_MUST_CHECK;
/* All of it but that it is finished. */
struct error *store_copy_meta(struct store_copy *copy) ERROR_MUST_CHECK;
/* The writer's id for a string of the reader's. */
struct error *store_copy_string(struct store_copy *copy, uint64_t id,
				uint64_t *ret) ERROR_MUST_CHECK;

/* --- strings ---------------------------------------------------------------------- */

/* A byte that is no part of UTF-8, and a NUL, becomes \xNN (two lower-case digits); and the
 * backslash of what already looks like that becomes \x5c, so that it can be undone. All
 * else stays. */
void store_escape(struct strbuf *buffer, const char *bytes, size_t length);
/* Whether escaping would change anything. */
bool store_escape_needed(const char *bytes, size_t length);
/* In place; the new length. */
size_t store_unescape(char *text, size_t length);

#endif
