#include "collect/output.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/strbuf.h"

#define EXTENSION ".mgp"
/* Leaves room in 255 bytes for a pid, a number and the extension. */
#define MAX_PROGRAM_NAME 200
#define MAX_TRIES        10000

struct error *collect_output_check(const char *pattern)
{
	if (*pattern == '\0' || strcmp(pattern, "-") == 0)
		return error_remedy(error_create(ERROR_USAGE, "-o needs the name of a file"),
				    "Standard output belongs to the program.");
	for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%'))
		if (at[1] == '\0' || !strchr("pnht%", at[1]))
			return error_remedy(
				error_create(ERROR_USAGE, "-o %s: %%%.1s means nothing", pattern,
					     at + 1),
				"Use %%p (pid), %%n (program), %%h (host), %%t (time) or "
				"%%%%.");
	return NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void append_time(struct strbuf *buffer)
{
	char text[32];
	time_t now = time(NULL);
	struct tm utc;

	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc);
	strbuf_append(buffer, text);
}

static void append_host(struct strbuf *buffer)
{
	char host[HOST_NAME_MAX + 1] = "localhost";

	gethostname(host, sizeof(host) - 1);
	strbuf_append(buffer, host);
}

static struct error *expand(const char *pattern, const char *program, pid_t pid, char **ret)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;
	const char *name = base_name(program);

	for (const char *at = pattern; *at; at++) {
		if (*at != '%') {
			strbuf_append_char(&buffer, *at);
			continue;
		}
		switch (*++at) {
		case 'p':
			strbuf_printf(&buffer, "%d", (int)pid);
			break;
		case 'n':
			strbuf_append_bytes(&buffer, name, strnlen(name, MAX_PROGRAM_NAME));
			break;
		case 'h':
			append_host(&buffer);
			break;
		case 't':
			append_time(&buffer);
			break;
		default:
			strbuf_append_char(&buffer, '%');
			break;
		}
	}
	*ret = strbuf_take(&buffer);
	return *ret ? NULL : error_no_memory();
}

static struct error *split(struct collect_output *output)
{
	const char *slash = strrchr(output->path, '/');
	const char *name = slash ? slash + 1 : output->path;

	free(output->directory);
	free(output->name);
	if (!slash)
		output->directory = strdup(".");
	else
		output->directory = strndup(output->path, (size_t)(slash - output->path) + 1);
	output->name = strdup(name);
	return output->directory && output->name ? NULL : error_no_memory();
}

/* What stands under the name now: a link is followed, so that what is replaced is the
 * file it names. */
static struct error *examine_existing(struct collect_output *output)
{
	struct stat st;

	if (stat(output->path, &st) != 0)
		return NULL;
	if (S_ISDIR(st.st_mode))
		return error_remedy(error_create_path(ERROR_REFUSED, output->path,
						      "cannot be written: a directory"),
				    "Name a file in it.");
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) {
		output->discard = true;
		return NULL;
	}
	if (!S_ISREG(st.st_mode))
		return error_remedy(error_create_path(ERROR_REFUSED, output->path,
						      "cannot be written: not a regular file"),
				    "A profile is written in no order: name a regular file.");
	char *real = realpath(output->path, NULL);

	if (!real)
		return error_create_system(errno, output->path, "cannot be written");
	free(output->path);
	output->path = real;
	return split(output);
}

static struct error *examine_directory(struct collect_output *output)
{
	static const char *const remedy = "Name a file somewhere else with -o FILE.";
	struct statvfs fs;

