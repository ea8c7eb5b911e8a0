/*
 * Reads a session file: one look at every ledger in it, of processes that live or died.
 *
 * Everything in the file is untrusted, and a live process changes it meanwhile: a value
 * is loaded once, checked, and only then used; what does not fit is left out and counted
 * (ledger_process.damage). Only pages the file really has are touched, since a read of a
 * hole of a tmpfs would allocate it. A file cut short under the reader reads as zeros
 * and ends in an error, not in a SIGBUS.
 *
 * Owner: a reader owns all it returns, until ledger_reader_close(). Structs that the
 * caller fills by a ledger_*_read() are the caller's, ended by the matching _free().
 * Threads: one at a time a reader; open and close one at a time in all.
 * Units: sizes in bytes, times in CLOCK_MONOTONIC ns. Layout and meaning: layout.h.
 */
#ifndef MALLOGRAPH_LEDGER_READER_H
#define MALLOGRAPH_LEDGER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "ledger/layout.h"

struct ledger_reader;

/* Bytes that stood in the file: any bytes, not a string, though a NUL follows them. */
struct ledger_text {
	const char *bytes; /* never NULL */
	size_t length;
};

struct ledger_session {
	uint32_t flags; /* enum mgl_session_flags */
	char writer[sizeof(((struct mgl_session *)0)->writer) + 1];
	uint64_t start_ns;
	uint64_t start_unix_ns;
	int32_t collector_pid;
	uint32_t
		missed; /* processes that could not get a ledger, or died before its header was whole */
	uint32_t left_out; /* that were not to be recorded */
	char missed_first[sizeof(((struct mgl_session *)0)->missed_first) + 1];
	uint64_t file_bytes;
	uint32_t begun;   /* serials that were given out, from 1 on */
	uint32_t retired; /* processes that are kept beside the file; most are in it no more */
	/* Serials of those that are missed for want of a header: of one that was retired the rest
	 * may not be gone yet. */
	const uint32_t *headless;
	size_t headless_count;
};

struct ledger_slot {
	uint32_t ref;
	int32_t tid;
	uint32_t threads; /* that owned it one after the other; 0 for a handler's slot */
	uint32_t level;
	char name[sizeof(((struct mgl_slot *)0)->name) + 1];
	uint64_t unknown_frees;
	uint64_t inherited_frees;
	bool unfinished; /* a call had begun and not ended */
	struct mgl_calls calls[MGL_API_COUNT];
};

/* Never in a ledger: of stacks.h, code of one process that is in no module; its offsets are
 * addresses, its index is the process's serial. */
#define LEDGER_MODULE_NOWHERE UINT32_C(0x80000000)

struct ledger_module {
	uint32_t index; /* what nodes name; 0 = this place is not in use */
	uint32_t flags; /* enum mgl_module_flags */
	uint64_t start;
	uint64_t stop;
	uint64_t bias;
	uint64_t loaded_ns;
	uint64_t unloaded_ns;
	struct ledger_text path; /* the program's own too */
	uint8_t build_id[32];
	uint32_t build_id_bytes;
};

struct ledger_time {
	uint64_t number;
	uint64_t ns;
};

struct ledger_mapping {
	uint64_t start;
	uint64_t bytes;
};

struct ledger_loss {
	uint64_t count;
	struct ledger_text detail;
};

/* How a child of the process ended, as it learned. */
struct ledger_wait {
	uint64_t ns;
	uint64_t since;
	int32_t pid; /* below 0: a shell that was started after since, minus its command's hash */
	bool by_signal;
	uint32_t code; /* exit status, or signal */
};

