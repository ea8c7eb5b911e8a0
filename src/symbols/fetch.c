#include "symbols/fetch.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "symbols/child.h"

struct fetcher {
	struct symbols *symbols;
	pid_t pid;
	int fd;
	struct strbuf input;
	size_t at;                   /* the fetch it is at */
	int64_t began, heard, named; /* ms; named: when it came to that fetch */
	int64_t silent_ms, whole_ms; /* limits */
	const char *gave_up;         /* why */
	bool is_over;
};

static int64_t now_ms(void) { return (int64_t)(clock_now_ns() / 1000000); }

static int64_t limit_ms(const char *variable, unsigned seconds)
{
	const char *text = getenv(variable);
	long value = text ? strtol(text, NULL, 10) : 0;

	return (value > 0 && value < 86400 ? value : (long)seconds) * 1000;
}

static bool wants(const struct symbols_module *module, const struct symbols_build_id *id)
{
	for (size_t i = 0; i < module->wanted.count; i++)
		if (symbols_build_id_equal(&module->wanted.items[i], id))
			return true;
	return false;
}

static const char *name_of(const struct fetcher *fetcher, const struct symbols_fetch *fetch)
{
	const struct symbols *symbols = fetcher->symbols;

	for (size_t i = 0; i < symbols->modules.count; i++) {
		const char *path = symbols->modules.items[i]->path;
		const char *slash = strrchr(path, '/');

		if (wants(symbols->modules.items[i], &fetch->id))
			return slash ? slash + 1 : path;
	}
	return "";
}

static void tell(const struct fetcher *fetcher, enum symbols_fetch_step step, uint64_t done,
		 uint64_t whole, const char *why)
{
	const struct symbols_options *options = &fetcher->symbols->options;

	if (options->tell)
		options->tell(
			options->tell_context,
			&(struct symbols_fetch_event){
				.step = step,
				.name = name_of(fetcher,
						&fetcher->symbols->fetches.items[fetcher->at]),
				.done = done,
				.whole = whole,
				.ms = now_ms() - fetcher->named,
				.why = why,
			});
}

static const char *why_not(int number)
{
	switch (number) {
	case ENOENT:
		return NULL; /* the outcome says it */
	case ELIBACC:
		return "libdebuginfod is not installed";
	case ETIME:
	case ETIMEDOUT:
		return "the servers take too long";
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ECONNREFUSED:
		return "no server can be reached";
	default:
		return strerror(number);
	}
}

static struct error *end_fetch(struct fetcher *fetcher, struct symbols_fetch *fetch,
			       const struct symbols_fetch_note *note)
{
	struct symbols *symbols = fetcher->symbols;

	fetch->is_known = true;
	if (note->error) {
		const char *why = why_not(note->error);

		tell(fetcher, why ? SYMBOLS_FETCH_FAILED : SYMBOLS_FETCH_ABSENT, 0, 0, why);
		return why ? symbols_intern(symbols, why, strlen(why), &fetch->why) : NULL;
	}
	tell(fetcher, note->is_new ? SYMBOLS_FETCH_DONE : SYMBOLS_FETCH_KEPT, note->done,
	     note->done, NULL);
	return symbols_intern(symbols, note->path, sizeof(note->path), &fetch->path);
}

/* Takes what can only be a note of what is going on; anything else ends the fetcher. */
static struct error *take_note(struct fetcher *fetcher, const struct symbols_fetch_note *note)
{
	struct symbols *symbols = fetcher->symbols;

	if (note->place >= symbols->fetches.count || note->place < fetcher->at ||
	    symbols->fetches.items[note->place].is_known ||
	    (note->kind == SYMBOLS_FETCH_ENDED && note->error == 0 && note->path[0] != '/')) {
		fetcher->gave_up = "asking for it failed";
		return NULL;
	}
	fetcher->at = note->place;
	switch (note->kind) {
	case SYMBOLS_FETCH_STARTED:
		fetcher->named = now_ms();
		return NULL;
	case SYMBOLS_FETCH_ENDED:
		return end_fetch(fetcher, &symbols->fetches.items[note->place], note);
	default:
		tell(fetcher, SYMBOLS_FETCH_PROGRESS, note->done, note->whole, NULL);
		return NULL;
	}
}

static struct error *hear(struct fetcher *fetcher)
{
	struct symbols_fetch_note note;
	char bytes[sizeof(note)];
	ssize_t n = read(fetcher->fd, bytes, sizeof(bytes));
	size_t at = 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return NULL;
	if (n <= 0) {
		fetcher->is_over = true;
		return NULL;
	}
	fetcher->heard = now_ms();
	strbuf_append_bytes(&fetcher->input, bytes, (size_t)n);
	TRY(strbuf_result(&fetcher->input));
	while (fetcher->input.length - at >= sizeof(note) && !fetcher->gave_up) {
		memcpy(&note, fetcher->input.text + at, sizeof(note));
		note.path[sizeof(note.path) - 1] = '\0';
		at += sizeof(note);
		TRY(take_note(fetcher, &note));
	}
	memmove(fetcher->input.text, fetcher->input.text + at, fetcher->input.length - at);
	fetcher->input.length -= at;
	return NULL;
}

#define TICK_MS  250  /* often enough to say that it still waits */
#define GRACE_MS 2000 /* a client looks up from a server that is silent every second */

