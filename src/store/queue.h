/*
 * The writer's other thread: it inserts rows while the caller makes more of them. One
 * thread, so the database has one user at a time.
 *
 * Owner: the writer; a batch pushed is the queue's. Threads: all of this is called by one,
 * which may fork meanwhile as long as the child leaves the writer alone. Errors: what
 * running a batch gave is what the next call returns, once; nothing is run after it.
 */
#ifndef MALLOGRAPH_STORE_QUEUE_H
#define MALLOGRAPH_STORE_QUEUE_H

#include "store/store_internal.h"

/* Rows that wait for their insert, and the texts they point to. */
struct store_batch {
	enum store_table table;
	unsigned int count;
	char *items;
	struct strbuf texts;
};

typedef struct error *store_queue_run(void *context, const struct store_batch *batch);

struct store_queue;

/* nice: the thread's priority. NULL where there can be no such thread: run the batches yourself. */
struct store_queue *store_queue_start(store_queue_run *run, void *context, int nice);
/* May wait for room. */
struct error *store_queue_push(struct store_queue *queue,
			       struct store_batch *batch) ERROR_MUST_CHECK;
/* Until all pushed so far has been run: the database is the caller's. */
struct error *store_queue_wait(struct store_queue *queue) ERROR_MUST_CHECK;
/* Ends the thread after the batch it runs; what was pushed after that is dropped. */
void store_queue_stop(struct store_queue *queue);

void store_batch_free(struct store_batch *batch);

#endif