struct ledger_process {
	uint32_t serial; /* from 1, in the order the ledgers were begun */
	uint32_t parent; /* serial, for a fork; 0 = not said */
	uint32_t how;    /* enum mgl_how */
	uint32_t state;  /* enum mgl_state */
	int32_t pid;
	int32_t ppid;
	uint64_t start_ns;
	uint64_t starttime; /* as in /proc/PID/stat; 0 = not known */
	uint32_t granule_shift;
	uint32_t sample_period;
	struct ledger_text exe;
	struct ledger_text cwd;
	struct ledger_text argv; /* arguments, each ended by a NUL */
	struct ledger_text allocator;
	struct ledger_text
		inner; /* "path (function)" of allocators in modules, each ended by a NUL */

	uint32_t end_kind; /* enum mgl_end, as the collector learned it */
	uint32_t end_code;
	uint64_t end_ns;   /* 0 = not known */
	uint64_t rss_peak; /* 0 = not known */

	uint32_t inert; /* enum mgl_inert */
	uint64_t inert_number;
	uint64_t inert_ns;
	struct ledger_loss losses[MGL_LOSS_COUNT];

	uint64_t mapped_bytes;
	uint64_t mapped_peak;
	uint64_t peak_number;
	uint64_t peak_error; /* 0 = the peak is exact */
	uint64_t peak_max;   /* largest total that was published */
	uint64_t max_error;  /* live bytes never were more than peak_max and this */
	uint64_t next_number;

	const struct ledger_slot *slots;
	size_t slot_count;
	const struct ledger_module *modules; /* by index; [0] is not in use */
	size_t module_count;
	const struct ledger_time *times; /* ascending */
	size_t time_count;
	const struct ledger_mapping *mappings;
	size_t mapping_count;
	const struct ledger_wait *waits; /* in no order */
	size_t wait_count;

	uint64_t damage;         /* things left out because they made no sense */
	const char *damage_note; /* the first of them, or NULL */
};

/* A row as it was read. live = allocs − frees is an upper bound of one moment during the
 * reading, allocs_low − frees_high a lower one of the same moment; both are the same
 * where nothing ran meanwhile. One row alone may be negative; the rows of a site not. */
struct ledger_row {
	uint32_t ref;
	uint32_t node; /* ref, for ledger_node_read(); 0 = its stack is not known */
	uint32_t slot; /* place in ledger_process.slots, or its count for a newer one */
	uint16_t heap;
	uint8_t size_class;
	uint8_t api;
	uint64_t allocs;
	uint64_t bytes_in;
	uint64_t frees;
	uint64_t bytes_out;
	uint64_t allocs_low;
	uint64_t bytes_in_low;
	uint64_t frees_high;
	uint64_t bytes_out_high;
	uint64_t temporaries;
	uint64_t lifetime;
	uint64_t moved;
	uint64_t foreign_frees;
	int64_t peak_blocks; /* live at the process's peak */
	int64_t peak_bytes;
};

struct ledger_rows {
	struct ledger_row *items;
	size_t count;
	size_t capacity;
	bool exact;        /* no call was under way while the rows were read */
	uint32_t **places; /* by unit of record space, then place in it */
	uint32_t place_units;
};

struct ledger_node {
	uint64_t pc;
	uint32_t parent; /* ref; 0 = outermost */
	uint32_t module; /* index, checked; 0 = none */
	uint32_t flags;  /* MGL_NODE_EXACT, _FP, _CUT */
	bool is_lost;    /* its module is not known; of a live process, it may yet be */
};

/* A live block. */
struct ledger_block {
	uint64_t address;
	uint64_t size;
	uint64_t number; /* of the allocation; exact below 2^20 */
	uint32_t row;    /* ref of its ledger_row */
};

/* Opens a session file. Refuses what is none (ERROR_FORMAT), another layout version,
 * naming its writer (ERROR_VERSION), and one that lacks its end (ERROR_DAMAGED). */
struct error *ledger_reader_open(const char *path, struct ledger_reader **ret) ERROR_MUST_CHECK;
/* The same for a descriptor, which stays the caller's and can be closed at once. name is
 * for messages. */
struct error *ledger_reader_open_fd(int fd, const char *name,
				    struct ledger_reader **ret) ERROR_MUST_CHECK;
