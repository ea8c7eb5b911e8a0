#include "collect/preload.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/elf.h"

#define AGENT_FILE "libmallograph-agent.so"
#define INSTALLED  MALLOGRAPH_AGENT_DIR "/" AGENT_FILE

static struct error *path_beside_program(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof(AGENT_FILE));

	if (length < 0)
		return error_remedy(error_create_system(errno, "/proc/self/exe",
							"cannot find this program's directory"),
				    "Mount /proc.");
	path[length] = '\0';
	char *slash = strrchr(path, '/');

	memcpy(slash ? slash + 1 : path, AGENT_FILE, sizeof(AGENT_FILE));
	return NULL;
}

/* The agent comes before what is preloaded already. */
static struct error *check_preloaded(const char *list)
{
	while (*list) {
		size_t length = strcspn(list, ": ");
		const char *name = list + length;

		while (name > list && name[-1] != '/')
			name--;
		if (collect_elf_is_first_or_nothing(name))
			return error_remedy(error_create(ERROR_REFUSED,
							 "cannot record with LD_PRELOAD=%.*s: a "
							 "sanitizer must be the first library",
							 (int)length, list),
					    "Take it out of LD_PRELOAD.");
		list += length + (list[length] != '\0');
	}
	return NULL;
}

struct error *collect_preload_find(char **ret)
{
	const char *preloaded = getenv("LD_PRELOAD");
	char beside[PATH_MAX];
	const char *path = beside;

	TRY(check_preloaded(preloaded ? preloaded : ""));
	TRY(path_beside_program(beside));
	if (access(path, R_OK) != 0)
		path = INSTALLED;
	if (access(path, R_OK) != 0)
		return error_remedy(error_create_system(errno, path,
							"the agent is missing, here and at %s",
							beside),
				    "Run make install again, or use build/mallograph.");
	if (strpbrk(path, " :"))
		return error_remedy(error_create_path(ERROR_REFUSED, path,
						      "LD_PRELOAD cannot name a path with a space "
						      "or colon"),
				    "Move mallograph to a directory without them.");
	*ret = strdup(path);
	return *ret ? NULL : error_no_memory();
}
