#include "collect/wish.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/strbuf.h"

#define NAME "user.mallograph.output"

void collect_wish_keep(int fd, const struct collect_output *output)
{
	CLEANUP_FREE char *directory = realpath(output->directory, NULL);
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;

	if (!directory || !output->replace)
		return;
	strbuf_printf(&path, "%s/%s", directory, output->name);
	if (!path.failed && path.length < PATH_MAX)
		fsetxattr(fd, NAME, path.text, path.length, 0);
}

char *collect_wish_read(int fd)
{
	CLEANUP_STRBUF struct strbuf pattern = STRBUF_EMPTY;
	char path[PATH_MAX];
	ssize_t bytes = fgetxattr(fd, NAME, path, sizeof(path));

	if (bytes <= 0 || path[0] != '/' || memchr(path, '\0', (size_t)bytes))
		return NULL;
	for (ssize_t i = 0; i < bytes; i++) {
		strbuf_append_char(&pattern, path[i]);
		if (path[i] == '%')
			strbuf_append_char(&pattern, '%');
	}
	return strbuf_take(&pattern);
}
