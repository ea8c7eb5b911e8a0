#include <inttypes.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "symbols/child.h"
#include "symbols/receiver.h"

#define STALL_MS    60000u
#define WORK_STALLS 5u /* a work may take so many times the silence that ends a reader */
#define MAX_READERS 8u
#define PIPE_BYTES  (1 << 20) /* that they need not wait to be heard */

/* A reader costs its start; below so many addresses another one does not pay. */
#define ADDRESSES_A_READER 500u

/* Each piece of a module opens its file anew, for sections that are compressed a tenth of a
 * second. */
#define ADDRESSES_A_WORK 2500u

struct symbols_reader {
	pid_t pid;
	int fd; /* −1 = it is done */
	struct symbols_receiver receiver;
	int64_t silent_since;
	uint32_t work; /* it was heard at last */
	int64_t work_since;
	bool is_stalled;
};

static int64_t now_ms(void) { return (int64_t)(clock_now_ns() / 1000000); }

static struct error *reader_start(struct symbols_round *round, struct symbols_reader *reader)
{
	int fd;

	TRY(symbols_child_start("read symbols", &reader->pid, &fd));
	if (reader->pid == 0)
		symbols_reader_run(round, fd);
	fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
	reader->fd = fd;
	return NULL;
}

static void note_failure(struct symbols_module *module, const struct symbols_reader *reader,
			 int status)
{
	const char *what = module->failures > 0 ? "its symbols" : "its debug information";
	char *text = NULL;
	int length;

	if (reader->is_stalled)
		length = asprintf(&text, "reading %s took too long", what);
	else if (WIFSIGNALED(status))
		length = asprintf(&text, "reading %s crashed (signal %d)", what, WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) == SYMBOLS_READER_NO_MEMORY)
		length = asprintf(&text, "reading %s took too much memory", what);
	else
		length = asprintf(&text, "reading %s failed", what);
	module->failures++;
	if (length < 0)
		return;
	free(module->failure);
	module->failure = text;
}

static struct error *reader_end(struct symbols_round *round, struct symbols_reader *reader)
{
	int status = 0;

