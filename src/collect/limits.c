#include "collect/limits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"

#define NO_LIMIT UINT64_MAX
/* Below this a session is of no use, and something else is in deeper trouble. */
#define LEAST (UINT64_C(8) << 20)

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static bool read_text(const char *path, char *buffer, size_t size)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, buffer, size - 1);

	if (bytes < 0)
		return false;
	buffer[bytes] = '\0';
	return true;
}

/* "max" and unreadable ones are no limit. */
static uint64_t read_number(const char *directory, const char *name)
{
	char path[PATH_MAX], text[64], *end;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path) ||
	    !read_text(path, text, sizeof(text)))
		return NO_LIMIT;
	uint64_t value = strtoull(text, &end, 10);

	return end == text ? NO_LIMIT : value;
}

/* The least headroom from the group up to its hierarchy's root. */
static uint64_t group_headroom(const char *root, const char *group, const char *limit_file,
			       const char *usage_file)
{
	char directory[PATH_MAX];
	uint64_t least = NO_LIMIT;
	size_t root_length = strlen(root);

	if (snprintf(directory, sizeof(directory), "%s%s", root, group) >= (int)sizeof(directory))
		return NO_LIMIT;
	for (;;) {
		uint64_t limit = read_number(directory, limit_file);
		uint64_t usage = read_number(directory, usage_file);

		if (limit != NO_LIMIT && usage != NO_LIMIT)
			least = smaller(least, limit > usage ? limit - usage : 0);
		char *slash = strrchr(directory, '/');

		if (!slash || (size_t)(slash - directory) < root_length)
			return least;
		*slash = '\0';
	}
}

static bool names_memory(const char *controllers, size_t length)
{
	while (length > 0) {
		const char *comma = memchr(controllers, ',', length);
		size_t one = comma ? (size_t)(comma - controllers) : length;

		if (one == 6 && memcmp(controllers, "memory", 6) == 0)
			return true;
		one += comma ? 1 : 0;
		controllers += one;
		length -= one;
	}
	return false;
}

/* Lines "ID:CONTROLLERS:PATH"; without controllers it is version 2's. */
uint64_t collect_limits_cgroup(const char *membership, const char *root)
{
	char group[PATH_MAX], hierarchy[PATH_MAX];
	uint64_t least = NO_LIMIT;

	for (const char *line = membership; *line;) {
		size_t length = strcspn(line, "\n");
		const char *controllers = memchr(line, ':', length);
		const char *path = controllers ? memchr(controllers + 1, ':',
							length - (size_t)(controllers + 1 - line))
					       : NULL;

		if (path) {
			controllers++;
			int path_length = (int)(length - (size_t)(path + 1 - line));

			snprintf(group, sizeof(group), "%.*s", path_length, path + 1);
			if (path == controllers) {
				least = smaller(least, group_headroom(root, group, "memory.max",
								      "memory.current"));
			} else if (names_memory(controllers, (size_t)(path - controllers))) {
				snprintf(hierarchy, sizeof(hierarchy), "%s/memory", root);
				least = smaller(least, group_headroom(hierarchy, group,
								      "memory.limit_in_bytes",
								      "memory.usage_in_bytes"));
			}
		}
		line += length + (line[length] == '\n');
	}
	return least;
}

static uint64_t machine_available(void)
{
	char text[4096];
	uint64_t kib;
	const char *line = read_text("/proc/meminfo", text, sizeof(text))
				   ? strstr(text, "MemAvailable:")
				   : NULL;

	return line && sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1 ? kib << 10 : NO_LIMIT;
}

uint64_t collect_limits_default(int fd)
{
	char membership[8192];
	struct statvfs fs;
	uint64_t least = machine_available();

	if (read_text("/proc/self/cgroup", membership, sizeof(membership)))
		least = smaller(least, collect_limits_cgroup(membership, "/sys/fs/cgroup"));
	if (fstatvfs(fd, &fs) == 0)
		least = smaller(least, (uint64_t)fs.f_bavail * fs.f_frsize);
	return least / 4 > LEAST ? least / 4 : LEAST;
}
