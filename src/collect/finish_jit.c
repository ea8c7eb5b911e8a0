/* The files in which runtimes say what the code they made is called. */
#include "collect/finish_internal.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define EARLIER_NS UINT64_C(2000000000) /* clocks of file systems are coarse */

struct seeking {
	pid_t pid;
	const char *cwd;        /* NULL = not known */
	uint64_t start_unix_ns; /* of the process */
	struct symbols_jit *jit;
};

/* A file that the process may have written: another's of the same number, long ago, is none.
 * −1 = there is none. */
static int open_file(const struct seeking *seeking, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (st.st_uid == geteuid() || geteuid() == 0) &&
	    (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec + EARLIER_NS >=
		    seeking->start_unix_ns)
		return fd;
	log_debug("%s: not the process's", path);
	close(fd);
	return -1;
}

static struct error *read_dump(const struct seeking *seeking, const char *path)
{
	CLEANUP_FD int fd = open_file(seeking, path);

	return fd < 0 ? NULL : symbols_jit_read_dump(seeking->jit, fd);
}

static struct error *read_map(const struct seeking *seeking)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)seeking->pid);
	CLEANUP_FD int fd = open_file(seeking, path);

	return fd < 0 ? NULL : symbols_jit_read_map(seeking->jit, fd);
}

/* Where perf's own libraries put them: below .debug/jit of a directory that is told or of the
 * user's, in one of their own. */
static struct error *read_debug_dumps(const struct seeking *seeking)
{
	const char *base = getenv("JITDUMPDIR");
	CLEANUP_FREE char *pattern = NULL;
	struct error *error = NULL;
	glob_t found = {0};

	if (!base || !*base)
		base = getenv("HOME");
	if (!base || !*base)
		return NULL;
	if (asprintf(&pattern, "%s/.debug/jit/*/jit-%d.dump", base, (int)seeking->pid) < 0) {
		pattern = NULL;
		return error_no_memory();
	}
	if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && !error; i++)
			error = read_dump(seeking, found.gl_pathv[i]);
	globfree(&found);
	return error;
}

static struct error *read_dump_in(const struct seeking *seeking, const char *directory)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s/jit-%d.dump", directory, (int)seeking->pid) < 0) {
		path = NULL;
		return error_no_memory();
	}
	return read_dump(seeking, path);
}

/* false = there was no such process. */
static bool find_process(const struct finishing *finishing, uint32_t serial,
			 struct seeking *seeking)
{
	const struct ledger_session *session = ledger_reader_session(finishing->reader);
	const struct finish_retired *retired = collect_finish_retired(finishing, serial);
	uint64_t start_ns = 0;

	if (retired) {
		seeking->pid = retired->kin.pid;
		seeking->cwd = retired->cwd;
		start_ns = retired->start_ns;
	}
	for (size_t i = 0; !retired && i < ledger_reader_process_count(finishing->reader); i++) {
		const struct ledger_process *process = ledger_reader_process(finishing->reader, i);

		if (process->serial != serial)
			continue;
		seeking->pid = process->pid;
		seeking->cwd = process->cwd.bytes;
		start_ns = process->start_ns;
	}
	seeking->start_unix_ns = session->start_unix_ns + (start_ns - session->start_ns);
	return seeking->pid > 0;
}

struct error *collect_finish_jit(const struct finishing *finishing, uint32_t serial,
				 struct symbols_jit *jit)
{
	struct seeking seeking = {.jit = jit};

	if (!find_process(finishing, serial, &seeking))
		return NULL;
	TRY(read_map(&seeking));
	/* With lines, so after the map. */
	TRY(read_dump_in(&seeking, "/tmp"));
	if (seeking.cwd)
		TRY(read_dump_in(&seeking, seeking.cwd));
	return read_debug_dumps(&seeking);
}
