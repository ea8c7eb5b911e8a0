#include "collect/processes.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/clock.h"
#include "collect/place.h"
#include "collect/session.h"
#include "ledger/layout.h"

void collect_processes_free(struct collect_processes *processes) { vector_free(&processes->list); }

/* What is past the file's end reads as zeros. */
static struct error *read_at(int fd, const char *path, void *buffer, size_t bytes, uint64_t offset)
{
	memset(buffer, 0, bytes);
	if (pread(fd, buffer, bytes, (off_t)offset) < 0)
		return error_create_system(errno, path, "cannot read the session file");
	return NULL;
}

/* The process whose ledger begins in the unit at this place, if one does. */
static struct error *read_unit(int fd, const char *path, uint64_t at, struct collect_processes *ret)
{
	struct mgl_extent extent;
	struct mgl_process process;
	uint64_t offset = at + MGL_PROCESS_OFFSET;

	TRY(read_at(fd, path, &extent, sizeof(extent), at));
	if (extent.magic != MGL_EXTENT_MAGIC || extent.kind != MGL_EXTENT_RECORDS ||
	    extent.first_unit != 0)
		return NULL;
	TRY(read_at(fd, path, &process, sizeof(process), offset));
	if (process.magic != MGL_PROCESS_MAGIC || process.pid <= 0)
		return NULL;

	struct collect_process found = {
		.offset = offset,
		.serial = process.serial,
		.pid = process.pid,
		.starttime = process.starttime,
		.start_ns = process.start_ns,
		.new_pid = process.how == MGL_HOW_FORK || process.how == MGL_HOW_SPAWN ||
			   process.how == MGL_HOW_VFORK,
	};

	return vector_push(&ret->list, found);
}

/* 0 is one that its agent could not find out. */
static bool same_start(uint64_t a, uint64_t b) { return a == b || a == 0 || b == 0; }

static int compare_serials(const void *a, const void *b)
{
	uint32_t x = ((const struct collect_process *)a)->serial;
	uint32_t y = ((const struct collect_process *)b)->serial;

	return (x > y) - (x < y);
}

/* Each one's successor: what an exec made of the process, if it made one. */
static struct error *find_successors(struct collect_processes *processes)
{
	struct map_u64 by_pid = {0};
	struct error *error = NULL;
	size_t count = processes->list.count;

	if (count)
		qsort(processes->list.items, count, sizeof(*processes->list.items),
		      compare_serials);
	for (size_t i = count; i-- && !error;) {
		struct collect_process *process = &processes->list.items[i];
		const uint64_t *at = map_u64_find(&by_pid, (uint32_t)process->pid);

		process->successor = COLLECT_NO_SUCCESSOR;
		if (at && !processes->list.items[*at].new_pid &&
		    same_start(processes->list.items[*at].starttime, process->starttime))
			process->successor = *at;
		error = map_u64_set(&by_pid, (uint32_t)process->pid, i);
	}
	map_u64_free(&by_pid);
	return error;
}

struct error *collect_processes_read(int fd, const char *path, struct collect_processes *ret)
{
	struct mgl_session header;
	uint64_t used;

	TRY(read_at(fd, path, &header, sizeof(header), 0));
	ret->since_ns = header.collector_pid ? header.start_ns : 0;
	TRY(collect_session_used(fd, path, &used));
	for (uint64_t at = MGL_UNIT_BYTES; at < used; at += MGL_UNIT_BYTES) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			return error_create_system(errno, path, "cannot read the session file");
		at = (uint64_t)data / MGL_UNIT_BYTES * MGL_UNIT_BYTES;
		if (at < used)
			TRY(read_unit(fd, path, at, ret));
	}
	return find_successors(ret);
}

static const struct collect_process *successor(const struct collect_processes *processes,
					       const struct collect_process *process)
{
	return process->successor == COLLECT_NO_SUCCESSOR
		       ? NULL
		       : &processes->list.items[process->successor];
}

static bool is_alive(const struct collect_processes *processes,
		     const struct collect_process *process)
{
	uint64_t starttime = collect_process_starttime(process->pid);

	if (starttime == 0 || process->starttime)
		return starttime != 0 && starttime == process->starttime;
	return clock_began_before(starttime, process->start_ns) &&
	       !clock_began_long_before(starttime, processes->since_ns);
}

size_t collect_processes_live(const struct collect_processes *processes)
{
	size_t live = 0;

	for (size_t i = 0; i < processes->list.count; i++) {
		const struct collect_process *process = &processes->list.items[i];

		if (!successor(processes, process) && is_alive(processes, process))
			live++;
	}
	return live;
}

bool collect_processes_alone(const struct collect_processes *processes, pid_t pid)
{
	for (size_t i = 0; i < processes->list.count; i++)
		if (processes->list.items[i].pid != pid || processes->list.items[i].waited)
			return false;
	return processes->list.count > 0;
}

static struct error *write_end(int fd, const char *path, const struct collect_process *process,
			       uint32_t kind, const struct collect_end *end)
{
	struct {
		uint32_t kind;
		uint32_t code;
		uint64_t ns;
		uint64_t rss_peak;
	} fields = {kind, (uint32_t)end->code, end->ns, end->rss_peak};
	off_t at = (off_t)(process->offset + offsetof(struct mgl_process, end_kind));

	_Static_assert(offsetof(struct mgl_process, rss_peak) -
				       offsetof(struct mgl_process, end_kind) ==
			       16,
		       "the collector's fields are written in one piece");
	if (pwrite(fd, &fields, sizeof(fields), at) == (ssize_t)sizeof(fields))
		return NULL;
	return error_create_system(errno, path, "cannot write what became of a process");
}

struct error *collect_processes_end(const struct collect_processes *processes, int fd,
				    const char *path, pid_t root,
				    const struct collect_end *root_end)
{
	for (size_t i = 0; i < processes->list.count; i++) {
		const struct collect_process *process = &processes->list.items[i];
		const struct collect_process *next = successor(processes, process);

		if (next)
			TRY(write_end(fd, path, process, MGL_END_EXEC,
				      &(struct collect_end){.ns = next->start_ns}));
		else if (root_end && process->pid == root)
			TRY(write_end(fd, path, process,
				      root_end->by_signal ? MGL_END_SIGNAL : MGL_END_EXIT,
				      root_end));
		else if (!is_alive(processes, process))
			TRY(write_end(fd, path, process, MGL_END_LOST, &(struct collect_end){0}));
	}
	return NULL;
}
