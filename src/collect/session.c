#include "collect/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "collect/limits.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define FILE_BYTES       (UINT64_C(1) << 40)
#define LEAST_FILE_BYTES (UINT64_C(64) << 20)
#define MAX_AHEAD_UNITS  2u
#define DISK_REMEDY \
	"Free space there, or set XDG_RUNTIME_DIR to a directory of yours that has some."

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct error *collect_session_check_kernel(void)
{
	void *page =
		mmap(NULL, MGL_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return error_no_memory();
	int errnum = madvise(page, MGL_PAGE, MADV_POPULATE_WRITE) == 0 ? 0 : errno;

	munmap(page, MGL_PAGE);
	if (errnum == EINVAL)
		return error_remedy(
			error_create(ERROR_REFUSED, "this kernel lacks MADV_POPULATE_WRITE"),
			"Run Linux 5.14 or later.");
	return errnum ? error_create_system(errnum, NULL, "cannot populate memory") : NULL;
}

static struct error *size_failed(const struct collect_session *session)
{
	int errnum = errno;
	struct error *error =
		error_create_system(errnum, session->place.path, "cannot size the session file");

	return errnum == EFBIG ? error_remedy(error, "Raise the limit on the size of files "
						     "(ulimit -f unlimited).")
			       : error;
}

/* As large as the file system and RLIMIT_FSIZE let a sparse file be. */
static struct error *size_file(struct collect_session *session)
{
	uint64_t bytes = FILE_BYTES;

	while (ftruncate(session->fd, (off_t)bytes) != 0) {
		if (errno == EINTR)
			continue;
		if ((errno != EFBIG && errno != EINVAL) || bytes <= LEAST_FILE_BYTES)
			return size_failed(session);
		bytes /= 2;
	}
	session->file_bytes = bytes;
	return NULL;
}

static struct error *write_all(int fd, const void *data, size_t bytes, off_t offset)
{
	ssize_t n = pwrite(fd, data, bytes, offset);

	if (n == (ssize_t)bytes)
		return NULL;
	return error_create_system(n < 0 ? errno : ENOSPC, NULL, "cannot write the session file");
}

static struct error *write_head(struct collect_session *session,
				const struct collect_session_limits *limits)
{
	uint8_t pages[MGL_HEAD_BYTES] = {0};
	struct mgl_session head = {
		.magic = MGL_SESSION_MAGIC,
		.layout_version = MGL_LAYOUT_VERSION,
		.flags = MGL_SESSION_COLLECTED,
		.unit_bytes = MGL_UNIT_BYTES,
		.file_bytes = session->file_bytes,
		.start_ns = clock_now_ns(),
		.start_unix_ns = clock_ns(CLOCK_REALTIME),
		.collector_pid = getpid(),
		.next_unit = 1,
		.next_process = 1,
	};
	struct mgl_control control = {
		.version = 1,
		.max_bytes = session->max_bytes,
		.max_depth = limits->depth,
		.sample_period = 1,
	};

	snprintf(head.writer, sizeof(head.writer), "mallograph %s", MALLOGRAPH_VERSION);
	memcpy(pages, &head, sizeof(head));
	memcpy(pages + MGL_CONTROL_OFFSET, &control, sizeof(control));
	if (limits->choice)
		snprintf((char *)pages + MGL_CONTROL_OFFSET + MGL_CHOICE_OFFSET, MGL_CHOICE_BYTES,
			 "%s", limits->choice);

	struct error *error = write_all(session->fd, pages, sizeof(pages), 0);

	return error && error->errnum == ENOSPC ? error_remedy(error, DISK_REMEDY) : error;
}

/* The file gets its name last, so that nobody ever sees it unlocked or half made. */
static struct error *name_file(struct collect_session *session, pid_t root)
{
	char proc[32];

	if (asprintf(&session->name, "%d-%" PRIu64 ".mgl", (int)root,
		     collect_process_starttime(root)) < 0) {
		session->name = NULL;
		return error_no_memory();
	}
	if (asprintf(&session->path, "%s/%s", session->place.path, session->name) < 0) {
		session->path = NULL;
		return error_no_memory();
	}
	session->profile = collect_session_profile(session->path);
	if (!session->profile)
		return error_no_memory();
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", session->fd);
	if (linkat(AT_FDCWD, proc, session->place.fd, session->name, AT_SYMLINK_FOLLOW) != 0) {
		int errnum = errno;

		free(session->name);
		session->name = NULL;
		return error_create_system(errnum, session->path, "cannot name the session file");
	}
	return NULL;
}

static struct error *create_in(unsigned index, pid_t root,
			       const struct collect_session_limits *limits,
			       struct collect_session *session)
{
	TRY(collect_place_open(index, &session->place));
	session->fd = openat(session->place.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (session->fd < 0)
		return error_create_system(errno, session->place.path,
					   "cannot make a session file");
	if (flock(session->fd, LOCK_EX | LOCK_NB) != 0)
		return error_create_system(errno, session->place.path,
					   "cannot lock the session file");
	session->max_bytes =
		limits->bytes ? limits->bytes : collect_limits_default(session->place.fd);
	session->taken_units = session->populated_units = 1;
	TRY(size_file(session));
	TRY(write_head(session, limits));
	return name_file(session, root);
}

struct error *collect_session_create(pid_t root, const struct collect_session_limits *limits,
				     struct collect_session *ret)
{
	struct error *error = NULL;

	for (unsigned i = 0; i < COLLECT_PLACES; i++) {
		struct collect_session session = COLLECT_SESSION_CLOSED;
		struct error *failure = create_in(i, root, limits, &session);

		if (!failure) {
			error_free(error);
			*ret = session;
			return NULL;
		}
		collect_session_close(&session);
		/* The last directory's reason is told; it is the one everybody has. */
		log_info("session directory %u: %s", i, failure->message);
		error_free(error);
		error = failure;
		if (error->code == ERROR_NO_MEMORY)
			return error;
	}
	if (error->remedy)
		return error;
	return error_remedy(error, "Set XDG_RUNTIME_DIR to a directory of yours (mode 0700), best "
				   "on a tmpfs.");
}

struct error *collect_session_used(int fd, const char *path, uint64_t *ret)
{
	struct mgl_session head;
	struct stat st;
	ssize_t bytes = fstat(fd, &st) == 0 ? pread(fd, &head, sizeof(head), 0) : -1;

	if (bytes < 0)
		return error_create_system(errno, path, "cannot read the session file");
	if (bytes < (ssize_t)sizeof(head) || head.magic != MGL_SESSION_MAGIC)
		return error_create_path(ERROR_FORMAT, path, "not a mallograph ledger");

	uint64_t units = atomic_load(&head.next_unit);
	uint64_t file_bytes = (uint64_t)st.st_size;

	if (units > file_bytes / MGL_UNIT_BYTES)
		*ret = file_bytes;
	else
		*ret = (units < 1 ? 1 : units) * MGL_UNIT_BYTES;
	return NULL;
}

size_t collect_session_left_out(const struct collect_session *session)
{
	uint32_t count = 0;
	off_t at = (off_t)offsetof(struct mgl_session, left_out);

	return pread(session->fd, &count, sizeof(count), at) == sizeof(count) ? count : 0;
}

/* Whether the processes fill a fair part of the units they take: many small ones leave most of
 * theirs empty, and what was populated ahead would stay with them. */
static bool fills_units(const struct collect_session *session, uint64_t taken)
{
	uint64_t populated = 0;
	off_t at = (off_t)offsetof(struct mgl_session, populated_bytes);

	return pread(session->fd, &populated, sizeof(populated), at) == sizeof(populated) &&
	       populated / (MGL_UNIT_BYTES / 4) >= taken;
}

bool collect_session_tend(struct collect_session *session)
{
	uint64_t used = 0;
	struct error *error = collect_session_used(session->fd, session->path, &used);
	uint64_t taken = used / MGL_UNIT_BYTES;
	bool grew = taken > session->taken_units;

	error_free(error);
	if (error || session->full)
		return false;
	session->taken_units = taken;

	uint64_t most =
		session->max_bytes < session->file_bytes ? session->max_bytes : session->file_bytes;
	uint64_t from = taken > session->populated_units ? taken : session->populated_units;
	/* A small program shall not pay for space it will never use. */
	uint64_t ahead = taken / 4 < MAX_AHEAD_UNITS ? taken / 4 : MAX_AHEAD_UNITS;
	uint64_t until = taken + ahead;

	if (until > most / MGL_UNIT_BYTES)
		until = most / MGL_UNIT_BYTES;
	if (ahead == 0 || until <= from || !fills_units(session, taken))
		return grew;
	if (fallocate(session->fd, FALLOC_FL_KEEP_SIZE, (off_t)(from * MGL_UNIT_BYTES),
		      (off_t)((until - from) * MGL_UNIT_BYTES)) != 0 &&
	    errno != EINTR) {
		log_info("cannot populate the session file ahead: %s", strerror(errno));
		session->full = true;
	}
	session->populated_units = until;
	return grew;
}

/* A field of the control page, which agents read now and then. What fails leaves them as they
 * were, which costs room or time and no more. */
static void set_control(struct collect_session *session, size_t at, const void *value, size_t bytes)
{
	error_free(write_all(session->fd, value, bytes, MGL_CONTROL_OFFSET + (off_t)at));
}

void collect_session_stop(struct collect_session *session)
{
	uint32_t off = 1;

	set_control(session, offsetof(struct mgl_control, off), &off, sizeof(off));
}

void collect_session_add_missed(struct collect_session *session, size_t count, const char *name)
{
	off_t at = (off_t)offsetof(struct mgl_session, missed);
	struct mgl_session head = {0};
	uint32_t missed = 0;

	if (pread(session->fd, &missed, sizeof(missed), at) != sizeof(missed))
		return;
	if (missed == 0) {
		snprintf(head.missed_first, sizeof(head.missed_first), "%s", name);
		error_free(write_all(session->fd, head.missed_first, sizeof(head.missed_first),
				     (off_t)offsetof(struct mgl_session, missed_first)));
	}
	missed += (uint32_t)count;
	error_free(write_all(session->fd, &missed, sizeof(missed), at));
}

void collect_session_set_retired(struct collect_session *session, size_t count)
{
	uint32_t retired = (uint32_t)count;

	set_control(session, offsetof(struct mgl_control, retired), &retired, sizeof(retired));
}

void collect_session_release(struct collect_session *session, uint64_t offset, uint64_t bytes)
{
	struct stat before, after;

	if (fstat(session->fd, &before) != 0 ||
	    fallocate(session->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)bytes) != 0 ||
	    fstat(session->fd, &after) != 0 || before.st_blocks <= after.st_blocks)
		return;
	session->max_bytes += (uint64_t)(before.st_blocks - after.st_blocks) * 512;
	set_control(session, offsetof(struct mgl_control, max_bytes), &session->max_bytes,
		    sizeof(session->max_bytes));
}

char *collect_session_profile(const char *path)
{
	size_t length = strlen(path), stem = length > 4 ? length - 4 : length;
	char *profile = NULL;

	if (strcmp(path + stem, ".mgl") != 0)
		stem = length;
	return asprintf(&profile, "%.*s.mgp", (int)stem, path) < 0 ? NULL : profile;
}

static const char *const profile_endings[] = {"", "-wal", "-shm", "-journal"};

#define ENDINGS (sizeof(profile_endings) / sizeof(*profile_endings))

/* Whether nobody else could have put a file there. */
static bool is_in_place_of_ours(const char *path)
{
	char directory[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;

	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) : 1,
		 slash ? path : ".");
	return lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 077);
}

