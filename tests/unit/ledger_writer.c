#include "ledger_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define START_NS      UINT64_C(5000000000)
#define GRANULE_SHIFT 5u
#define RECORDS_UNITS MGL_MAX_EXTENT_UNITS

void writer_begin(struct writer *writer, uint64_t units)
{
	memset(writer, 0, sizeof(*writer));
	writer->fd = memfd_create("ledger", MFD_CLOEXEC);
	assert_true(writer->fd >= 0);
	writer->units = units;
	assert_int_equal(ftruncate(writer->fd, (off_t)(units * MGL_UNIT_BYTES)), 0);
	writer->map = mmap(NULL, units * MGL_UNIT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			   writer->fd, 0);
	assert_ptr_not_equal(writer->map, MAP_FAILED);

	struct mgl_session *session = (struct mgl_session *)writer->map;

	session->layout_version = MGL_LAYOUT_VERSION;
	session->flags = MGL_SESSION_SELF;
	strcpy(session->writer, "mallograph test");
	session->unit_bytes = MGL_UNIT_BYTES;
	session->file_bytes = units * MGL_UNIT_BYTES;
	session->start_ns = START_NS;
	session->start_unix_ns = UINT64_C(1700000000000000000);
	session->next_unit = 1;
	session->next_process = 1;
	session->magic = MGL_SESSION_MAGIC;
	writer->session = session;
}

void writer_end(struct writer *writer)
{
	for (uint32_t i = 0; i < writer->process_count; i++) {
		free(writer->processes[i].chunk_addresses);
		free(writer->processes[i].chunks);
	}
	munmap(writer->map, writer->units * MGL_UNIT_BYTES);
	close(writer->fd);
}

static uint8_t *take_extent(struct writer *writer, uint32_t process, uint32_t kind, uint32_t units,
			    uint32_t first_unit)
{
	uint64_t unit = writer->session->next_unit;
	struct mgl_extent *extent = (struct mgl_extent *)(writer->map + unit * MGL_UNIT_BYTES);

	assert_true(unit + units <= writer->units);
	writer->session->next_unit = unit + units;
	extent->process = process;
	extent->kind = kind;
	extent->units = units;
	extent->first_unit = first_unit;
	extent->granule_shift = kind == MGL_EXTENT_SHADOW ? GRANULE_SHIFT : 0;
	extent->magic = MGL_EXTENT_MAGIC;
	return (uint8_t *)extent;
}

static void more_records(struct writer_process *p, uint32_t units, uint32_t serial)
{
	p->base = take_extent(p->writer, serial, MGL_EXTENT_RECORDS, units, p->record_units);
	p->ref = p->record_units << MGL_REF_UNIT_SHIFT;
	p->record_units += units;
	p->used = sizeof(struct mgl_extent);
	p->left = units * MGL_UNIT_BYTES - p->used;
}

void *writer_record(struct writer_process *p, size_t bytes, uint32_t *ref)
{
	bytes = (bytes + MGL_REF_BYTES - 1) & ~(size_t)(MGL_REF_BYTES - 1);
	if (bytes > p->left)
		more_records(p, RECORDS_UNITS, p->header->serial);

	void *record = p->base + p->used;

	*ref = p->ref + (uint32_t)(p->used / MGL_REF_BYTES);
	p->used += bytes;
	p->left -= bytes;
	return record;
}

uint32_t writer_blob(struct writer_process *p, const void *bytes, size_t count)
{
	uint32_t ref;

	memcpy(writer_record(p, count, &ref), bytes, count);
	return ref;
}

