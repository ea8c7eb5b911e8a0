/*
 * The store's inside, shared by src/store alone: what the tables' rows look like, and
 * what SQLite's codes mean as errors.
 */
#ifndef MALLOGRAPH_STORE_STORE_INTERNAL_H
#define MALLOGRAPH_STORE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "base/map.h"
#include "base/vector.h"
#include "store/store.h"

#define STORE_APPLICATION_ID 0x4D475031 /* "MGP1" */

enum column_kind {
	COLUMN_NUMBER,    /* 0 … most */
	COLUMN_REFERENCE, /* an id; 0 is NULL */
	COLUMN_ADDRESS,   /* all 64 bits; kept as SQLite's signed integer of the same bits */
	COLUMN_SIGNED,    /* int64_t */
	COLUMN_WORD,      /* an enum from 1; 0 is NULL */
	COLUMN_TEXT,
	COLUMN_BLOB,
};

struct column {
	const char *name;
	enum column_kind kind;
	bool required;            /* NULL is damage */
	bool is_string;           /* a reference to one */
	bool is_late;             /* profiles from before it lack it: NULL */
	uint16_t offset;          /* in the row's struct */
	uint64_t most;            /* of a number or reference */
	const char *const *words; /* of a word: [0] is not used, ends with NULL */
};

struct table {
	const char *name;
	const struct column *columns;
	unsigned int column_count;
	size_t row_bytes;
	const char *order;  /* its primary key */
	unsigned int keys;  /* leading columns that are the key; 0 = it is no numbers */
	const char *filter; /* the column a cursor's key selects by, or NULL */
	bool is_late;       /* profiles from before it lack it: it is empty */
};

extern const struct table store_tables[STORE_TABLE_COUNT];

/* schema.sql, from the build. */
extern const char store_schema[];

/* What SQLite said about the last call on db, as an error of writing path. */
struct error *store_write_failure(sqlite3 *db, const char *path) ERROR_MUST_CHECK;
/* The same of reading. */
struct error *store_read_failure(sqlite3 *db, const char *path) ERROR_MUST_CHECK;
/* The profile contradicts itself. */
struct error *store_damaged(const char *path, const char *format, ...) ERROR_MUST_CHECK
	ERROR_PRINTF(2, 3);

struct store_reader {
	sqlite3 *db;
	char *path;
	bool kept; /* there may be more of it beside the file */
	bool finished;
	sqlite3_stmt *by_id[STORE_TABLE_COUNT];
	uint64_t lacks[STORE_TABLE_COUNT]; /* bits: late columns that are not there */
	bool is_absent[STORE_TABLE_COUNT]; /* late tables */
	VECTOR(struct store_text) strings; /* those asked for */
	struct map_u64 string_at;          /* id: place there */
};

/* SQLite's authorizer of readers: whatever is asked, by us, anybody or a view of the file,
 * only reads. */
int store_authorize(void *context, int action, const char *first, const char *second,
		    const char *database, const char *view);

/* Enough for a key. */
#define STORE_MAX_KEYS 3

struct error *store_prepare(struct store_reader *reader, const char *sql,
			    sqlite3_stmt **ret) ERROR_MUST_CHECK;
/* Appends "SELECT columns FROM table", for rows that store_row_read() reads. */
void store_append_select(struct strbuf *sql, const struct store_reader *reader,
			 enum store_table table);
/* The statement's current row, checked. */
struct error *store_row_read(const struct store_reader *reader, enum store_table table,
			     sqlite3_stmt *statement, void *row) ERROR_MUST_CHECK;

#endif
