/*
 * Writes ledgers for tests of their readers: what an agent would write, without one.
 *
 * The file is a memfd, mapped whole, so a test may also break what it likes through the
 * pointers it gets. Everything asserts: a writer that cannot write fails its test.
 * Owner: the test, by writer_begin() and writer_end().
 */
#ifndef MALLOGRAPH_TESTS_LEDGER_WRITER_H
#define MALLOGRAPH_TESTS_LEDGER_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/layout.h"

#define WRITER_PROCESSES 8u
#define WRITER_CHUNKS    65536u

struct writer;

struct writer_process {
	struct writer *writer;
	struct mgl_process *header;
	uint8_t *base; /* of the newest RECORDS extent */
	uint32_t ref;  /* of base */
	uint64_t used; /* bytes of it, from below */
	uint64_t left; /* bytes of it that are free, rows being taken from above */
	uint32_t record_units;
	uint8_t *shadow; /* newest SHADOW extent */
	uint32_t shadow_units;
	uint32_t shadow_page;
	uint64_t *chunk_addresses;
	_Atomic uint64_t **chunks;
	uint32_t chunk_count;
};

struct writer {
	int fd;
	uint8_t *map;
	uint64_t units;
	struct mgl_session *session;
	struct writer_process processes[WRITER_PROCESSES];
	uint32_t process_count;
};

void writer_begin(struct writer *writer, uint64_t units);
void writer_end(struct writer *writer);

struct writer_process *writer_process(struct writer *writer, enum mgl_how how, int32_t pid,
				      int32_t ppid, const char *exe);
/* argv: count strings. */
void writer_command(struct writer_process *p, unsigned int count, const char *const *argv);
void *writer_record(struct writer_process *p, size_t bytes, uint32_t *ref);
uint32_t writer_blob(struct writer_process *p, const void *bytes, size_t count);
/* The module's index; start is its bias as well. */
uint32_t writer_module(struct writer_process *p, const char *path, uint64_t start, uint32_t flags);
uint32_t writer_node(struct writer_process *p, uint32_t parent, uint64_t pc, uint32_t where);
struct mgl_slot *writer_slot(struct writer_process *p, const char *name, uint32_t *ref);
struct mgl_row *writer_row(struct writer_process *p, struct mgl_slot *slot, uint32_t slot_ref,
			   uint32_t node, uint8_t api, uint64_t size, uint32_t *ref);
/* count allocations of size, all in one row; and frees. */
void writer_allocs(struct mgl_row *row, uint64_t count, uint64_t size);
void writer_frees(struct mgl_row *row, uint64_t count, uint64_t size);
void writer_block(struct writer_process *p, uint64_t address, uint64_t size, uint32_t row,
		  uint64_t number);
void writer_time(struct writer_process *p, uint64_t number, uint64_t ns);

/* The ledger most tests look at: a program of two processes, two threads, six sites. */
void writer_sample(struct writer *writer);

#endif
