#include "symbols/cache.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#define LOG_DOMAIN "symbols"
#include "base/log.h"

/* A directory of ours; −1 = it is not, or one of those may write to it. */
static int open_directory(int parent, const char *name, int flags, mode_t others)
{
	CLEANUP_FD int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_uid != geteuid() || st.st_mode & others ||
	    faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
		return -1;
	return cleanup_steal_fd(&fd);
}

static int find_directory(const char *base, const char *name)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s%s", base, name) < 0) {
		path = NULL;
		return -1;
	}
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -1;
	/* What sudo leaves in place of the user's own would be root's. The group is often the
	 * user's alone; what it puts in our place is not ours, or a link. */
	CLEANUP_FD int parent = open_directory(AT_FDCWD, path, 0, S_IWOTH);

	if (parent < 0 || (mkdirat(parent, "mallograph", 0700) != 0 && errno != EEXIST))
		return -1;
	return open_directory(parent, "mallograph", O_NOFOLLOW, S_IWGRP | S_IWOTH);
}

/* What reads the files: this very program, and the library. */
static void describe_maker(struct strbuf *maker)
{
	struct symbols_identity own = symbols_identity_of("/proc/self/exe");

	strbuf_printf(maker, "%s %s %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64,
		      MALLOGRAPH_VERSION, dwfl_version(NULL), own.device, own.inode, own.size,
		      (uint64_t)own.mtime_ns);
}

struct error *symbols_cache_open(struct symbols_cache *ret)
{
	const char *wish = getenv("MALLOGRAPH_CACHE");
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	*ret = (struct symbols_cache)SYMBOLS_CACHE_NONE;
	if ((wish && strcmp(wish, "off") == 0) || getauxval(AT_SECURE))
		return NULL;
	if (cache && cache[0] == '/')
		ret->fd = find_directory(cache, "");
	else if (home && home[0] == '/')
		ret->fd = find_directory(home, "/.cache");
	if (ret->fd < 0) {
		log_debug("no cache: no directory for it that is ours");
		return NULL;
	}
	describe_maker(&ret->maker);
	return strbuf_result(&ret->maker);
}

void symbols_cache_close(struct symbols_cache *cache)
{
	if (cache->fd >= 0)
		close(cache->fd);
	strbuf_free(&cache->maker);
	*cache = (struct symbols_cache)SYMBOLS_CACHE_NONE;
}
