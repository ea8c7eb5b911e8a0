#include "collect/mapped.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/place.h"

static void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

static bool maps(const char *pid, const struct stat *st)
{
	char path[64];
	CLEANUP(close_file) FILE *file = NULL;
	CLEANUP_FREE char *line = NULL;
	size_t size = 0;

	if (snprintf(path, sizeof(path), "/proc/%s/maps", pid) >= (int)sizeof(path))
		return false;
	file = fopen(path, "re");
	while (file && getline(&line, &size, file) > 0) {
		unsigned int high, low;
		uint64_t inode;

		if (sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &high, &low, &inode) == 3 &&
		    inode == (uint64_t)st->st_ino && high == major(st->st_dev) &&
		    low == minor(st->st_dev))
			return true;
	}
	return false;
}

bool collect_is_mapped_by(pid_t pid, int fd)
{
	struct stat st;
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)pid);
	return fstat(fd, &st) == 0 && maps(name, &st);
}

bool collect_is_mapped(int fd)
{
	struct stat st;
	DIR *directory = fstat(fd, &st) == 0 ? opendir("/proc") : NULL;
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory)))
		if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != getpid())
			found = maps(entry->d_name, &st);
	if (directory)
		closedir(directory);
	return found;
}

size_t collect_mapped_since(int fd, uint64_t starttime,
			    bool (*is_known)(const void *context, pid_t pid), const void *context,
			    pid_t *last)
{
	struct stat st;
	DIR *directory = fstat(fd, &st) == 0 ? opendir("/proc") : NULL;
	struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		/* Few began since; mappings take longest to read. */
		if (pid <= 0 || pid == getpid() || collect_process_starttime(pid) < starttime ||
		    !maps(entry->d_name, &st))
			continue;
		count++;
		if (!is_known(context, pid))
			*last = pid;
	}
	if (directory)
		closedir(directory);
	return count;
}
