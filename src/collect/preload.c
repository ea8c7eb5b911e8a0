#include "collect/preload.h"

#include <limits.h>
#include <string.h>

#define AGENT_FILE "libmallograph-agent.so"

static struct error *beside_program(char **ret)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length < 0)
		return error_remedy(error_create_system(errno, "/proc/self/exe",
							"cannot find this program's directory"),
				    "Mount /proc.");
	path[length] = '\0';
	char *slash = strrchr(path, '/');

	if (asprintf(ret, "%.*s/" AGENT_FILE, slash ? (int)(slash - path) : 0, path) < 0) {
		*ret = NULL;
		return error_no_memory();
	}
	return NULL;
}

struct error *collect_preload_find(char **ret)
{
	CLEANUP_FREE char *path = NULL;

	TRY(beside_program(&path));
	if (access(path, R_OK) != 0) {
		CLEANUP_FREE char *near = STEAL(path);

		path = strdup(MALLOGRAPH_AGENT_DIR "/" AGENT_FILE);
		if (!path)
			return error_no_memory();
		if (access(path, R_OK) != 0)
			return error_remedy(error_create_system(errno, path,
								"the agent is missing, here and at "
								"%s",
								near),
					    "Run make install again, or use build/mallograph.");
	}
	if (strpbrk(path, " :"))
		return error_remedy(
			error_create_path(ERROR_REFUSED, path,
					  "LD_PRELOAD cannot name a path with a space or "
					  "colon"),
			"Move mallograph to a directory without them.");
	*ret = STEAL(path);
	return NULL;
}