/* And that it, and what SQLite has beside it, are files: another kind may never be through. */
static bool is_ours_alone(const char *profile)
{
	char path[PATH_MAX];
	struct stat st;

	if (!is_in_place_of_ours(profile))
		return false;
	for (size_t i = 0; i < ENDINGS; i++) {
		if (snprintf(path, sizeof(path), "%s%s", profile, profile_endings[i]) >=
		    (int)sizeof(path))
			return false;
		if (lstat(path, &st) != 0 ? i == 0 || errno != ENOENT
					  : !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			return false;
	}
	return true;
}

struct error *collect_session_kept(const struct ledger_session *session, const char *path,
				   char **ret)
{
	CLEANUP_FREE char *profile = NULL;

	*ret = NULL;
	if (session->retired == 0)
		return NULL;
	profile = collect_session_profile(path);
	if (!profile)
		return error_no_memory();
	if (is_ours_alone(profile))
		*ret = STEAL(profile);
	else
		log_warn("%s: not found: what it holds of ended processes is not shown", profile);
	return NULL;
}

/* With what SQLite may have left beside it. */
static void unlink_profile(const char *profile)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ENDINGS; i++)
		if (snprintf(path, sizeof(path), "%s%s", profile, profile_endings[i]) <
		    (int)sizeof(path))
			unlink(path);
}

struct error *collect_session_remove(const char *path, bool with_profile)
{
	CLEANUP_FREE char *profile = collect_session_profile(path);

	if (unlink(path) != 0)
		return error_create_system(errno, path, "cannot remove the session file");
	if (with_profile && profile && is_in_place_of_ours(profile))
		unlink_profile(profile);
	return NULL;
}

struct error *collect_session_unlink(struct collect_session *session)
{
	if (session->name && unlinkat(session->place.fd, session->name, 0) != 0 && errno != ENOENT)
		return error_remedy(
			error_create_system(errno, session->path, "cannot remove the session file"),
			"Remove it by hand: it takes memory.");
	if (session->name)
		unlink_profile(session->profile);
	free(session->name);
	session->name = NULL;
	return NULL;
}

void collect_session_close(struct collect_session *session)
{
	if (session->fd >= 0)
		close(session->fd);
	collect_place_close(&session->place);
	free(session->name);
	free(session->path);
	free(session->profile);
	*session = (struct collect_session)COLLECT_SESSION_CLOSED;
}
