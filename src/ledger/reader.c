/* Opening a session file: is it one, whose extents does it hold, which processes. */
#include "ledger/reader_internal.h"

#include <fcntl.h>
#include <string.h>

/* 8 TiB: far past any ledger, and what bounds the walk of a file system without holes. */
#define MAX_UNITS (UINT64_C(1) << 22)

/* What a live ledger may grow by while it is read: 4 GiB. */
#define SPARE_UNITS UINT64_C(2048)

#define MIN_GRANULE_SHIFT 3u
#define MAX_GRANULE_SHIFT 16u

bool ledger_reader_recognises(int fd)
{
	uint64_t magic;

	return pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       magic == MGL_SESSION_MAGIC;
}

/* Printable ASCII of a NUL-padded field, the rest as '?'. */
static void copy_name(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i < size && from[i]; i++)
		to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
	to[i] = '\0';
}

static uint32_t load_retired(const struct reader_file *file)
{
	uint32_t retired = 0;
	off_t at = MGL_CONTROL_OFFSET + (off_t)offsetof(struct mgl_control, retired);

	return pread(file->fd, &retired, sizeof(retired), at) == sizeof(retired) ? retired : 0;
}

static struct error *load_session(struct ledger_reader *reader, uint64_t *ret_units)
{
	struct reader_file *file = &reader->file;
	struct ledger_session *session = &reader->session;
	struct mgl_session header;
	ssize_t count = pread(file->fd, &header, sizeof(header), 0);

	if (count < 0)
		return error_create_system(errno, file->name, "cannot read");
	if ((size_t)count < offsetof(struct mgl_session, flags) ||
	    header.magic != MGL_SESSION_MAGIC)
		return error_create_path(ERROR_FORMAT, file->name, "not a mallograph ledger");
	if ((size_t)count < sizeof(header))
		return error_create_path(ERROR_DAMAGED, file->name,
					 "the ledger is cut short: %zu bytes are there",
					 (size_t)count);
	copy_name(session->writer, header.writer, sizeof(header.writer));
	if (header.layout_version != MGL_LAYOUT_VERSION)
		return error_remedy(
			error_create_path(ERROR_VERSION, file->name,
					  "a ledger of layout %u, written by %s; this mallograph "
					  "reads layout %u",
					  header.layout_version, session->writer,
					  MGL_LAYOUT_VERSION),
			"Read it with the mallograph that wrote it.");
	if (header.unit_bytes != MGL_UNIT_BYTES)
		return error_create_path(ERROR_DAMAGED, file->name,
					 "the ledger's header makes no sense");
	session->flags = header.flags;
	session->start_ns = header.start_ns;
	session->start_unix_ns = header.start_unix_ns;
	session->collector_pid = header.collector_pid;
	session->missed = header.missed;
	session->left_out = header.left_out;
	copy_name(session->missed_first, header.missed_first, sizeof(header.missed_first));
	session->file_bytes = header.file_bytes;
	session->begun = header.next_process ? header.next_process - 1 : 0;
	session->retired = load_retired(file);

	/* Takers of units that were not there left next_unit past the file's end. */
	uint64_t units = header.file_bytes / MGL_UNIT_BYTES;

	if (header.next_unit < units)
		units = header.next_unit;
	if (units > file->size / MGL_UNIT_BYTES)
		return error_create_path(ERROR_DAMAGED, file->name,
					 "the ledger is cut short: %llu of %llu bytes are there",
					 (unsigned long long)file->size,
					 (unsigned long long)(units * MGL_UNIT_BYTES));
	*ret_units = units < MAX_UNITS ? units : MAX_UNITS;
	return NULL;
}

static struct error *process_of(struct ledger_reader *reader, struct map_u64 *by_serial,
				uint32_t serial, struct reader_process **ret)
{
	const uint64_t *at = map_u64_find(by_serial, serial);

	if (!at) {
		TRY(vector_push(&reader->processes,
				((struct reader_process){.info.serial = serial})));
		TRY(map_u64_set(by_serial, serial, reader->processes.count - 1));
		*ret = &reader->processes.items[reader->processes.count - 1];
	} else {
		*ret = &reader->processes.items[*at];
	}
	return NULL;
}

/* The extent at a unit; false = a unit whose taker died before it wrote one. */
static bool extent_read(const struct reader_file *file, uint64_t unit, uint64_t units,
			struct reader_extent *ret)
{
	const struct mgl_extent *extent =
		(const struct mgl_extent *)(file->map + (unit << MGL_UNIT_SHIFT));

	if (READ_MAGIC(extent->magic) != MGL_EXTENT_MAGIC)
		return false;
	ret->unit = (uint32_t)unit;
	ret->units = READ_ONCE(extent->units);
	ret->first_unit = READ_ONCE(extent->first_unit);
	ret->kind = READ_ONCE(extent->kind);
	ret->process = READ_ONCE(extent->process);
	ret->granule_shift = READ_ONCE(extent->granule_shift);
	if (ret->units < 1 || ret->units > MGL_MAX_EXTENT_UNITS || ret->units > units - unit ||
	    ret->process == 0)
		return false;
	if (ret->kind == MGL_EXTENT_RECORDS)
		return ret->first_unit <= MGL_MAX_RECORD_UNITS - ret->units;
	return ret->kind == MGL_EXTENT_SHADOW && ret->granule_shift >= MIN_GRANULE_SHIFT &&
	       ret->granule_shift <= MAX_GRANULE_SHIFT;
}

