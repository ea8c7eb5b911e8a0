#include "collect/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/place.h"

/* As collect_place_temporary() names them, and what SQLite adds. */
static bool is_of_the_dead(const char *name)
{
	int pid, start = 0, end = 0;

	return sscanf(name, "mallograph-%d-%n%*6[a-zA-Z0-9]%n", &pid, &start, &end) == 1 &&
	       end - start == 6 && (name[end] == '\0' || name[end] == '-') && pid > 0 &&
	       kill(pid, 0) != 0 && errno == ESRCH;
}

/* "X.mgp-shm" where there is no X.mgp. */
static bool is_without_profile(int directory, const char *name)
{
	static const char *const endings[] = {"-wal", "-shm", "-journal"};
	size_t length = strlen(name);
	struct stat st;

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		size_t ending = strlen(endings[i]);

		if (length <= ending || strcmp(name + length - ending, endings[i]) != 0)
			continue;
		CLEANUP_FREE char *profile = strndup(name, length - ending);

		return profile && length - ending > 4 &&
		       strcmp(profile + length - ending - 4, ".mgp") == 0 &&
		       fstatat(directory, profile, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
		       errno == ENOENT;
	}
	return false;
}

static void sweep(int fd)
{
	DIR *directory = fdopendir(fd);
	struct dirent *entry;

	if (!directory) {
		close(fd);
		return;
	}
	while ((entry = readdir(directory)))
		if (is_of_the_dead(entry->d_name) ||
		    is_without_profile(dirfd(directory), entry->d_name))
			unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
}

void collect_sweep(void)
{
	for (unsigned i = 0; i < COLLECT_PLACES; i++) {
		struct collect_place place = COLLECT_PLACE_CLOSED;
		struct error *error = collect_place_find(i, &place);

		if (!error)
			sweep(cleanup_steal_fd(&place.fd));
		error_free(error);
		collect_place_close(&place);
	}
}
