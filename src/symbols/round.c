#include <inttypes.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cursor.h"
#include "symbols/internal.h"
#include "symbols/wire.h"

#define STALL_MS    60000u
#define MAX_READERS 8u
#define NO_MODULE   UINT32_MAX

/* A reader costs its start; below so many addresses another one does not pay. */
#define ADDRESSES_A_READER 500u

struct reader {
	pid_t pid;
	int fd; /* −1 = it is done */
	struct strbuf input;
	uint32_t module; /* place of the one it is at */
	VECTOR(const char *) strings;
	int64_t silent_since;
	bool is_stalled;
	bool is_garbled;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct error *reader_start(struct symbols_round *round, struct reader *reader)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return error_create_system(errno, NULL, "cannot make a pipe");
	reader->pid = fork();
	if (reader->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		symbols_reader_run(round, fds[1]);
	}
	int saved = errno;

	close(fds[1]);
	if (reader->pid < 0) {
		close(fds[0]);
		return error_create_system(saved, NULL, "cannot start a process to read symbols");
	}
	reader->fd = fds[0];
	reader->silent_since = now_ms();
	return NULL;
}

/* One it never sent is none. */
static const char *string_at(const struct reader *reader, uint32_t number)
{
	return number > 0 && number <= reader->strings.count ? reader->strings.items[number - 1]
							     : NULL;
}

static struct error *take_frames(struct reader *reader, struct symbols_module *module,
				 struct cursor *payload)
{
	uint32_t place = cursor_u32(payload);
	size_t count = cursor_left(payload) / SYMBOLS_WIRE_FRAME;

	if (payload->failed || place >= module->addresses.count ||
	    module->addresses.items[place].is_done ||
	    count * SYMBOLS_WIRE_FRAME != cursor_left(payload) ||
	    module->frames.count + count > UINT32_MAX) {
		reader->is_garbled = true;
		return NULL;
	}
	TRY(vector_reserve(&module->frames, count));

	struct symbols_address *address = &module->addresses.items[place];

	address->first = (uint32_t)module->frames.count;
	address->count = (uint32_t)count;
	address->is_done = true;
	for (size_t i = 0; i < count; i++) {
		struct symbols_frame *frame = &module->frames.items[module->frames.count++];

		frame->function = string_at(reader, cursor_u32(payload));
		frame->file = string_at(reader, cursor_u32(payload));
		frame->line = cursor_u32(payload);
		frame->column = cursor_u32(payload);
		frame->inlined = cursor_u8(payload) != 0;
	}
	return NULL;
}

static void take_verdict(struct reader *reader, struct symbols_module *module,
			 struct cursor *payload)
{
	uint8_t level = cursor_u8(payload);

	module->verdict.reason = string_at(reader, cursor_u32(payload));
	module->verdict.debug_file = string_at(reader, cursor_u32(payload));
	module->verdict.level = level;
	if (payload->failed || level < SYMBOLS_NONE || level > SYMBOLS_FULL) {
		module->verdict.level = SYMBOLS_NONE;
		reader->is_garbled = true;
	}
}

static struct error *take_string(struct symbols *symbols, struct reader *reader,
				 struct cursor *payload)
{
	size_t length = cursor_left(payload);
	const char *text;

	TRY(symbols_intern(symbols, cursor_bytes(payload, length), length, &text));
	return vector_push(&reader->strings, text);
}

/* What a reader that died at a module says of it, put before what the next one says. */
static struct error *explain_failure(struct symbols *symbols, struct symbols_module *module)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!module->failure)
		return NULL;
	strbuf_append(&text, module->failure);
	if (module->verdict.reason)
		strbuf_printf(&text, "; %s", module->verdict.reason);
	TRY(strbuf_result(&text));
	return symbols_intern(symbols, text.text, text.length, &module->verdict.reason);
}

static struct error *finish_module(struct symbols_round *round, struct reader *reader)
{
	struct symbols_module *module = round->modules.items[reader->module];

	for (size_t i = 0; i < module->addresses.count; i++)
		module->addresses.items[i].is_done = true;
	module->is_dirty = false;
	round->progress++;
	reader->module = NO_MODULE;
	return explain_failure(round->symbols, module);
}

static void start_module(struct symbols_round *round, struct reader *reader, struct cursor *payload)
{
	uint32_t place = cursor_u32(payload);

	reader->strings.count = 0;
	if (payload->failed || place >= round->modules.count || reader->module != NO_MODULE ||
	    !round->modules.items[place]->is_dirty)
		reader->is_garbled = true;
	else
		reader->module = place;
}

static struct error *take_record(struct symbols_round *round, struct reader *reader, uint8_t kind,
				 struct cursor payload)
{
	struct symbols_module *module =
		reader->module != NO_MODULE ? round->modules.items[reader->module] : NULL;

	if (kind == SYMBOLS_WIRE_MODULE)
		start_module(round, reader, &payload);
	else if (!module)
		reader->is_garbled = true;
	else if (kind == SYMBOLS_WIRE_STRING)
		return take_string(round->symbols, reader, &payload);
	else if (kind == SYMBOLS_WIRE_VERDICT)
		take_verdict(reader, module, &payload);
	else if (kind == SYMBOLS_WIRE_FRAMES)
		return take_frames(reader, module, &payload);
	else if (kind == SYMBOLS_WIRE_END)
		return finish_module(round, reader);
	else
		reader->is_garbled = true;
	return NULL;
}