	output->directory_fd = open(output->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (output->directory_fd < 0)
		return error_remedy(
			error_create_system(errno, output->directory, "cannot write there"),
			remedy);
	if (faccessat(AT_FDCWD, output->directory, W_OK | X_OK, AT_EACCESS) != 0)
		return error_remedy(
			error_create_system(errno, output->directory, "cannot write there"),
			remedy);
	if (statvfs(output->directory, &fs) == 0 && fs.f_blocks > 0 && fs.f_bavail == 0)
		return error_remedy(
			error_create_system(ENOSPC, output->directory, "cannot write there"),
			remedy);
	return NULL;
}

struct error *collect_output_prepare(const char *pattern, const char *program, pid_t pid,
				     struct collect_output *ret)
{
	ret->replace = pattern != NULL;
	TRY(expand(pattern ? pattern : "mallograph.%n.%p" EXTENSION, program, pid, &ret->path));
	TRY(split(ret));
	if (ret->replace)
		TRY(examine_existing(ret));
	return ret->discard ? NULL : examine_directory(ret);
}

static void drop_temporary(struct collect_output *output)
{
	if (output->fd >= 0)
		close(cleanup_steal_fd(&output->fd));
	if (output->temporary)
		unlinkat(output->directory_fd, output->temporary, 0);
	free(output->temporary);
	output->temporary = NULL;
}

struct error *collect_output_begin(struct collect_output *output)
{
	/* Of a try before this one. */
	drop_temporary(output);
	for (unsigned i = 0; i < MAX_TRIES; i++) {
		free(output->temporary);
		if (asprintf(&output->temporary, ".mallograph-%d-%u", (int)getpid(), i) < 0) {
			output->temporary = NULL;
			return error_no_memory();
		}
		output->fd = openat(output->directory_fd, output->temporary,
				    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (output->fd >= 0)
			return NULL;
		if (errno != EEXIST)
			break;
	}
	int errnum = errno;

	free(output->temporary);
	output->temporary = NULL;
	return error_create_system(errnum, output->directory, "cannot write there");
}

/* The number-th name to try: the plain one, then with .1, .2 … before the extension. */
static struct error *numbered(const struct collect_output *output, unsigned number, char **ret)
{
	size_t stem = strlen(output->name) - strlen(EXTENSION);
	int length = number == 0 ? asprintf(ret, "%s", output->name)
				 : asprintf(ret, "%.*s.%u%s", (int)stem, output->name, number,
					    EXTENSION);

	if (length >= 0)
		return NULL;
	*ret = NULL;
	return error_no_memory();
}

/* 0, or errno; EEXIST if there is such a file. */
static int rename_if_free(const struct collect_output *output, const char *name)
{
	if (renameat2(output->directory_fd, output->temporary, output->directory_fd, name,
		      RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return errno;
	/* A file system without that, such as NFS, has hard links. */
	if (linkat(output->directory_fd, output->temporary, output->directory_fd, name, 0) != 0)
		return errno;
	unlinkat(output->directory_fd, output->temporary, 0);
	return 0;
}

static struct error *take_free_name(struct collect_output *output)
{
	int errnum = EEXIST;

	for (unsigned i = 0; i < MAX_TRIES && errnum == EEXIST; i++) {
		CLEANUP_FREE char *name = NULL;

		TRY(numbered(output, i, &name));
		errnum = rename_if_free(output, name);
		if (errnum == 0) {
			free(output->path);
			output->path = STEAL(name);
			TRY(split(output));
		}
	}
	return errnum ? error_create_system(errnum, output->path, "cannot name the profile") : NULL;
}

struct error *collect_output_finish(struct collect_output *output)
{
	if (close(cleanup_steal_fd(&output->fd)) != 0)
		return error_create_system(errno, output->path, "cannot write the profile");
	if (!output->replace) {
		TRY(take_free_name(output));
	} else if (renameat(output->directory_fd, output->temporary, output->directory_fd,
			    output->name) != 0) {
		return error_create_system(errno, output->path, "cannot name the profile");
	}
	free(output->temporary);
	output->temporary = NULL;
	return NULL;
}

void collect_output_close(struct collect_output *output)
{
	drop_temporary(output);
	if (output->directory_fd >= 0)
		close(output->directory_fd);
	free(output->directory);
	free(output->name);
	free(output->path);
	*output = (struct collect_output)COLLECT_OUTPUT_CLOSED;
}