struct error *
ledger_extents_walk(const struct ledger_reader *reader, uint64_t units,
		    struct error *(*add)(void *to, const struct reader_extent *extent), void *to)
{
	const struct reader_file *file = &reader->file;
	uint64_t data;

	for (uint64_t unit = 1; unit < units;) {
		struct reader_extent extent;
		uint64_t start = unit << MGL_UNIT_SHIFT;

		if (!ledger_file_next_data(file, start, &data))
			break;
		if (data >= start + MGL_PAGE) {
			uint64_t next = data >> MGL_UNIT_SHIFT;

			unit = next > unit ? next : unit + 1;
			continue;
		}
		if (!extent_read(file, unit, units, &extent)) {
			unit++;
			continue;
		}
		TRY(add(to, &extent));
		unit += extent.units;
	}
	return NULL;
}

uint64_t ledger_units_taken(const struct ledger_reader *reader)
{
	const struct mgl_session *header = (const struct mgl_session *)reader->file.map;
	uint64_t mapped = reader->file.map_bytes >> MGL_UNIT_SHIFT;
	uint64_t taken = header ? READ_ATOMIC(header->next_unit) : 0;

	return taken < mapped ? taken : mapped;
}

struct opening {
	struct ledger_reader *reader;
	struct map_u64 by_serial;
	uint64_t units;
};

static struct error *add_extent(void *to, const struct reader_extent *extent)
{
	struct opening *opening = to;
	struct reader_process *process;

	TRY(process_of(opening->reader, &opening->by_serial, extent->process, &process));
	process->walked = opening->units;
	return vector_push(&process->extents, *extent);
}

static int compare_serials(const void *a, const void *b)
{
	uint32_t x = ((const struct reader_process *)a)->info.serial;
	uint32_t y = ((const struct reader_process *)b)->info.serial;

	return (x > y) - (x < y);
}

static struct error *load_processes(struct ledger_reader *reader)
{
	size_t kept = 0;

	if (reader->processes.count)
		qsort(reader->processes.items, reader->processes.count,
		      sizeof(*reader->processes.items), compare_serials);
	for (size_t i = 0; i < reader->processes.count; i++) {
		struct reader_process *process = &reader->processes.items[i];

		TRY(ledger_process_load(reader, process));
		if (!process->header) {
			/* It died, or was damaged, before its header was whole. */
			TRY(vector_push(&reader->headless, process->info.serial));
			ledger_process_deinit(process);
			reader->session.missed++;
			continue;
		}
		if (kept != i) {
			reader->processes.items[kept] = *process;
			*process = (struct reader_process){0};
		}
		kept++;
	}
	reader->processes.count = kept;
	reader->session.headless = reader->headless.items;
	reader->session.headless_count = reader->headless.count;
	return NULL;
}

static struct error *load(struct ledger_reader *reader, int fd, const char *name)
{
	struct opening opening = {.reader = reader};

	TRY(ledger_file_open(&reader->file, fd, name));
	TRY(load_session(reader, &opening.units));
	TRY(ledger_file_map(&reader->file, opening.units << MGL_UNIT_SHIFT,
			    (uint64_t)SPARE_UNITS << MGL_UNIT_SHIFT));

	struct error *error = ledger_extents_walk(reader, opening.units, add_extent, &opening);

	map_u64_free(&opening.by_serial);
	if (error)
		return error;
	TRY(load_processes(reader));
	return ledger_reader_check(reader);
}

struct error *ledger_reader_open_fd(int fd, const char *name, struct ledger_reader **ret)
{
	struct ledger_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return error_no_memory();
	struct error *error = load(reader, fd, name);

	if (error) {
		ledger_reader_close(reader);
		return error;
	}
	*ret = reader;
	return NULL;
}

struct error *ledger_reader_open(const char *path, struct ledger_reader **ret)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return error_create_system(errno, path, "cannot open");
	return ledger_reader_open_fd(fd, path, ret);
}

void ledger_reader_close(struct ledger_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < reader->processes.count; i++)
		ledger_process_deinit(&reader->processes.items[i]);
	vector_free(&reader->processes);
	vector_free(&reader->headless);
	ledger_file_close(&reader->file);
	free(reader);
}

const struct ledger_session *ledger_reader_session(const struct ledger_reader *reader)
{
	return &reader->session;
}

size_t ledger_reader_process_count(const struct ledger_reader *reader)
{
	return reader->processes.count;
}

const struct ledger_process *ledger_reader_process(const struct ledger_reader *reader, size_t at)
{
	return &reader->processes.items[at].info;
}

struct error *ledger_reader_extents(const struct ledger_reader *reader, size_t process,
				    ledger_extent_visit *visit, void *context)
{
	const struct reader_process *of = &reader->processes.items[process];

	for (size_t i = 0; i < of->extents.count; i++)
		TRY(visit(context, (uint64_t)of->extents.items[i].unit << MGL_UNIT_SHIFT,
			  (uint64_t)of->extents.items[i].units << MGL_UNIT_SHIFT));
	return NULL;
}

struct error *ledger_reader_check(const struct ledger_reader *reader)
{
	return ledger_file_check(&reader->file);
}
