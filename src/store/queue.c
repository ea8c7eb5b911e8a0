#include "store/queue.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#define ROOM 32u

/* A sanitizer's allocator may be locked by the thread while another forks, for good in the
 * child. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_THREAD 0
#else
#define MAY_THREAD 1
#endif

struct store_queue {
	store_queue_run *run;
	void *context;
	int nice;
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t pushed;
	pthread_cond_t taken;
	struct store_batch *batches[ROOM];
	unsigned int first;
	unsigned int count; /* with the one that runs, which is the first */
	bool stopping;
	struct error *error;
	bool failed;
};

void store_batch_free(struct store_batch *batch)
{
	if (!batch)
		return;
	strbuf_free(&batch->texts);
	free(batch->items);
	free(batch);
}

/* With the lock held. */
static void run_first(struct store_queue *queue)
{
	struct store_batch *batch = queue->batches[queue->first];
	struct error *error = NULL;

	if (!queue->failed) {
		pthread_mutex_unlock(&queue->lock);
		error = queue->run(queue->context, batch);
		pthread_mutex_lock(&queue->lock);
	}
	if (error) {
		queue->error = error;
		queue->failed = true;
	}
	store_batch_free(batch);
	queue->first = (queue->first + 1) % ROOM;
	queue->count--;
	pthread_cond_signal(&queue->taken);
}

static void *work(void *context)
{
	struct store_queue *queue = context;

	/* Of Linux's threads each has its own. */
	if (queue->nice)
		setpriority(PRIO_PROCESS, 0, queue->nice);
	pthread_mutex_lock(&queue->lock);
	while (!queue->stopping) {
		if (queue->count)
			run_first(queue);
		else
			pthread_cond_wait(&queue->pushed, &queue->lock);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

/* Signals are for the threads that were there before. */
static bool start_thread(struct store_queue *queue)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);

	int code = pthread_create(&queue->thread, NULL, work, queue);

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code == 0;
}

struct store_queue *store_queue_start(store_queue_run *run, void *context, int nice)
{
	if (!MAY_THREAD || !sqlite3_threadsafe())
		return NULL;
	/* An arena of the thread's own would grow by what others have freed in theirs. */
	mallopt(M_ARENA_MAX, 1);
	struct store_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->run = run;
	queue->context = context;
	queue->nice = nice;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->pushed, NULL);
	pthread_cond_init(&queue->taken, NULL);
	if (!start_thread(queue)) {
		free(queue);
		return NULL;
	}
	return queue;
}

/* With the lock held, which it gives back. */
static struct error *result(struct store_queue *queue)
{
	struct error *error = queue->error;

	queue->error = NULL;
	pthread_mutex_unlock(&queue->lock);
	return error;
}

struct error *store_queue_push(struct store_queue *queue, struct store_batch *batch)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count == ROOM)
		pthread_cond_wait(&queue->taken, &queue->lock);
	queue->batches[(queue->first + queue->count++) % ROOM] = batch;
	pthread_cond_signal(&queue->pushed);
	return result(queue);
}

struct error *store_queue_wait(struct store_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count)
		pthread_cond_wait(&queue->taken, &queue->lock);
	return result(queue);
}

void store_queue_stop(struct store_queue *queue)
{
	if (!queue)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->stopping = true;
	pthread_cond_signal(&queue->pushed);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->thread, NULL);
	for (; queue->count; queue->count--) {
		store_batch_free(queue->batches[queue->first]);
		queue->first = (queue->first + 1) % ROOM;
	}
	error_free(queue->error);
	free(queue);
}
