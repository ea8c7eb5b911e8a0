/*
 * The processes of a session file as a collector needs them: who is in it, who still
 * lives, and what became of the others, which it alone writes.
 *
 * The file is untrusted; what is found is bounded by its size. Owner: the caller, who
 * frees the vector.
 */
#ifndef MALLOGRAPH_COLLECT_PROCESSES_H
#define MALLOGRAPH_COLLECT_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vector.h"
#include "collect/watch.h"

struct collect_process {
	uint64_t offset; /* of its mgl_process in the file */
	uint32_t serial;
	pid_t pid;
	uint64_t starttime;
	uint64_t start_ns;
	bool waited;      /* for a child, recorded or not */
	size_t successor; /* place of what an exec made of it, or COLLECT_NO_SUCCESSOR */
	bool new_pid;     /* it began as a process of its own, not by an exec */
};

#define COLLECT_NO_SUCCESSOR SIZE_MAX

struct collect_processes {
	VECTOR(struct collect_process) list; /* by serial */
	uint64_t since_ns;                   /* when a collector began; 0 = there was none */
};

struct error *collect_processes_read(int fd, const char *path,
				     struct collect_processes *ret) ERROR_MUST_CHECK;
void collect_processes_free(struct collect_processes *processes);

/* Different processes (an exec does not make one) that are still there. */
size_t collect_processes_live(const struct collect_processes *processes);
/* Whether it is one with this pid, all of them have it, and none waited for a child. */
bool collect_processes_alone(const struct collect_processes *processes, pid_t pid);

/* Write what became of each that is gone. root_end NULL = nobody saw the root's end. */
struct error *collect_processes_end(const struct collect_processes *processes, int fd,
				    const char *path, pid_t root,
				    const struct collect_end *root_end) ERROR_MUST_CHECK;

#endif
