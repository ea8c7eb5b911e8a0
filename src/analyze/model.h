/*
 * The model: what a session's ledgers say, summed and named alike, for every report.
 *
 * Frames are (module, offset), so equal stacks are one wherever their library was
 * mapped, in whichever process; equal modules are one. A site is a process, a stack and
 * the function called. Frames of the agent are left out.
 *
 * Owner: the model owns all it points to; it needs no reader or file once loaded.
 * Threads: read-only once loaded. Units: bytes; ns since the session began where a
 * member ends in _ns. ANALYZE_UNKNOWN where something is not known.
 */
#ifndef MALLOGRAPH_ANALYZE_MODEL_H
#define MALLOGRAPH_ANALYZE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ANALYZE_UNKNOWN UINT64_MAX

struct ledger_reader;

/* Any bytes, malloc'd with a NUL behind them. */
struct analyze_text {
	char *bytes;
	size_t length;
};

enum analyze_how {
	ANALYZE_ROOT,
	ANALYZE_FORK,
	ANALYZE_SPAWN, /* a new pid and a new program */
	ANALYZE_EXEC,  /* the pid of a process recorded before */
	ANALYZE_ATTACH,
};

enum analyze_end {
	ANALYZE_EXITED,
	ANALYZE_SIGNALED,
	ANALYZE_EXECED, /* went on as another program */
	ANALYZE_RUNNING,
	ANALYZE_DETACHED,
	ANALYZE_LOST, /* gone, and nobody saw how */
};

/* live_* are upper bounds while the process runs, live_*_low lower ones. */
struct analyze_counts {
	uint64_t allocations;
	uint64_t frees;
	uint64_t allocated_bytes;
	uint64_t peak_bytes; /* at the process's peak */
	uint64_t peak_blocks;
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint64_t live_bytes_low;
	uint64_t live_blocks_low;
	uint64_t temporary;
	uint64_t lifetime; /* sum over frees, in allocations */
	uint64_t moved;
	uint64_t foreign_frees;
};

struct analyze_module {
	struct analyze_text path;
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	uint32_t flags; /* enum mgl_module_flags */
};

enum analyze_frame_flags {
	ANALYZE_FRAME_EXACT = 1, /* offset is the instruction's own, not a return address */
	ANALYZE_FRAME_FP = 2,    /* found by frame pointer */
	ANALYZE_FRAME_CUT = 4,   /* no frame: outer ones are missing here */
};

/* A frame below its parent's; [0] of the array stands for "no frame". */
struct analyze_frame {
	uint32_t parent; /* place of the outer frame; 0 = outermost */
	uint32_t module; /* place; 0 = none, and offset is the address itself */
	uint64_t offset; /* pc as captured − load bias */
	uint32_t flags;  /* enum analyze_frame_flags */
	uint32_t depth;  /* frames from here to the outermost */
};

struct analyze_size {
	uint64_t low;  /* sizes from … */
	uint64_t high; /* … to below; UINT64_MAX for the last class */
	uint64_t allocations;
};

struct analyze_site {
	uint32_t process; /* place in processes */
	uint32_t frame;   /* innermost; 0 = the stack is not known */
	uint8_t api;      /* enum mgl_api */
	struct analyze_counts counts;
	size_t sizes; /* place of its first analyze_size, ascending */
	size_t size_count;
};

/* Something that was not seen. kind is a word of docs/JSON.md. */
struct analyze_loss {
	const char *kind;
	uint64_t count;
	struct analyze_text detail; /* bytes NULL = none */
};

struct analyze_process {
	uint32_t id;     /* from 1 */
	uint32_t parent; /* id; 0 = none known */
	enum analyze_how how;
	int32_t pid;
	int32_t ppid;
	struct analyze_text exe;
	struct analyze_text argv; /* each argument ended by a NUL */
	enum analyze_end end;
	uint64_t end_code; /* exit status or signal, or ANALYZE_UNKNOWN */
	uint64_t start_ns;
	uint64_t duration_ns;
	struct analyze_counts counts;
	uint64_t failed;
	uint64_t unknown_frees;
	uint64_t peak_time_ns; /* since the process began */
	uint64_t peak_error;   /* bytes; 0 = exact */
	uint64_t threads;
	uint64_t mapped_bytes;
	uint64_t rss_peak;
	uint64_t ledger_bytes;
	struct analyze_loss *losses;
	size_t loss_count;
};

struct analyze_model {
	struct analyze_process *processes;
	size_t process_count;
	struct analyze_site *sites; /* in no useful order: analyze_sites_sort() */
	size_t site_count;
	struct analyze_size *sizes;
	size_t size_count;
	struct analyze_frame *frames; /* [0] is not in use */
	size_t frame_count;
	struct analyze_module *modules; /* [0] is not in use */
	size_t module_count;
	uint64_t start_unix_ns;
};

/* What a list of sites leads with; ties go by the other figures, then by the stack, so
 * that the order is the same in every run. */
enum analyze_order {
	ANALYZE_BY_PEAK,
	ANALYZE_BY_LIVE,
	ANALYZE_BY_ALLOCATIONS,
	ANALYZE_BY_BYTES,
	ANALYZE_BY_TEMPORARY,
};

struct error *analyze_model_load(struct ledger_reader *reader,
				 struct analyze_model **ret) ERROR_MUST_CHECK;
/* The same from a file's name. */
struct error *analyze_model_open(const char *path, struct analyze_model **ret) ERROR_MUST_CHECK;
void analyze_model_free(struct analyze_model *model);

void analyze_sites_sort(struct analyze_model *model, enum analyze_order order);
/* The figure an order goes by. */
uint64_t analyze_order_value(const struct analyze_counts *counts, enum analyze_order order);

void analyze_counts_add(struct analyze_counts *sum, const struct analyze_counts *counts);

/* malloc, calloc, new[] … as report --json writes them; NULL = no such function. */
const char *analyze_api_name(uint8_t api);

#endif
