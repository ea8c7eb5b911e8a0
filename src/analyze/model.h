/*
 * The model: what a profile says, for every report.
 *
 * A stack is a chain of frames, innermost first. A frame is at a place (module, offset),
 * and a place has one line or more: where calls are inlined there, the innermost comes
 * first, each inlined into the next. What a line is called is a name: a function of a
 * module or, where that is not known, the place itself. Things are merged by names.
 *
 * A site is a process, a stack and the function called. Frames of the agent are not there.
 *
 * Owner: the model owns all it points to, and its reader, from which distributions, snapshots
 * and blocks are read when they are asked for. Threads: one at a time.
 * Units: bytes; ns since the session began where a member ends in _ns. ANALYZE_UNKNOWN
 * where something is not known. Errors: ERROR_DAMAGED where the profile contradicts
 * itself, whatever the store says, no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_MODEL_H
#define MALLOGRAPH_ANALYZE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ANALYZE_UNKNOWN UINT64_MAX

struct store_reader;

/* Any bytes, with a NUL behind them; bytes NULL = none. */
struct analyze_text {
	const char *bytes;
	size_t length;
};

enum analyze_how {
	ANALYZE_ROOT,
	ANALYZE_FORK,
	ANALYZE_VFORK,
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

/* live_* are upper bounds while the process runs. */
struct analyze_counts {
	uint64_t allocations;
	uint64_t frees;
	uint64_t allocated_bytes;
	uint64_t peak_bytes; /* at the process's peak */
	uint64_t peak_blocks;
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint64_t temporary;
};

enum analyze_symbols {
	ANALYZE_SYMBOLS_FULL,   /* functions, files and lines */
	ANALYZE_SYMBOLS_LINES,  /* lines without inlined functions */
	ANALYZE_SYMBOLS_SYMTAB, /* names of functions alone */
	ANALYZE_SYMBOLS_NONE,
	ANALYZE_SYMBOLS_PENDING, /* nobody looked yet */
};

struct analyze_module {
	struct analyze_text path;     /* none = code in no file, and offsets are addresses */
	struct analyze_text build_id; /* in hexadecimal */
	struct analyze_text debug_file;
	struct analyze_text reason; /* why symbols are not full */
	enum analyze_symbols symbols;
	bool is_file;    /* can have symbols */
	bool is_made;    /* at run time: offsets are addresses */
	bool is_runtime; /* the C or C++ library, or the loader */
};

/* [0] of the array is the name of what is not known. */
struct analyze_name {
	uint32_t module;
	uint32_t function; /* text; 0 = not known */
	uint64_t offset;   /* where function is 0 */
};

/* [0] of the array is of what is not known. */
struct analyze_line {
	uint32_t name;
	uint32_t file;   /* text; 0 = not known */
	uint32_t line;   /* 0 = not known */
	uint32_t column; /* 0 = not known */
};

/* [0] of the array stands for frames that are missing. */
struct analyze_place {
	uint32_t module; /* place in modules; 0 = none */
	uint32_t first_line;
	uint32_t line_count; /* never 0 */
	bool is_exact;       /* offset is the instruction's own, not a return address */
	uint64_t offset;     /* pc as captured − load bias; without a module the pc */
};

/* [0] of the array stands for "no frame". */
struct analyze_frame {
	uint32_t parent; /* the outer frame; 0 = outermost */
	uint32_t place;  /* 0 = outer frames are missing here */
	uint32_t depth;  /* frames from here to the outermost */
};

struct analyze_size {
	uint32_t size_class; /* of mgl_size_class() */
	uint64_t allocations;
	uint64_t bytes;
};

struct analyze_site {
	uint32_t id;
	uint32_t process;       /* place in processes */
	uint32_t frame;         /* innermost; 0 = the stack is not known */
	uint32_t process_count; /* 1, or how many analyze_sites_merge() made one of */
	uint8_t api;            /* enum mgl_api */
	/* The first frame outside allocator wrappers, and its line. frame 0 = not known. */
	uint32_t title_frame;
	uint32_t title_line;
	struct analyze_counts counts;
};

/* Something that was not seen. kind is a word of docs/JSON.md. */
struct analyze_loss {
	struct analyze_text kind;
	uint64_t count;
	struct analyze_text detail; /* length 0 = none */
};

/* A profile that a merged one was made of. */
struct analyze_source {
	uint32_t id;
	struct analyze_text file;
	struct analyze_text host; /* length 0 = not known */
	uint64_t rank;            /* or ANALYZE_UNKNOWN */
	uint64_t tree_peak_bytes; /* of its processes together; or ANALYZE_UNKNOWN */
	uint64_t tree_peak_ns;    /* since the session began; or ANALYZE_UNKNOWN */
	uint64_t tree_peak_error; /* or ANALYZE_UNKNOWN */
};

struct analyze_process {
	uint32_t id;     /* from 1 */
	uint32_t parent; /* id; 0 = none known */
	uint32_t source; /* place in sources; 0 where there are none */
	enum analyze_how how;
	uint64_t pid;
	uint64_t ppid;
	struct analyze_text exe;
	struct analyze_text argv; /* each argument ended by a NUL */
	enum analyze_end end;
	uint64_t end_code; /* exit status or signal, or ANALYZE_UNKNOWN */
	uint64_t start_ns;
	uint64_t duration_ns;
	struct analyze_counts counts;
	uint64_t live_bytes_low; /* lower bounds while it runs; else the same as in counts */
	uint64_t live_blocks_low;
	uint64_t failed;
	uint64_t unknown_frees;
	uint64_t inherited_frees; /* of its parent's blocks; ANALYZE_UNKNOWN in older profiles */
	uint64_t peak_time_ns;    /* since the process began */
	uint64_t peak_error;      /* bytes; 0 = exact */
	uint64_t threads;
	uint64_t mapped_bytes;
	uint64_t rss_peak;
	uint64_t ledger_bytes;
	uint64_t tree_peak_bytes; /* live when most lived in all together; or ANALYZE_UNKNOWN */
	struct analyze_loss *losses;
	size_t loss_count;
};

struct analyze_model {
	struct store_reader *reader;
	struct analyze_process *processes; /* ids ascend */
	size_t process_count;
	struct analyze_source *sources; /* none: it is not merged */
	size_t source_count;
	size_t left_out;            /* processes that analyze_model_select() took away */
	struct analyze_site *sites; /* in no useful order: analyze_sites_sort() */
	size_t site_count;
	struct analyze_frame *frames;
	size_t frame_count;
	struct analyze_place *places;
	size_t place_count;
	struct analyze_line *lines;
	size_t line_count;
	struct analyze_name *names;
	size_t name_count;
	struct analyze_module *modules; /* [0] = no module */
	size_t module_count;
	struct analyze_text *texts; /* [0] = none */
	size_t text_count;
	uint64_t start_unix_ns;
	bool is_finished; /* the profile's writer came to its end */
	bool has_folded;  /* small sites of some processes are summed, without stacks */

