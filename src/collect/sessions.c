#include "collect/sessions.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "collect/place.h"

#define EXTENSION         ".mgl"
#define PROFILE_EXTENSION ".mgp"

static void close_directory(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

void collect_sessions_free(struct collect_sessions *sessions)
{
	for (size_t i = 0; i < sessions->list.count; i++)
		free(sessions->list.items[i].path);
	vector_free(&sessions->list);
}

/* X.mgl, or X.mgl.PID: what an agent makes where another's ledger has the name. */
static bool is_ledger_name(const char *name)
{
	const char *end = name[0] == '.' ? NULL : strstr(name + 1, EXTENSION);

	if (!end)
		return false;
	end += strlen(EXTENSION);
	return end[0] == '\0' ||
	       (end[0] == '.' && end[1] && end[1 + strspn(end + 1, "0123456789")] == '\0');
}

static bool is_recording_name(const char *name)
{
	size_t length = strlen(name);

	return is_ledger_name(name) ||
	       (name[0] != '.' && length > strlen(PROFILE_EXTENSION) &&
		strcmp(name + length - strlen(PROFILE_EXTENSION), PROFILE_EXTENSION) == 0);
}

static struct error *add(struct collect_sessions *sessions, int fd, const char *directory,
			 const char *name)
{
	struct collect_found found = {0};
	struct stat st;
	int pid, end = 0;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return NULL;
	if (sscanf(name, "%d-%" SCNu64 EXTENSION "%n", &pid, &found.starttime, &end) == 2 &&
	    end == (int)strlen(name))
		found.pid = pid;
	else
		found.starttime = 0;
	found.changed_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
	if (asprintf(&found.path, "%s/%s", directory, name) < 0)
		return error_no_memory();

	struct error *error = vector_push(&sessions->list, found);

	if (error)
		free(found.path);
	return error;
}

static int newest_first(const void *a, const void *b)
{
	const struct collect_found *one = a, *other = b;

	if (one->changed_ns != other->changed_ns)
		return one->changed_ns < other->changed_ns ? 1 : -1;
	return strcmp(one->path, other->path);
}

/* Takes fd over. */
static struct error *list(int fd, const char *path, bool (*is_wanted)(const char *name),
			  struct collect_sessions *sessions)
{
	CLEANUP(close_directory) DIR *directory = fdopendir(fd);
	struct dirent *entry;

	if (!directory) {
		int errnum = errno;

		close(fd);
		return error_create_system(errnum, path, "cannot list");
	}
	while ((entry = readdir(directory)))
		if (is_wanted(entry->d_name))
			TRY(add(sessions, dirfd(directory), path, entry->d_name));
	if (sessions->list.count > 1)
		qsort(sessions->list.items, sessions->list.count, sizeof(*sessions->list.items),
		      newest_first);
	return NULL;
}

struct error *collect_sessions_list(struct collect_sessions *ret)
{
	for (unsigned i = 0; i < COLLECT_PLACES; i++) {
		struct collect_place place = COLLECT_PLACE_CLOSED;
		struct error *error = collect_place_find(i, &place);

		/* A directory that is not there, or not to be trusted, holds none of ours. */
		if (error) {
			error_free(error);
			continue;
		}
		error = list(cleanup_steal_fd(&place.fd), place.path, is_ledger_name, ret);
		collect_place_close(&place);
		TRY(error);
	}
	return NULL;
}

struct error *collect_sessions_list_directory(const char *path, struct collect_sessions *ret)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_create_system(errno, path, "cannot list");
	return list(fd, path, is_recording_name, ret);
}
