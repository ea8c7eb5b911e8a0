/*
 * The reader's inside, shared by reader*.c alone.
 *
 * The file is mapped once, read-only, as far as units were taken and then some, since a
 * live ledger grows while it is read. No address in the mapping is touched before
 * ledger_unit_at() has found its page to be in the file.
 */
#ifndef MALLOGRAPH_LEDGER_READER_INTERNAL_H
#define MALLOGRAPH_LEDGER_READER_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>

#include "base/map.h"
#include "base/vector.h"
#include "ledger/reader.h"

/* Loads of what the writer may change meanwhile: atomics, fields written once, and the
 * field that was written last, after which the others are there. Those that acquire keep
 * their order among each other. */
#define READ_ATOMIC(field) atomic_load_explicit(&(field), memory_order_acquire)
#define READ_ONCE(field)   (*(const volatile __typeof__(field) *)&(field))
#define READ_MAGIC(field)  __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

#define READER_UNIT_PAGES (MGL_UNIT_BYTES / MGL_PAGE)
#define READER_UNIT_WORDS (READER_UNIT_PAGES / 64)

/* A unit of the file that a process's ledger uses. */
struct reader_unit {
	uint32_t unit;                     /* in the file; 0 = none */
	uint32_t left;                     /* units of its extent from this one on */
	uint64_t pages[READER_UNIT_WORDS]; /* bit set: the page is known to be there */
};

struct reader_extent {
	uint32_t unit;
	uint32_t units;
	uint32_t first_unit;
	uint32_t kind;
	uint32_t process;
	uint32_t granule_shift;
};

struct reader_process {
	struct ledger_process info;
	const struct mgl_process *header; /* in the mapping */
	struct reader_unit *records;      /* record space */
	uint32_t record_units;
	uint64_t walked; /* units of the file that were taken when extents were last looked for */
	uint64_t text_left; /* bytes of text it may still make the reader copy */
	bool no_memory;     /* a text was left out for want of it */
	VECTOR(struct reader_extent) extents;
	VECTOR(char *) texts;
};

struct reader_file {
	int fd;
	char *name;
	uint64_t size;
	const uint8_t *map;
	uint64_t map_bytes;
	uint32_t zero_pages;
	volatile sig_atomic_t cut; /* set by the SIGBUS handler */
	struct reader_file *next;  /* open ones, for the handler */
};

struct ledger_reader {
	struct reader_file file;
	struct ledger_session session;
	VECTOR(uint32_t) headless; /* session's */
	uint32_t vain_walks;       /* looks for new extents although no unit was taken */
	VECTOR(struct reader_process) processes;
};

/* reader_file.c */
struct error *ledger_file_open(struct reader_file *file, int fd, const char *name) ERROR_MUST_CHECK;
/* spare: bytes after those for what the file grows by, as many as there is address space for. */
struct error *ledger_file_map(struct reader_file *file, uint64_t bytes,
			      uint64_t spare) ERROR_MUST_CHECK;
void ledger_file_close(struct reader_file *file);
struct error *ledger_file_check(const struct reader_file *file) ERROR_MUST_CHECK;
/* Where data begins at or after offset; false = nowhere. */
bool ledger_file_next_data(const struct reader_file *file, uint64_t offset, uint64_t *ret);
/* bytes at a place in a unit, if they lie in the file and in the unit's extent, whose
 * units follow each other in the array; else NULL. Pages that the file does not have, as
 * a saved ledger leaves out those of zeros, read as zeros, or are NULL without zeros. */
const void *ledger_unit_at(struct reader_file *file, struct reader_unit *unit, uint64_t offset,
			   uint64_t bytes, bool zeros);
/* Bytes of the unit that are in the file. */
uint64_t ledger_unit_data(const struct reader_file *file, uint32_t unit);

/* reader.c */
/* Calls add for every extent of units [1, units) until it returns an error. */
struct error *ledger_extents_walk(const struct ledger_reader *reader, uint64_t units,
				  struct error *(*add)(void *to,
						       const struct reader_extent *extent),
				  void *to) ERROR_MUST_CHECK;
/* Units taken by now, as far as the file is mapped. */
uint64_t ledger_units_taken(const struct ledger_reader *reader);

/* reader_process.c */
struct error *ledger_process_load(struct ledger_reader *reader,
				  struct reader_process *process) ERROR_MUST_CHECK;
void ledger_process_deinit(struct reader_process *process);
/* A record, or NULL if the ref does not name bytes of this ledger. */
const void *ledger_record_at(struct ledger_reader *reader, struct reader_process *process,
			     uint32_t ref, uint64_t bytes);
/* note must be a literal. */
void ledger_process_damage(struct reader_process *process, const char *note);

/* A path that is relative to a directory becomes absolute; a name without a slash is none.
 * Errors as above. */
void ledger_text_below(struct reader_process *process, const struct ledger_text *directory,
		       struct ledger_text *path);

/* reader_tables.c */
struct error *ledger_slots_load(struct ledger_reader *reader,
				struct reader_process *process) ERROR_MUST_CHECK;
struct error *ledger_modules_load(struct ledger_reader *reader,
				  struct reader_process *process) ERROR_MUST_CHECK;
struct error *ledger_times_load(struct ledger_reader *reader,
				struct reader_process *process) ERROR_MUST_CHECK;
struct error *ledger_mappings_load(struct ledger_reader *reader,
				   struct reader_process *process) ERROR_MUST_CHECK;
/* reader_waits.c */
struct error *ledger_waits_load(struct ledger_reader *reader,
				struct reader_process *process) ERROR_MUST_CHECK;
/* Copies a blob; *ret is empty where it is not there. Without memory process->no_memory is
 * set, for ledger_process_load() to look at in the end. */
void ledger_text_load(struct ledger_reader *reader, struct reader_process *process, uint32_t ref,
		      uint32_t bytes, uint32_t max, struct ledger_text *ret);

#endif
