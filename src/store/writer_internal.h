/*
 * The writer's inside, shared by writer*.c alone.
 */
#ifndef MALLOGRAPH_STORE_WRITER_INTERNAL_H
#define MALLOGRAPH_STORE_WRITER_INTERNAL_H

#include "store/queue.h"
#include "store/rows.h"

/* A string that has an id: where it stands among all of them. */
struct interned {
	size_t at;
	size_t length;
};

struct store_writer {
	sqlite3 *db;
	char *name;             /* for messages */
	struct store_rows rows; /* of the insert that runs */
	sqlite3_stmt *inserts[STORE_TABLE_COUNT];
	struct store_batch *batches[STORE_TABLE_COUNT]; /* that fill */
	struct store_queue *queue; /* while there is one, the above and the database are its */
	unsigned int flushed;
	bool kept;        /* something of it is in the file for good */
	uint64_t version; /* then: another once somebody else has changed it */
	int nice;         /* of the queue's thread */
	sqlite3_stmt *insert_meta;
	struct strbuf bytes; /* of all strings, one after the other */
	VECTOR(struct interned) strings;
	struct map_index string_index;
};

struct error *store_writer_run(struct store_writer *writer, const char *sql) ERROR_MUST_CHECK;
struct error *store_writer_prepare(struct store_writer *writer, const char *sql,
				   sqlite3_stmt **ret) ERROR_MUST_CHECK;
/* Runs a statement that returns no rows. */
struct error *store_writer_step(struct store_writer *writer,
				sqlite3_stmt *statement) ERROR_MUST_CHECK;
/* The database is the caller's until the next flush. */
struct error *store_writer_settle(struct store_writer *writer) ERROR_MUST_CHECK;
/* All rows put so far are in the database, which is the caller's likewise. */
struct error *store_writer_flush(struct store_writer *writer) ERROR_MUST_CHECK;

/* writer_keep.c: before a transaction ends. Of one that is not kept nobody else has the file. */
struct error *store_writer_check_alone(struct store_writer *writer) ERROR_MUST_CHECK;
/* After the last transaction; the file is whole without what is beside it. */
struct error *store_writer_end_keeping(struct store_writer *writer) ERROR_MUST_CHECK;

#endif