void ledger_reader_close(struct ledger_reader *reader);

/* Whether a file begins like a session file, of whatever version. */
bool ledger_reader_recognises(int fd);

const struct ledger_session *ledger_reader_session(const struct ledger_reader *reader);
size_t ledger_reader_process_count(const struct ledger_reader *reader);
/* at < count; in the order of their serials. */
const struct ledger_process *ledger_reader_process(const struct ledger_reader *reader, size_t at);

/* The pieces of the file that hold a process's ledger: places and sizes in bytes. */
typedef struct error *ledger_extent_visit(void *context, uint64_t offset, uint64_t bytes);
struct error *ledger_reader_extents(const struct ledger_reader *reader, size_t process,
				    ledger_extent_visit *visit, void *context) ERROR_MUST_CHECK;

/* How much of the file that is. */
uint64_t ledger_reader_bytes(const struct ledger_reader *reader, size_t process);

/* All rows of a process, read in the order that makes the bounds true. */
struct error *ledger_rows_read(struct ledger_reader *reader, size_t process,
			       struct ledger_rows *ret) ERROR_MUST_CHECK;
/* The row a block names; NULL = none that was read. */
const struct ledger_row *ledger_rows_find(const struct ledger_rows *rows, uint32_t ref);
void ledger_rows_free(struct ledger_rows *rows);

/* What a glance sees of a row. */
struct ledger_glance_row {
	uint32_t ref;
	uint64_t allocs;
	uint64_t frees;
	uint64_t bytes_in;
	uint64_t bytes_out;
};

struct ledger_glance {
	uint64_t mapped_bytes;
	uint64_t peak; /* no more bytes ever lived in it at once */
	/* Rows were made in units taken since the reader was opened: open it again. */
	bool stale;
};

/* Once over the rows of a process that runs, without a bound and without memory, for who
 * looks again and again: a block's free may be seen and its allocation not, never the
 * other way round in one row. Reads what is there now, not when the reader was opened. */
typedef struct error *ledger_glance_visit(void *context, const struct ledger_glance_row *row);
struct error *ledger_rows_glance(struct ledger_reader *reader, size_t process,
				 ledger_glance_visit *visit, void *context,
				 struct ledger_glance *ret) ERROR_MUST_CHECK;

/* What was seen of a process's rows so far: by slot, its newest. map_u64_free(). */
struct ledger_news {
	struct map_u64 newest;
};

/* The nodes of rows made since the last time. Where some were made in units taken since the
 * reader was opened, *ret_stale is set: open it again. A node may come twice. */
struct error *ledger_rows_news(struct ledger_reader *reader, size_t process,
			       struct ledger_news *news,
			       struct error *(*visit)(void *context, uint32_t node), void *context,
			       bool *ret_stale) ERROR_MUST_CHECK;

/* One node; false if ref names none (the stack is then cut there). Parents are not
 * checked for cycles: whoever follows them remembers where it has been. */
bool ledger_node_read(struct ledger_reader *reader, size_t process, uint32_t ref,
		      struct ledger_node *ret);

/* Every live block, by address within a chunk, chunks in no order. The callback's error
 * ends the walk and is returned. Of a live process some may be missed or just freed. */
typedef struct error *ledger_block_visit(void *context, const struct ledger_block *block);
struct error *ledger_blocks_walk(struct ledger_reader *reader, size_t process,
				 ledger_block_visit *visit, void *context) ERROR_MUST_CHECK;

/* When allocation number was taken, from the known times around it; 0 = not known. */
uint64_t ledger_time_of(const struct ledger_process *process, uint64_t number);

/* NULL, or an error if the file was cut short while it was read: what was returned since
 * is not to be trusted. The *_read() and *_walk() above check it themselves. */
struct error *ledger_reader_check(const struct ledger_reader *reader) ERROR_MUST_CHECK;

#endif
