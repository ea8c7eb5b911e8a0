#include "agent/sessionfile.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/choice.h"
#include "agent/core.h"
#include "agent/environ.h"
#include "agent/syscall.h"

#define SPARSE_BYTES  (UINT64_C(1) << 40)
#define SMALLEST_FILE (2 * MGL_UNIT_BYTES)

static char path[PATH_MAX];
static const char *joined; /* NULL = the path */
static uint32_t made_flags;

const char *sessionfile_path(void) { return joined ? joined : path; }

/* --- names ----------------------------------------------------------------------- */

static size_t append_text(size_t at, const char *text)
{
	size_t n = strlen(text);

	if (at + n >= sizeof(path))
		return sizeof(path);
	memcpy(path + at, text, n + 1);
	return at + n;
}

static size_t append_number(size_t at, uint64_t n)
{
	char digits[24];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do {
		digits[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return append_text(at, digits + i);
}

/* MALLOGRAPH_OUT with %p for the process's number and %% for a percent sign. */
static bool path_expand(const char *pattern)
{
	size_t at = 0;

	for (const char *c = pattern; *c && at < sizeof(path); c++) {
		if (c[0] == '%' && c[1] == 'p') {
			at = append_number(at, (uint64_t)sys_getpid());
			c++;
		} else {
			at = append_text(at, (char[2]){*c, '\0'});
			c += c[0] == '%' && c[1] == '%';
		}
	}
	return at && at < sizeof(path);
}

static bool path_default(void)
{
	size_t at = append_number(append_text(0, "/dev/shm/mallograph-"), sys_getuid());

	sys_mkdir(path, 0700);
	at = append_number(append_text(at, "/"), (uint64_t)sys_getpid());
	at = append_number(append_text(at, "-"), sessionfile_starttime());
	return append_text(at, ".mgl") < sizeof(path);
}

/* --- joining ---------------------------------------------------------------------- */

static struct mgl_session *head_map(int fd, uint64_t bytes)
{
	void *head = sys_mmap(NULL, MGL_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (sys_failed(head))
		return NULL;
	sys_madvise(head, MGL_HEAD_BYTES, MADV_DONTDUMP);
	if (bytes < SMALLEST_FILE || sys_madvise(head, MGL_HEAD_BYTES, MADV_POPULATE_WRITE) != 0) {
		sys_munmap(head, MGL_HEAD_BYTES);
		return NULL;
	}
	return head;
}

static bool head_valid(const struct mgl_session *head)
{
	return head->magic == MGL_SESSION_MAGIC && head->layout_version == MGL_LAYOUT_VERSION &&
	       head->unit_bytes == MGL_UNIT_BYTES && head->next_unit != 0;
}

/* What a process needs at first, mapped while there is a descriptor; NULL = refused. */
static uint8_t *units_map(int fd, struct mgl_session *head, uint64_t file_bytes)
{
	uint64_t unit = atomic_fetch_add(&head->next_unit, SESSIONFILE_UNITS);
	uint64_t last = file_bytes >> MGL_UNIT_SHIFT;

	if (unit == 0 || unit >= last || last - unit < SESSIONFILE_UNITS)
		return NULL;
	uint8_t *units = sys_mmap(NULL, SESSIONFILE_UNITS * MGL_UNIT_BYTES, PROT_READ | PROT_WRITE,
				  MAP_SHARED, fd, unit << MGL_UNIT_SHIFT);

	if (sys_failed(units))
		return NULL;
	sys_madvise(units, SESSIONFILE_UNITS * MGL_UNIT_BYTES, MADV_DONTDUMP);
	return units;
}

/* A file that is already there: joined if it is a session of ours. */
static struct mgl_session *session_open(const char *name, uint64_t *file_bytes, uint8_t **units)
{
	struct stat st = {0};
	struct mgl_session *head = NULL;
	int fd = (int)sys_open(name, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);

	if (fd < 0)
		return NULL;
	if (sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		*file_bytes = (uint64_t)st.st_size;
		head = head_map(fd, *file_bytes);
	}
	if (head && !head_valid(head)) {
		sys_munmap(head, MGL_HEAD_BYTES);
		head = NULL;
	}
	if (head)
		*units = units_map(fd, head, *file_bytes);
	sys_close(fd);
	return head;
}

/* --- making one ------------------------------------------------------------------- */

/* The largest sparse size that raises no SIGXFSZ and that the file system takes. */
static uint64_t file_size(int fd)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t bytes = SPARSE_BYTES;

	sys_getrlimit(RLIMIT_FSIZE, &limit);
	while (bytes > limit.rlim_cur)
		bytes /= 2;
	for (; bytes >= SMALLEST_FILE; bytes /= 2) {
		if (sys_ftruncate(fd, bytes) == 0)
			return bytes;
	}
	return 0;
}

static struct mgl_session *session_make(int fd, uint64_t *file_bytes, uint8_t **units)
{
	*file_bytes = file_size(fd);
	struct mgl_session *head = *file_bytes ? head_map(fd, *file_bytes) : NULL;

	if (!head)
		return NULL;
	struct mgl_control *control = (struct mgl_control *)((char *)head + MGL_CONTROL_OFFSET);

	control->version = 1;
	control->sample_period = 1;
	if (environ_value(ENVIRON_CHOICE))
		choice_write((char *)control + MGL_CHOICE_OFFSET, environ_value(ENVIRON_CHOICE));
	head->layout_version = MGL_LAYOUT_VERSION;
	head->flags = made_flags;
	memcpy(head->writer, "mallograph " MALLOGRAPH_VERSION,
	       sizeof("mallograph " MALLOGRAPH_VERSION));
	head->unit_bytes = MGL_UNIT_BYTES;
	head->file_bytes = *file_bytes;
	head->start_ns = agent_now();
	head->start_unix_ns = clock_ns(CLOCK_REALTIME);
	head->next_unit = 1;
	head->next_process = 1;
	atomic_thread_fence(memory_order_release);
	head->magic = MGL_SESSION_MAGIC;
	*units = units_map(fd, head, *file_bytes);
	return head;
}

static struct mgl_session *session_create(int flags, uint64_t *file_bytes, uint8_t **units)
{
	int fd = (int)sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	if (fd < 0)
		return NULL;
	struct mgl_session *head = session_make(fd, file_bytes, units);

	sys_close(fd);
	if (!head)
		sys_unlink(path);
	return head;
}

/* Where no path works the ledger is lost with the process, but can be read while it lives. */
static struct mgl_session *session_memfd(uint64_t *file_bytes, uint8_t **units)
{
	int fd = (int)sys_memfd_create("mallograph", 1 /* MFD_CLOEXEC */);

	path[0] = '\0';
	made_flags |= MGL_SESSION_MEMFD;
	if (fd < 0)
		return NULL;
	struct mgl_session *head = session_make(fd, file_bytes, units);

	sys_close(fd);
	return head;
}

struct mgl_session *sessionfile_open(uint64_t *file_bytes, uint8_t **units)
{
	const char *session = environ_value(ENVIRON_SESSION);
	const char *out = environ_value(ENVIRON_OUT);
	struct mgl_session *head = NULL;

	if (session) {
		head = session_open(session, file_bytes, units);
		joined = head ? session : NULL;
		if (head || !out)
			return head;
	}
	made_flags = MGL_SESSION_SELF;
	bool named = out ? path_expand(out) : path_default();

	if (named)
		head = session_create(O_EXCL, file_bytes, units);
	if (!head && named && out &&
	    append_number(append_text(strlen(path), "."), (uint64_t)sys_getpid()) < sizeof(path))
		head = session_create(O_EXCL, file_bytes, units);
	return head ? head : session_memfd(file_bytes, units);
}

/* A field of /proc/self/stat, from 3 on as proc(5) counts them; 0 = not known. */
static uint64_t stat_field(int wanted)
{
	char text[512];
	int fd = (int)sys_open("/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : sys_read(fd, text, sizeof(text) - 1);
	uint64_t value = 0;

	if (fd >= 0)
		sys_close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The command may hold spaces and parentheses: fields count from the last ')'. */
	const char *c = strrchr(text, ')');

	for (int field = 2; c && *c && field < wanted; c++)
		field += *c == ' ';
	for (; c && *c >= '0' && *c <= '9'; c++)
		value = value * 10 + (uint64_t)(*c - '0');
	return value;
}

uint64_t sessionfile_starttime(void) { return stat_field(22); }

uint64_t sessionfile_threads(void) { return stat_field(20); }