	if (reader->is_stalled || reader->receiver.is_garbled)
		kill(reader->pid, SIGKILL);
	close(reader->fd);
	reader->fd = -1;
	while (waitpid(reader->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (reader->receiver.work == SYMBOLS_NO_WORK)
		return NULL;

	struct symbols_module *module = round->works.items[reader->receiver.work].module;

	round->progress++;
	if (module->has_failed)
		return NULL;
	module->has_failed = true;
	note_failure(module, reader, status);
	if (module->failures < 2)
		return NULL;
	module->verdict = (struct symbols_verdict){.level = SYMBOLS_NONE};
	return symbols_receiver_finish_module(&reader->receiver, module);
}

static struct error *reader_hear(struct symbols_round *round, struct symbols_reader *reader)
{
	char bytes[1 << 13];
	ssize_t n = read(reader->fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return NULL;
	if (n <= 0)
		return reader_end(round, reader);
	reader->silent_since = now_ms();
	TRY(symbols_receiver_take(&reader->receiver, bytes, (size_t)n));
	if (reader->receiver.work != reader->work) {
		reader->work = reader->receiver.work;
		reader->work_since = reader->silent_since;
	}
	return reader->receiver.is_garbled ? reader_end(round, reader) : NULL;
}

static bool is_overdue(const struct symbols_reader *reader, unsigned stall_ms)
{
	int64_t now = now_ms();

	return now - reader->silent_since >= stall_ms ||
	       now - reader->work_since >= (int64_t)WORK_STALLS * stall_ms;
}

static struct error *hear_all(struct symbols_round *round, struct symbols_reader *readers,
			      unsigned count)
{
	unsigned stall_ms =
		round->symbols->options.stall_ms ? round->symbols->options.stall_ms : STALL_MS;

	for (;;) {
		struct pollfd polled[MAX_READERS];
		int64_t now = now_ms(), wait = INT32_MAX;
		bool any = false;

		for (unsigned i = 0; i < count; i++) {
			polled[i] = (struct pollfd){.fd = readers[i].fd, .events = POLLIN};
			if (readers[i].fd < 0)
				continue;
			int64_t left = readers[i].silent_since + stall_ms - now;

			any = true;
			wait = left < wait ? left : wait;
		}
		if (!any)
			return NULL;
		if (poll(polled, count, wait > 0 ? (int)wait : 0) < 0 && errno != EINTR)
			return error_create_system(errno, NULL, "cannot wait for symbols");
		for (unsigned i = 0; i < count; i++) {
			if (readers[i].fd >= 0 && polled[i].revents)
				TRY(reader_hear(round, &readers[i]));
			if (readers[i].fd >= 0 && is_overdue(&readers[i], stall_ms)) {
				readers[i].is_stalled = true;
				TRY(reader_end(round, &readers[i]));
			}
		}
	}
}

static unsigned readers_wanted(const struct symbols_round *round)
{
	unsigned wanted = round->symbols->options.workers;

	if (!wanted) {
		long processors = sysconf(_SC_NPROCESSORS_ONLN);
		size_t addresses = 0;

		for (size_t i = 0; i < round->modules.count; i++)
			addresses += round->modules.items[i]->addresses.count;
		wanted = processors > 0 ? (unsigned)processors : 1;
		if (wanted > addresses / ADDRESSES_A_READER + 1)
			wanted = (unsigned)(addresses / ADDRESSES_A_READER + 1);
	}
	if (wanted > round->works.count)
		wanted = (unsigned)round->works.count;
	return wanted < MAX_READERS ? wanted : MAX_READERS;
}

static struct error *divide(struct symbols_round *round)
{
	round->works.count = 0;
	for (size_t i = 0; i < round->modules.count; i++) {
		struct symbols_module *module = round->modules.items[i];
		uint32_t count = (uint32_t)module->addresses.count;
		uint32_t parts = module->failures == 0 ? count / ADDRESSES_A_WORK : 0;

		module->has_failed = false;
		module->works_left = parts > 0 ? parts : 1;
		for (uint32_t part = 0; part < module->works_left; part++)
			TRY(vector_push(
				&round->works,
				((struct symbols_work){
					.module = module,
					.first = part * (count / module->works_left),
					.end = part + 1 < module->works_left
						       ? (part + 1) * (count / module->works_left)
						       : count,
				})));
	}
	return NULL;
}

static struct error *start_readers(struct symbols_round *round)
{
	unsigned wanted = readers_wanted(round);

	while (round->reader_count < wanted) {
		struct error *error = reader_start(round, &round->readers[round->reader_count]);

		/* One is enough to go on. */
		if (error && round->reader_count == 0)
			return error;
		if (error) {
			error_free(error);
			break;
		}
		round->reader_count++;
		round->symbols->counts.readers++;
	}
	return NULL;
}

void symbols_round_stop(struct symbols_round *round)
{
	for (unsigned i = 0; i < round->reader_count; i++) {
		struct symbols_reader *reader = &round->readers[i];

		if (reader->fd >= 0) {
			kill(reader->pid, SIGKILL);
			close(reader->fd);
			while (waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		symbols_receiver_free(&reader->receiver);
	}
	round->reader_count = 0;
	free(round->readers);
	round->readers = NULL;
	if (round->next)
		munmap(round->next, sizeof(*round->next));
	round->next = NULL;
}

struct error *symbols_round_start(struct symbols_round *round)
{
	void *next = mmap(NULL, sizeof(*round->next), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	round->progress = 0;
	round->next = next == MAP_FAILED ? NULL : next;
	round->readers = calloc(MAX_READERS, sizeof(*round->readers));

	struct error *error = round->next && round->readers ? divide(round) : error_no_memory();

	for (unsigned i = 0; i < MAX_READERS && !error; i++) {
		round->readers[i].fd = -1;
		symbols_receiver_init(&round->readers[i].receiver, round);
	}
	if (!error)
		error = start_readers(round);
	if (error)
		symbols_round_stop(round);
	return error;
}

struct error *symbols_round_finish(struct symbols_round *round)
{
	for (unsigned i = 0; i < round->reader_count; i++)
		round->readers[i].silent_since = round->readers[i].work_since = now_ms();

	struct error *error = hear_all(round, round->readers, round->reader_count);

	symbols_round_stop(round);
	if (!error && round->progress == 0)
		error = error_create(ERROR_SYSTEM,
				     "the processes that read symbols ended before they began");
	return error;
}