struct writer_process *writer_process(struct writer *writer, enum mgl_how how, int32_t pid,
				      int32_t ppid, const char *exe)
{
	struct writer_process *p = &writer->processes[writer->process_count++];
	uint32_t serial = writer->session->next_process++;
	uint32_t ref;

	assert_true(writer->process_count <= WRITER_PROCESSES);
	p->writer = writer;
	more_records(p, 1, serial);

	struct mgl_process *header = writer_record(p, sizeof(*header), &ref);

	p->header = header;
	header->serial = serial;
	header->how = how;
	header->pid = pid;
	header->ppid = ppid;
	header->state = MGL_STATE_RUNNING;
	header->start_ns = START_NS + serial * UINT64_C(1000000);
	header->starttime = UINT64_C(999999999999) + (uint64_t)pid;
	header->granule_shift = GRANULE_SHIFT;
	header->sample_period = 1;
	header->exe_bytes = (uint32_t)strlen(exe);
	header->exe = writer_blob(p, exe, header->exe_bytes);
	header->next_number = 1;
	header->magic = MGL_PROCESS_MAGIC;
	p->chunk_addresses = calloc(WRITER_CHUNKS, sizeof(*p->chunk_addresses));
	p->chunks = calloc(WRITER_CHUNKS, sizeof(*p->chunks));
	assert_non_null(p->chunk_addresses);
	assert_non_null(p->chunks);
	return p;
}

void writer_command(struct writer_process *p, unsigned int count, const char *const *argv)
{
	char text[4096];
	size_t length = 0;

	for (unsigned int i = 0; i < count; i++) {
		assert_true(length + strlen(argv[i]) + 1 <= sizeof(text));
		strcpy(text + length, argv[i]);
		length += strlen(argv[i]) + 1;
	}
	p->header->argv = writer_blob(p, text, length);
	p->header->argv_bytes = (uint32_t)length;
}

uint32_t writer_module(struct writer_process *p, const char *path, uint64_t start, uint32_t flags)
{
	uint32_t ref;
	struct mgl_module *module = writer_record(p, sizeof(*module), &ref);

	module->next = p->header->modules;
	module->index = ++p->header->module_count;
	module->start = start;
	module->stop = start + 0x100000;
	module->bias = start;
	module->path_bytes = (uint32_t)strlen(path);
	module->path = module->path_bytes ? writer_blob(p, path, module->path_bytes) : 0;
	module->flags = flags;
	module->build_id_bytes = 20;
	memset(module->build_id, path[0], 20);
	p->header->modules = ref;
	return module->index;
}

uint32_t writer_node(struct writer_process *p, uint32_t parent, uint64_t pc, uint32_t where)
{
	uint32_t ref;
	struct mgl_node *node = writer_record(p, sizeof(*node), &ref);

	*node = (struct mgl_node){.pc = pc, .parent = parent, .where = where};
	return ref;
}

struct mgl_slot *writer_slot(struct writer_process *p, const char *name, uint32_t *ref)
{
	struct mgl_slot *slot = writer_record(p, sizeof(*slot), ref);

	slot->next = p->header->slots;
	slot->index = ++p->header->slot_count;
	slot->tid = p->header->pid + (int32_t)slot->index - 1;
	slot->adopted = 1;
	strncpy(slot->name, name, sizeof(slot->name) - 1);
	p->header->slots = *ref;
	return slot;
}

struct mgl_row *writer_row(struct writer_process *p, struct mgl_slot *slot, uint32_t slot_ref,
			   uint32_t node, uint8_t api, uint64_t size, uint32_t *ret_ref)
{
	/* Rows come from above, so that they stay aligned. */
	if (p->left < sizeof(struct mgl_row) + MGL_REF_BYTES)
		more_records(p, RECORDS_UNITS, p->header->serial);
	uint64_t at = (p->used + p->left - sizeof(struct mgl_row)) &
		      ~(uint64_t)(sizeof(struct mgl_row) - 1);
	struct mgl_row *row = (struct mgl_row *)(p->base + at);
	uint32_t ref = p->ref + (uint32_t)(at / MGL_REF_BYTES);

	p->left = at - p->used;
	row->node = node;
	row->size_class = (uint8_t)mgl_size_class(size);
	row->api = api;
	row->slot = slot_ref;
	row->self = ref;
	row->next = slot->rows;
	slot->rows = ref;
	if (ret_ref)
		*ret_ref = ref;
	return row;
}

void writer_allocs(struct mgl_row *row, uint64_t count, uint64_t size)
{
	row->allocs += count;
	row->bytes_in += count * size;
}

void writer_frees(struct mgl_row *row, uint64_t count, uint64_t size)
{
	row->frees += count;
	row->bytes_out += count * size;
}

