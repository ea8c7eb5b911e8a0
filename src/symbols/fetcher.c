#include "symbols/fetch.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "symbols/child.h"

#define LIBRARY "libdebuginfod.so.1"

/* A server's file must not fill the disk. */
#define MAX_BYTES "4294967296"

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
	struct symbols_fetch_note note;
};

static void tell(struct transfer *transfer, uint32_t kind)
{
	const char *bytes = (const char *)&transfer->note;
	size_t left = sizeof(transfer->note);

	transfer->note.kind = kind;
	while (left > 0) {
		ssize_t n = write(transfer->fd, bytes, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(1);
		bytes += n;
		left -= (size_t)n;
	}
}

/* Called again and again while nothing comes, too: what tells is that something did. */
static int progress(struct client *client, long done, long whole)
{
	struct transfer *transfer = library.get_data(client);

	if (done > 0 && (uint64_t)done != transfer->note.done) {
		transfer->note.done = (uint64_t)done;
		transfer->note.whole = whole > 0 ? (uint64_t)whole : 0;
		tell(transfer, SYMBOLS_FETCH_GOES_ON);
	}
	return 0;
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
	setenv("DEBUGINFOD_MAXSIZE", MAX_BYTES, 0);
	unsetenv("DEBUGINFOD_PROGRESS");
	unsetenv("DEBUGINFOD_VERBOSE");
	bool loaded = load();

	for (size_t i = from; i < symbols->fetches.count; i++) {
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
