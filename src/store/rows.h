/*
 * Rows on their way into a table. Owner: the writer, for as long as its database is open;
 * what the rows point to must last until the statement was run.
 */
#ifndef MALLOGRAPH_STORE_ROWS_H
#define MALLOGRAPH_STORE_ROWS_H

#include "store/store_internal.h"

struct store_rows {
	const struct table *table;
	const char *items; /* count rows of the table's struct */
	unsigned int count;
};

/* Whatever *rows holds when a statement runs is what it selects from "rows". A code of
 * SQLite's. */
int store_rows_offer(struct store_rows *rows, sqlite3 *db) ERROR_MUST_CHECK;
/* Appends the statement that moves them into their table. */
void store_rows_append_insert(struct strbuf *sql, const struct table *table);

#endif