static _Atomic uint64_t *chunk_of(struct writer_process *p, uint64_t address)
{
	uint32_t i;

	/* Tests fill chunk after chunk. */
	for (i = p->chunk_count; i--;)
		if (p->chunk_addresses[i] == address)
			return p->chunks[i];
	if (!p->shadow || p->shadow_page == mgl_shadow_pages(p->shadow_units)) {
		p->shadow_units = p->shadow ? RECORDS_UNITS : 1;
		p->shadow = take_extent(p->writer, p->header->serial, MGL_EXTENT_SHADOW,
					p->shadow_units, 0);
		p->shadow_page = p->shadow_units;
	}
	assert_true(p->chunk_count < WRITER_CHUNKS);

	uint64_t *directory = (uint64_t *)(p->shadow + MGL_SHADOW_DIRECTORY_OFFSET);
	_Atomic uint64_t *words = (_Atomic uint64_t *)(p->shadow + p->shadow_page * MGL_PAGE);

	directory[p->shadow_page++ - p->shadow_units] = address;
	p->chunk_addresses[p->chunk_count] = address;
	p->chunks[p->chunk_count++] = words;
	return words;
}

static void set_word(struct writer_process *p, uint64_t granule, uint64_t word)
{
	uint64_t bytes = (uint64_t)MGL_CHUNK_WORDS << GRANULE_SHIFT;

	chunk_of(p, granule & ~(bytes - 1))[(granule & (bytes - 1)) >> GRANULE_SHIFT] = word;
}

void writer_block(struct writer_process *p, uint64_t address, uint64_t size, uint32_t row,
		  uint64_t number)
{
	uint64_t step = UINT64_C(1) << GRANULE_SHIFT;
	uint64_t granule = address & ~(step - 1);
	uint32_t size_class = mgl_size_class(size);
	uint64_t rest = size - mgl_class_low(size_class);
	uint32_t start = (uint32_t)(address - granule) / 8;

	if (size_class < MGL_LARGE_CLASS) {
		set_word(p, granule,
			 mgl_shadow_word(row, start, (uint32_t)rest, mgl_birth(number)));
		return;
	}
	set_word(p, granule, mgl_shadow_word(row, start, 0, mgl_birth(number)));
	set_word(p, granule + step, MGL_SHADOW_TAG | (rest & MGL_SHADOW_LARGE_MASK));
	if (mgl_class_width(size_class) > MGL_SHADOW_LARGE_MASK + 1)
		set_word(p, granule + 2 * step, MGL_SHADOW_TAG | rest >> MGL_SHADOW_LARGE_BITS);
}

void writer_time(struct writer_process *p, uint64_t number, uint64_t ns)
{
	static struct mgl_time *block[WRITER_PROCESSES];
	uint32_t count = p->header->time_count;
	size_t which = (size_t)(p - p->writer->processes);
	uint32_t ref;

	uint32_t number_of_block = mgl_time_block(count);
	uint32_t place = count - mgl_time_before(number_of_block);

	if (place == 0) {
		block[which] = writer_record(
			p, sizeof(struct mgl_time) * mgl_time_entries(number_of_block), &ref);
		p->header->time_blocks[number_of_block] = ref;
	}
	block[which][place].number = number;
	block[which][place].ns = ns;
	p->header->time_count = count + 1;
}

