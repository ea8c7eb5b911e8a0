#include "collect/resident.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/place.h"

int collect_resident_open(pid_t pid, uint64_t starttime)
{
	char path[32];

	if (pid <= 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	/* Opened first, compared then: what matches now is what was opened. */
	if (fd >= 0 && starttime && collect_process_starttime(pid) != starttime) {
		close(fd);
		return -1;
	}
	return fd;
}

static uint64_t field(const char *text, const char *key)
{
	char line[32];
	uint64_t kib;

	snprintf(line, sizeof(line), "\n%s:", key);
	const char *at = strstr(text, line);

	if (!at || sscanf(at + strlen(line), " %" SCNu64 " kB", &kib) != 1)
		return COLLECT_UNKNOWN;
	return kib << 10;
}

bool collect_resident_read(int directory, struct collect_resident *ret)
{
	char text[4096];

	CLEANUP_FD int fd = openat(directory, "status", O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (bytes <= 0)
		return false;
	text[bytes] = '\0';
	*ret = (struct collect_resident){
		.rss = field(text, "VmRSS"),
		.anon = field(text, "RssAnon"),
		.file = field(text, "RssFile"),
		.shmem = field(text, "RssShmem"),
		.swap = field(text, "VmSwap"),
		.peak = field(text, "VmHWM"),
	};

	/* A zombie has a status, but no memory; one that only its first thread left goes on. */
	const char *state = strstr(text, "\nState:\t");
	const char *threads = strstr(text, "\nThreads:\t");

	return state && (!strchr("ZX", state[8]) || (threads && atoi(threads + 10) > 1));
}