/* Every whole record that has come. */
static struct error *take_input(struct symbols_round *round, struct reader *reader)
{
	struct cursor input = cursor_over(reader->input.text, reader->input.length);

	while (cursor_left(&input) >= SYMBOLS_WIRE_HEAD && !reader->is_garbled) {
		size_t start = input.at;
		uint32_t bytes = cursor_u32(&input);
		uint8_t kind = cursor_u8(&input);

		if (bytes > SYMBOLS_WIRE_STRING_MAX) {
			reader->is_garbled = true;
		} else if (bytes > cursor_left(&input)) {
			cursor_seek(&input, start);
			break;
		} else {
			const void *payload = cursor_bytes(&input, bytes);

			TRY(take_record(round, reader, kind, cursor_over(payload, bytes)));
		}
	}
	size_t left = cursor_left(&input);

	memmove(reader->input.text, reader->input.text + input.at, left);
	reader->input.length = left;
	return NULL;
}

static void note_failure(struct symbols_module *module, const struct reader *reader, int status)
{
	const char *what = module->failures > 0 ? "its symbols" : "its debug information";
	char *text = NULL;
	int length;

	if (reader->is_stalled)
		length = asprintf(&text, "reading %s took too long", what);
	else if (WIFSIGNALED(status))
		length = asprintf(&text, "reading %s crashed (signal %d)", what, WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) == SYMBOLS_READER_NO_MEMORY)
		length = asprintf(&text, "reading %s took more memory than there is", what);
	else
		length = asprintf(&text, "reading %s failed", what);
	module->failures++;
	if (length < 0)
		return;
	free(module->failure);
	module->failure = text;
}

static struct error *reader_end(struct symbols_round *round, struct reader *reader)
{
	int status = 0;

	if (reader->is_stalled || reader->is_garbled)
		kill(reader->pid, SIGKILL);
	close(reader->fd);
	reader->fd = -1;
	while (waitpid(reader->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (reader->module == NO_MODULE)
		return NULL;

	struct symbols_module *module = round->modules.items[reader->module];

	note_failure(module, reader, status);
	round->progress++;
	if (module->failures < 2)
		return NULL;
	module->verdict = (struct symbols_verdict){.level = SYMBOLS_NONE};
	return finish_module(round, reader);
}

static struct error *reader_hear(struct symbols_round *round, struct reader *reader)
{
	char bytes[1 << 16];
	ssize_t n = read(reader->fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return NULL;
	if (n <= 0)
		return reader_end(round, reader);
	reader->silent_since = now_ms();
	strbuf_append_bytes(&reader->input, bytes, (size_t)n);
	TRY(strbuf_result(&reader->input));
	TRY(take_input(round, reader));
	return reader->is_garbled ? reader_end(round, reader) : NULL;
}

static struct error *hear_all(struct symbols_round *round, struct reader *readers, unsigned count)
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
		now = now_ms();
		for (unsigned i = 0; i < count; i++) {
			if (readers[i].fd < 0)
				continue;
			if (polled[i].revents) {
				TRY(reader_hear(round, &readers[i]));
			} else if (now - readers[i].silent_since >= stall_ms) {
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
	if (wanted > round->modules.count)
		wanted = (unsigned)round->modules.count;
	return wanted < MAX_READERS ? wanted : MAX_READERS;
}

static struct error *run_readers(struct symbols_round *round, struct reader *readers,
				 unsigned *ret_count)
{
	unsigned wanted = readers_wanted(round);

	while (*ret_count < wanted) {
		struct error *error = reader_start(round, &readers[*ret_count]);

		/* One is enough to go on. */
		if (error && *ret_count == 0)
			return error;
		if (error) {
			error_free(error);
			break;
		}
		(*ret_count)++;
	}
	return hear_all(round, readers, *ret_count);
}

struct error *symbols_round_run(struct symbols_round *round)
{
	struct reader readers[MAX_READERS];
	unsigned count = 0;

	round->progress = 0;
	for (unsigned i = 0; i < MAX_READERS; i++)
		readers[i] = (struct reader){.fd = -1, .module = NO_MODULE, .input = STRBUF_EMPTY};
	round->next = mmap(NULL, sizeof(*round->next), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (round->next == MAP_FAILED)
		return error_no_memory();
	atomic_store(round->next, 0);

	struct error *error = run_readers(round, readers, &count);

	for (unsigned i = 0; i < count; i++) {
		if (readers[i].fd >= 0) {
			kill(readers[i].pid, SIGKILL);
			close(readers[i].fd);
			while (waitpid(readers[i].pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		strbuf_free(&readers[i].input);
		vector_free(&readers[i].strings);
	}
	munmap(round->next, sizeof(*round->next));
	if (!error && round->progress == 0)
		error = error_create(ERROR_SYSTEM,
				     "the processes that read symbols ended before they began");
	return error;
}
