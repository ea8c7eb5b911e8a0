#include "symbols/fetch.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "symbols/child.h"

#define LIBRARY "libdebuginfod.so.1"

/* A server's file must not fill the disk; DEBUGINFOD_MAXSIZE is asked for one's own limit. */
#define MAX_BYTES ((rlim_t)4 << 30)

/* What is left of the time to end in, once told to. */
#define END_S 5u

/* Loaded here alone: no other process of ours needs it, or what it brings along, nor does the
 * build need its header. Its interface has been this since elfutils 0.180. */
struct client;

struct library {
	struct client *(*begin)(void);
	void (*end)(struct client *client);
	/* A descriptor, or −errno. */
	int (*find)(struct client *client, const unsigned char *build_id, int build_id_len,
		    char **path);
	void (*set_progress)(struct client *client,
			     int (*progress)(struct client *client, long done, long whole));
	void (*set_data)(struct client *client, void *data);
	void *(*get_data)(struct client *client);
	/* NULL = nothing was asked for: it was kept from before. */
	const char *(*get_url)(struct client *client);
};

static struct library library;

static bool load(void)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const struct {
		const char *name;
		void *place;
	} functions[] = {
		{"debuginfod_begin", &library.begin},
		{"debuginfod_end", &library.end},
		{"debuginfod_find_debuginfo", &library.find},
		{"debuginfod_set_progressfn", &library.set_progress},
		{"debuginfod_set_user_data", &library.set_data},
		{"debuginfod_get_user_data", &library.get_data},
		{"debuginfod_get_url", &library.get_url},
	};

	if (!handle)
		return false;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = dlsym(handle, functions[i].name);

		if (!function)
			return false;
		memcpy(functions[i].place, &function, sizeof(function));
	}
	return true;
}

struct transfer {
	int fd;
	uint64_t calls; /* of progress() for this fetch */
	struct symbols_fetch_note note;
};

static volatile sig_atomic_t is_told_to_end;

/* libdebuginfod removes what it has of a file if it is given time to. */
static void handle_term(int number)
{
	(void)number;
	is_told_to_end = 1;
	alarm(END_S);
}

static void tell(struct transfer *transfer, uint32_t kind)
{
	const char *bytes = (const char *)&transfer->note;
	size_t left = sizeof(transfer->note);

	transfer->note.kind = kind;
	while (left > 0) {
		ssize_t n = write(transfer->fd, bytes, left);

		if (n < 0 && errno == EINTR)
			continue;
		/* Nobody listens any more. */
		if (n <= 0) {
			is_told_to_end = 1;
			return;
		}
		bytes += n;
		left -= (size_t)n;
	}
}

/* Called again and again while nothing comes, too: what tells is that something did. Until a
 * server has answered, done counts the calls (elfutils 0.188, debuginfod-client.c). */
static int progress(struct client *client, long done, long whole)
{
	struct transfer *transfer = library.get_data(client);
	bool is_bytes = whole > 0 || (done > 0 && (uint64_t)done > ++transfer->calls);

	if (is_bytes && done > 0 && (uint64_t)done != transfer->note.done) {
		transfer->note.done = (uint64_t)done;
		transfer->note.whole = whole > 0 ? (uint64_t)whole : 0;
		tell(transfer, SYMBOLS_FETCH_GOES_ON);
	}
	return is_told_to_end;
}

/* Also of what is announced too small, or not at all: a write that fails ends the transfer. */
static void limit_size(void)
{
	const char *text = getenv("DEBUGINFOD_MAXSIZE");
	unsigned long long told = text ? strtoull(text, NULL, 10) : 0;
	rlim_t most = told > 0 && told < MAX_BYTES ? (rlim_t)told : MAX_BYTES;
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur > most) {
		limit.rlim_cur = most;
		setrlimit(RLIMIT_FSIZE, &limit);
	}
}

/* Its parent's death is told as gently as its parent would. */
static void end_gently(void)
{
	struct sigaction action = {.sa_handler = handle_term};

	sigaction(SIGTERM, &action, NULL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static void ask(const struct symbols_fetch *fetch, struct transfer *transfer)
{
	struct client *client = library.begin();
	char *path = NULL;
	struct stat st;

	if (!client)
		_exit(1);
	library.set_data(client, transfer);
	library.set_progress(client, progress);
	int fd = library.find(client, fetch->id.bytes, (int)fetch->id.count, &path);

	transfer->note.error = fd < 0 ? -fd : 0;
	transfer->note.is_new = library.get_url(client) != NULL;
	if (fd >= 0 && fstat(fd, &st) == 0)
		transfer->note.done = (uint64_t)st.st_size;
	if (fd >= 0 && (!path || strlen(path) >= sizeof(transfer->note.path)))
		transfer->note.error = ENAMETOOLONG;
	else if (fd >= 0)
		memcpy(transfer->note.path, path, strlen(path) + 1);
	if (fd >= 0)
		close(fd);
	free(path);
	library.end(client);
}

_Noreturn void symbols_fetcher_run(const struct symbols *symbols, size_t from, int fd)
{
	static struct transfer transfer = {.fd = 3};

	symbols_child_enter(fd);
	setenv("DEBUGINFOD_URLS", symbols->options.servers, 1);
	limit_size();
	end_gently();
	unsetenv("DEBUGINFOD_PROGRESS");
	unsetenv("DEBUGINFOD_VERBOSE");
	bool loaded = load();

	for (size_t i = from; i < symbols->fetches.count && !is_told_to_end; i++) {
		transfer.calls = 0;
		memset(&transfer.note, 0, sizeof(transfer.note));
		transfer.note.place = (uint32_t)i;
		tell(&transfer, SYMBOLS_FETCH_STARTED);
		transfer.note.error = ELIBACC;
		if (loaded)
			ask(&symbols->fetches.items[i], &transfer);
		tell(&transfer, SYMBOLS_FETCH_ENDED);
	}
	_exit(0);
}