	char *text_bytes;
	const char *const *wrappers; /* see analyze_titles_set() */
	size_t wrapper_count;
	uint8_t *wrapper_names; /* by name; 0 = analyze_name_is_wrapper() was not asked yet */
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

/* Takes the reader over, whatever it returns. */
struct error *analyze_model_load(struct store_reader *reader,
				 struct analyze_model **ret) ERROR_MUST_CHECK;
/* The same from a profile's path. */
struct error *analyze_model_open(const char *path, struct analyze_model **ret) ERROR_MUST_CHECK;
void analyze_model_free(struct analyze_model *model);

void analyze_sites_sort(struct analyze_model *model, enum analyze_order order);
/* The figure an order goes by. */
uint64_t analyze_order_value(const struct analyze_counts *counts, enum analyze_order order);
void analyze_counts_add(struct analyze_counts *sum, const struct analyze_counts *counts);

#define ANALYZE_ALL_PROCESSES UINT32_MAX
#define ANALYZE_NO_PROCESS    UINT32_MAX

/* The place of the process with an id. */
uint32_t analyze_process_find(const struct analyze_model *model, uint32_t id);
/* Who made it, also where it went on as another program since; NULL = not known. */
const struct analyze_process *analyze_forked_by(const struct analyze_model *model,
						const struct analyze_process *process);
/* Takes away all processes but those chosen, by place, and their sites: places change. */
void analyze_model_select(struct analyze_model *model, const bool *chosen);

/* The process a summary is about: the root, or what it became by exec. NULL if nothing was
 * recorded. */
const struct analyze_process *analyze_main_process(const struct analyze_model *model);

/* How often a process's sites allocated what size: those of model->sites[i] begin at
 * (*ret_first)[i] and end at (*ret_first)[i + 1], ascending. Both malloc'd. */
struct error *analyze_sizes_load(struct analyze_model *model, struct analyze_size **ret,
				 size_t **ret_first) ERROR_MUST_CHECK;

/* The smallest size of a class; UINT64_MAX behind the last. */
uint64_t analyze_class_low(uint32_t size_class);

/* malloc, calloc, new[] … as report --json writes them; NULL = no such function. */
const char *analyze_api_name(uint8_t api);

#endif