static void sample_root(struct writer *writer)
{
	static const char *const argv[] = {"sample", "-x", "two words"};
	struct writer_process *p = writer_process(writer, MGL_HOW_ROOT, 4711, 100, "/bin/sample");
	uint32_t program = writer_module(p, "", 0x400000, MGL_MODULE_PROGRAM);
	uint32_t library = writer_module(p, "/lib/libsample.so.1", 0x7f0000000000, 0);
	uint32_t agent = writer_module(p, "/lib/agent.so", 0x7f0000200000, MGL_MODULE_AGENT);
	uint32_t again = writer_module(p, "/lib/libsample.so.1", 0x7f0000400000, 0);
	uint32_t first_ref, second_ref, row_ref;
	struct mgl_slot *first = writer_slot(p, "sample", &first_ref);
	struct mgl_slot *second = writer_slot(p, "worker", &second_ref);
	struct mgl_row *row;

	writer_command(p, 3, argv);
	uint32_t root = writer_node(p, 0, 0x401000, program);
	uint32_t twin = writer_node(p, 0, 0x401000, program);
	uint32_t leaf = writer_node(p, root, 0x7f0000001234, library);
	uint32_t leaf_twin = writer_node(p, twin, 0x7f0000401234, again);
	uint32_t below_agent = writer_node(p, writer_node(p, leaf, 0x7f0000200010, agent),
					   0x7f0000005678, library);
	uint32_t cut = writer_node(p, writer_node(p, 0, 0, MGL_NODE_CUT), 0x402000, program);

	/* 10 of 100 bytes, of which the other thread freed 4; the peak was 8. */
	row = writer_row(p, first, first_ref, leaf, MGL_API_MALLOC, 100, &row_ref);
	writer_allocs(row, 10, 100);
	row->epoch = 5000;
	row->peak_blocks = 8;
	row->peak_bytes = 800;
	for (unsigned int i = 0; i < 6; i++)
		writer_block(p, 0x10000000 + i * 0x80u, 100, row_ref, i + 1);
	row = writer_row(p, second, second_ref, leaf_twin, MGL_API_MALLOC, 100, NULL);
	writer_frees(row, 4, 100);
	row->epoch = 5000;

	/* Nothing changed since the peak: live is the peak's share. */
	row = writer_row(p, first, first_ref, leaf, MGL_API_CALLOC, 4200, &row_ref);
	writer_allocs(row, 1, 4200);
	row->epoch = 300;
	writer_block(p, 0x10002000, 4200, row_ref, 11);

	/* Allocated after the peak. */
	row = writer_row(p, second, second_ref, below_agent, MGL_API_REALLOC, 50000, &row_ref);
	writer_allocs(row, 2, 50000);
	writer_frees(row, 1, 50000);
	row->temporaries = 1;
	row->lifetime = 7;
	row->epoch = 5000;
	writer_block(p, 0x10003ff0, 50000, row_ref, 2000000);
	row = writer_row(p, second, second_ref, cut, MGL_API_NEW, 7, NULL);
	writer_allocs(row, 3, 7);
	writer_frees(row, 3, 7);
	row->epoch = 5000;
	row = writer_row(p, second, second_ref, 0, MGL_API_MALLOC, 16, NULL);
	writer_allocs(row, 1, 16);
	writer_frees(row, 1, 16);
	row->epoch = 5000;

	first->calls[MGL_API_MALLOC] = (struct mgl_calls){.failed = 2};
	first->calls[MGL_API_MMAP].failed = 1;
	second->unknown_frees = 3;
	p->header->max = 5000;
	p->header->peak_number = 15;
	writer_time(p, 10, p->header->start_ns + 1000000);
	writer_time(p, 20, p->header->start_ns + 2000000);
	p->header->next_number = 65;
	p->header->losses[MGL_LOSS_DEEPBIND] = 2;
	p->header->loss_detail[MGL_LOSS_DEEPBIND] =
		(uint64_t)writer_blob(p, "/lib/deep.so", 12) << 32 | 12;
	p->header->end_code = 3;
	p->header->end_ns = p->header->start_ns + UINT64_C(1310000000);
	p->header->end_kind = MGL_END_EXIT;
	p->header->rss_peak = 12345678;
}

void writer_sample(struct writer *writer)
{
	writer_begin(writer, 16);
	sample_root(writer);

	struct writer_process *p = writer_process(writer, MGL_HOW_FORK, 4712, 4711, "/bin/sample");
	uint32_t ref;
	struct mgl_slot *slot = writer_slot(p, "sample", &ref);
	uint32_t program = writer_module(p, "", 0x400000, MGL_MODULE_PROGRAM);
	struct mgl_row *row = writer_row(p, slot, ref, writer_node(p, 0, 0x401000, program),
					 MGL_API_MALLOC, 10, NULL);

	writer_allocs(row, 5, 10);
	writer_frees(row, 5, 10);
	row->epoch = 50;
	row->peak_blocks = 5;
	row->peak_bytes = 50;
	p->header->parent = 1;
	p->header->max = 50;
	p->header->end_code = 9;
	p->header->end_kind = MGL_END_SIGNAL;
}
