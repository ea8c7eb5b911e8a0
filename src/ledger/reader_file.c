/*
 * The file below a reader: one read-only mapping, what pages of it exist, and the guard
 * for a file that is cut short while it is mapped.
 */
#include "ledger/reader_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Each may be a mapping of its own, and a process has 65,530. */
#define SMALL_SPARE    (8 * MGL_UNIT_BYTES)
#define MAX_ZERO_PAGES 4096u

static struct reader_file *open_files;
static struct sigaction old_action;

/* A page that was cut away becomes a page of zeros, and the reader's next check fails.
 * Any other SIGBUS goes to whoever had it before. */
static void handle_sigbus(int number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	int saved = errno;

	for (struct reader_file *file = open_files; file; file = file->next) {
		uintptr_t start = (uintptr_t)file->map;

		if (address < start || address - start >= file->map_bytes)
			continue;
		void *page = (void *)(address & ~(uintptr_t)(MGL_PAGE - 1));

		if (mmap(page, MGL_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) == MAP_FAILED)
			break;
		file->cut = 1;
		errno = saved;
		return;
	}
	if (old_action.sa_flags & SA_SIGINFO) {
		old_action.sa_sigaction(number, info, context);
	} else if (old_action.sa_handler != SIG_IGN && old_action.sa_handler != SIG_DFL) {
		old_action.sa_handler(number);
	} else {
		/* Returning repeats the access, now with the default action. */
		signal(SIGBUS, SIG_DFL);
	}
	errno = saved;
}

static void guard_begin(struct reader_file *file)
{
	if (!open_files) {
		struct sigaction action = {
			.sa_sigaction = handle_sigbus,
			.sa_flags = SA_SIGINFO,
		};

		sigemptyset(&action.sa_mask);
		sigaction(SIGBUS, &action, &old_action);
	}
	file->next = open_files;
	open_files = file;
}

static void guard_end(struct reader_file *file)
{
	for (struct reader_file **at = &open_files; *at; at = &(*at)->next)
		if (*at == file) {
			*at = file->next;
			if (!open_files)
				sigaction(SIGBUS, &old_action, NULL);
			return;
		}
}

struct error *ledger_file_open(struct reader_file *file, int fd, const char *name)
{
	char path[64];
	struct stat status;

	file->fd = -1;
	file->name = strdup(name);
	if (!file->name)
		return error_no_memory();
	if (fstat(fd, &status) != 0)
		return error_create_system(errno, name, "cannot read");
	if (!S_ISREG(status.st_mode))
		return error_create_path(ERROR_FORMAT, name, "not a file");
	file->size = (uint64_t)status.st_size;

	/* A description of our own: SEEK_DATA moves the offset, which dup() would share. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0)
		file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (file->fd < 0)
		return error_create_system(errno, name, "cannot read");
	return NULL;
}

struct error *ledger_file_map(struct reader_file *file, uint64_t bytes, uint64_t spare)
{
	void *map;

	if (bytes > file->size)
		bytes = file->size;
	if (spare > file->size - bytes)
		spare = file->size - bytes;
	if (bytes == 0)
		return NULL;
	/* Under RLIMIT_AS the spare is small, or none. */
	for (;;) {
		map = mmap(NULL, bytes + spare, PROT_READ, MAP_SHARED, file->fd, 0);
		if (map != MAP_FAILED || errno != ENOMEM || spare == 0)
			break;
		spare = spare > SMALL_SPARE ? SMALL_SPARE : 0;
	}
	bytes += spare;
	if (map == MAP_FAILED)
		return error_create_system(errno, file->name, "cannot map");
	/* A core dump of the tool has no use for it. */
	madvise(map, bytes, MADV_DONTDUMP);
	file->map = map;
	file->map_bytes = bytes;
	guard_begin(file);
	return NULL;
}

void ledger_file_close(struct reader_file *file)
{
	if (file->map) {
		guard_end(file);
		munmap((void *)(uintptr_t)file->map, file->map_bytes);
	}
	if (file->fd >= 0)
		close(file->fd);
	free(file->name);
}

struct error *ledger_file_check(const struct reader_file *file)
{
	if (file->cut)
		return error_create_path(ERROR_DAMAGED, file->name,
					 "the file was cut short while it was read");
	return NULL;
}

bool ledger_file_next_data(const struct reader_file *file, uint64_t offset, uint64_t *ret)
{
	if (offset >= file->map_bytes)
		return false;
	off_t data = lseek(file->fd, (off_t)offset, SEEK_DATA);

	if (data < 0 && errno == ENXIO)
		return false;
	/* A file system that cannot tell has no holes that matter. */
	*ret = data < 0 ? offset : (uint64_t)data;
	return *ret < file->map_bytes;
}

/* Where the data that begins at offset ends. */
static uint64_t data_end(const struct reader_file *file, uint64_t offset)
{
	off_t hole = lseek(file->fd, (off_t)offset, SEEK_HOLE);

	return hole < 0 ? file->size : (uint64_t)hole;
}

/* Zeros in place of a page that the file does not have: reading a hole of a tmpfs would
 * allocate it. */
static bool zero_page(struct reader_file *file, uint64_t offset)
{
	void *page = (void *)(uintptr_t)(file->map + offset);

	if (file->zero_pages == MAX_ZERO_PAGES ||
	    mmap(page, MGL_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
		return false;
	file->zero_pages++;
	return true;
}

static bool probe_page(struct reader_file *file, struct reader_unit *unit, uint64_t page,
		       bool zeros)
{
	uint64_t start = (uint64_t)unit->unit << MGL_UNIT_SHIFT;
	uint64_t offset = start + page * MGL_PAGE;
	uint64_t data, end = offset + MGL_PAGE;

	if (!ledger_file_next_data(file, offset, &data) || data >= offset + MGL_PAGE) {
		if (!zeros || !zero_page(file, offset))
			return false;
	} else {
		end = data_end(file, data);
	}
	do {
		unit->pages[page / 64] |= UINT64_C(1) << page % 64;
		page++;
	} while (page < READER_UNIT_PAGES && start + page * MGL_PAGE < end);
	return true;
}

const void *ledger_unit_at(struct reader_file *file, struct reader_unit *unit, uint64_t offset,
			   uint64_t bytes, bool zeros)
{
	if (unit->unit == 0 || offset >= MGL_UNIT_BYTES || bytes == 0 ||
	    bytes > ((uint64_t)unit->left << MGL_UNIT_SHIFT) - offset)
		return NULL;

	uint64_t start = ((uint64_t)unit->unit << MGL_UNIT_SHIFT) + offset;

	if (start >= file->map_bytes || bytes > file->map_bytes - start)
		return NULL;
	for (uint64_t page = offset / MGL_PAGE; page <= (offset + bytes - 1) / MGL_PAGE; page++) {
		struct reader_unit *of = unit + page / READER_UNIT_PAGES;
		uint64_t in = page % READER_UNIT_PAGES;

		if (!(of->pages[in / 64] >> in % 64 & 1) && !probe_page(file, of, in, zeros))
			return NULL;
	}
	return file->map + start;
}

uint64_t ledger_unit_data(const struct reader_file *file, uint32_t unit)
{
	uint64_t at = (uint64_t)unit << MGL_UNIT_SHIFT;
	uint64_t stop = at + MGL_UNIT_BYTES;
	uint64_t bytes = 0;

	while (at < stop && ledger_file_next_data(file, at, &at) && at < stop) {
		uint64_t end = data_end(file, at);

		if (end > stop)
			end = stop;
		bytes += end - at;
		if (end == at)
			break;
		at = end;
	}
	return bytes;
}