static struct error *listen(struct fetcher *fetcher)
{
	while (!fetcher->is_over && !fetcher->gave_up) {
		struct pollfd polled = {.fd = fetcher->fd, .events = POLLIN};
		int64_t now;

		if (poll(&polled, 1, TICK_MS) < 0 && errno != EINTR)
			return error_create_system(errno, NULL, "cannot wait for debuginfod");
		if (polled.revents)
			TRY(hear(fetcher));
		else
			tell(fetcher, SYMBOLS_FETCH_PROGRESS, 0, 0, NULL);
		now = now_ms();
		if (now - fetcher->heard >= fetcher->silent_ms)
			fetcher->gave_up = "the servers do not answer";
		else if (now - fetcher->began >= fetcher->whole_ms)
			fetcher->gave_up = "the servers take too long";
	}
	return NULL;
}

/* What it did not come to. */
static struct error *end_rest(struct fetcher *fetcher, size_t from)
{
	struct symbols *symbols = fetcher->symbols;
	const char *why = fetcher->gave_up ? fetcher->gave_up : "asking for it failed";
	bool is_told = false;

	for (size_t i = from; i < symbols->fetches.count; i++) {
		struct symbols_fetch *fetch = &symbols->fetches.items[i];

		if (fetch->is_known)
			continue;
		fetch->is_known = true;
		TRY(symbols_intern(symbols, why, strlen(why), &fetch->why));
		fetcher->at = i;
		if (!is_told)
			tell(fetcher, SYMBOLS_FETCH_FAILED, 0, 0, why);
		is_told = true;
	}
	return NULL;
}

/* It gets a little time to remove what it has of a file. */
static void end_child(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int64_t until = now_ms() + GRACE_MS;

	kill(pid, SIGTERM);
	while (now_ms() < until) {
		pid_t ended = waitpid(pid, NULL, WNOHANG);

		if (ended == pid || (ended < 0 && errno != EINTR))
			return;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static struct error *fetch_from(struct symbols *symbols, size_t from)
{
	struct fetcher fetcher = {
		.symbols = symbols,
		.at = from,
		.input = STRBUF_EMPTY,
		.silent_ms = limit_ms("DEBUGINFOD_TIMEOUT", SYMBOLS_FETCH_SILENT_S),
		.whole_ms = limit_ms("DEBUGINFOD_MAXTIME", SYMBOLS_FETCH_WHOLE_S),
	};
	int fd;

	TRY(symbols_child_start("fetch debug files", &fetcher.pid, &fd));
	if (fetcher.pid == 0)
		symbols_fetcher_run(symbols, from, fd);
	fetcher.fd = fd;
	fetcher.began = fetcher.heard = fetcher.named = now_ms();
	struct error *error = listen(&fetcher);

	close(fetcher.fd);
	end_child(fetcher.pid);
	if (!error)
		error = end_rest(&fetcher, from);
	strbuf_free(&fetcher.input);
	return error;
}

static struct symbols_fetch *find(struct symbols *symbols, const struct symbols_build_id *id)
{
	for (size_t i = 0; i < symbols->fetches.count; i++)
		if (symbols_build_id_equal(&symbols->fetches.items[i].id, id))
			return &symbols->fetches.items[i];
	return NULL;
}

static struct error *add_wanted(struct symbols *symbols, const struct symbols_module *module)
{
	for (size_t i = 0; i < module->wanted.count; i++)
		if (!find(symbols, &module->wanted.items[i]))
			TRY(vector_push(&symbols->fetches,
					((struct symbols_fetch){.id = module->wanted.items[i]})));
	return NULL;
}

/* In the module's trace, and beside what else is said of it. */
static struct error *note_failure(struct symbols_module *module, const struct symbols_fetch *fetch)
{
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY, reason = STRBUF_EMPTY;
	struct symbols_try tried = {
		.place = SYMBOLS_PLACE_SERVER,
		.outcome = fetch->why ? SYMBOLS_OUTCOME_UNREADABLE : SYMBOLS_OUTCOME_ABSENT,
		.detail = fetch->why,
	};

	symbols_search_server_path(&path, &fetch->id);
	if (module->verdict.reason)
		strbuf_printf(&reason, "%s; ", module->verdict.reason);
	strbuf_printf(&reason, "debuginfod: %s", fetch->why ? fetch->why : "no server has it");
	TRY(strbuf_result(&path));
	TRY(strbuf_result(&reason));
	TRY(symbols_intern(module->owner, path.text, path.length, &tried.path));
	TRY(symbols_intern(module->owner, reason.text, reason.length, &module->verdict.reason));
	return vector_push(&module->tries, tried);
}

/* What was found without it is looked up anew. */
static void begin_again(struct symbols_module *module)
{
	for (size_t i = 0; i < module->addresses.count; i++) {
		module->addresses.items[i].is_done = false;
		module->addresses.items[i].count = 0;
	}
	module->frames.count = 0;
	symbols_cached_free(&module->cached);
	module->is_dirty = true;
}

static struct error *settle(struct symbols *symbols, struct symbols_module *module)
{
	bool any = false;

	for (size_t i = 0; i < module->wanted.count; i++) {
		const struct symbols_fetch *fetch = find(symbols, &module->wanted.items[i]);

		if (fetch && fetch->path)
			any = true;
		else if (fetch)
			TRY(note_failure(module, fetch));
	}
	module->wanted.count = 0;
	if (any)
		begin_again(module);
	return NULL;
}

struct error *symbols_fetch(struct symbols *symbols)
{
	size_t before = symbols->fetches.count;

	if (!symbols->options.servers)
		return NULL;
	for (size_t i = 0; i < symbols->modules.count; i++)
		TRY(add_wanted(symbols, symbols->modules.items[i]));
	if (symbols->fetches.count > before)
		TRY(fetch_from(symbols, before));
	for (size_t i = 0; i < symbols->modules.count; i++)
		TRY(settle(symbols, symbols->modules.items[i]));
	return NULL;
}
