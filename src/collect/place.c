#include "collect/place.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

void collect_place_close(struct collect_place *place)
{
	if (place->fd >= 0)
		close(place->fd);
	free(place->path);
	*place = (struct collect_place)COLLECT_PLACE_CLOSED;
}

static struct error *candidate(unsigned index, char **ret)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int length = -1;

	if (index == 0 && runtime && runtime[0] == '/')
		length = asprintf(ret, "%s/mallograph", runtime);
	else if (index == 1)
		length = asprintf(ret, "/dev/shm/mallograph-%u", (unsigned)geteuid());
	else
		return error_create(ERROR_NOT_FOUND, "no runtime directory");
	if (length < 0) {
		*ret = NULL;
		return error_no_memory();
	}
	return NULL;
}

static struct error *open_candidate(unsigned index, bool make, struct collect_place *ret)
{
	CLEANUP_FREE char *path = NULL;
	struct stat st;

	TRY(candidate(index, &path));
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
		return error_create_system(errno, path, "cannot make the session directory");

	CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		return error_create_system(errno, path, "cannot open the session directory");
	if (st.st_uid != geteuid())
		return error_create_path(ERROR_REFUSED, path,
					 "the session directory belongs to another user");
	if (st.st_mode & 077)
		return error_create_path(ERROR_REFUSED, path,
					 "the session directory is open to others (mode %o)",
					 (unsigned)st.st_mode & 07777);
	ret->fd = cleanup_steal_fd(&fd);
	ret->path = STEAL(path);
	return NULL;
}

struct error *collect_place_open(unsigned index, struct collect_place *ret)
{
	return open_candidate(index, true, ret);
}

struct error *collect_place_find(unsigned index, struct collect_place *ret)
{
	return open_candidate(index, false, ret);
}

uint64_t collect_process_starttime(pid_t pid)
{
	char path[32], stat[1024];
	uint64_t starttime = 0;
	char state = 'Z';
	long threads = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);

	if (bytes <= 0)
		return 0;
	stat[bytes] = '\0';
	/* The name may hold anything, parentheses too: go by the last one. */
	const char *rest = strrchr(stat, ')');

	if (!rest || sscanf(rest,
			    ") %c %*s %*s %*s %*s %*s %*s %*s %*s "
			    "%*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %" SCNu64,
			    &state, &threads, &starttime) != 3)
		return 0;
	/* One that only its first thread left goes on. */
	return (state == 'Z' && threads <= 1) || state == 'X' ? 0 : starttime;
}

static struct error *make_file(const char *directory, char **ret)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s/mallograph-%d-XXXXXX", directory, (int)getpid()) < 0) {
		path = NULL;
		return error_no_memory();
	}
	CLEANUP_FD int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return error_create_system(errno, directory, "cannot make a temporary file");
	*ret = STEAL(path);
	return NULL;
}

struct error *collect_place_temporary(char **ret)
{
	const char *directory = getenv("TMPDIR");

	for (unsigned i = 0; i < COLLECT_PLACES; i++) {
		struct collect_place place = COLLECT_PLACE_CLOSED;
		struct error *error = collect_place_open(i, &place);

		if (!error)
			error = make_file(place.path, ret);
		collect_place_close(&place);
		if (!error)
			return NULL;
		error_free(error);
	}
	return make_file(directory && *directory ? directory : "/tmp", ret);
}
