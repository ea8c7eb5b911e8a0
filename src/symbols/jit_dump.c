/*
 * jit-PID.dump: a header, then records. A function's lines come in a record before its own.
 * All numbers are of the byte order and size that wrote it; another machine's is not read.
 */
#include "symbols/jit.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/map.h"

#define MAGIC        0x4A695444u         /* "JiTD" */
#define RECORD_BYTES ((uint32_t)4 << 20) /* of one record that are looked at */

enum { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2 };

struct head {
	uint32_t magic, version, size, machine, padding, pid;
	uint64_t time, flags;
};

struct record {
	uint32_t id, size;
	uint64_t time;
};

struct load {
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
};

struct move {
	uint32_t pid, tid;
	uint64_t vma, from, to, size, index;
};

struct dump {
	struct symbols_jit *jit;
	int fd;
	uint64_t left;
	uint8_t *bytes; /* of the record */
	size_t count;
	struct strbuf lines;      /* the debug information that waits for its function */
	struct map_u64 functions; /* by index: place in names */
};

/* false = the file ends here. */
static struct error *read_whole(struct dump *dump, void *to, size_t count, bool *ret)
{
	size_t done = 0;

	*ret = false;
	if (count > dump->left)
		return NULL;
	while (done < count) {
		ssize_t n = read(dump->fd, (char *)to + done, count - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_create_system(errno, NULL, "cannot read a jitdump file");
		if (n == 0)
			return NULL;
		done += (size_t)n;
	}
	dump->left -= count;
	*ret = true;
	return NULL;
}

/* The record's content into bytes, as much as is looked at; the rest is passed over. */
static struct error *read_content(struct dump *dump, uint64_t bytes, bool *ret)
{
	dump->count = bytes < RECORD_BYTES ? (size_t)bytes : RECORD_BYTES;
	TRY(read_whole(dump, dump->bytes, dump->count, ret));

	uint64_t rest = bytes - dump->count;

	if (!*ret || rest == 0)
		return NULL;
	*ret = rest <= dump->left && lseek(dump->fd, (off_t)rest, SEEK_CUR) >= 0;
	dump->left -= *ret ? rest : 0;
	return NULL;
}

static bool is_name(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return false;
	return length > 0;
}

/* The addresses that a line begins at; each holds until the next. A file's name of "\xff" is
 * that of the entry before. */
static struct error *take_debug_info(struct dump *dump, uint64_t start, uint64_t size)
{
	const char *at = dump->lines.text, *end = at ? at + dump->lines.length : NULL;
	const char *file = NULL;
	size_t kept = 0;

	while (at && end - at > 16) {
		uint64_t address;
		uint32_t line;
		const char *name = at + 16;
		size_t length = strnlen(name, (size_t)(end - name));

		memcpy(&address, at, sizeof(address));
		memcpy(&line, at + 8, sizeof(line));
		if (name + length == end)
			break;
		bool is_same = length == 1 && (unsigned char)name[0] == 0xff;

		/* V8 20 writes what is no name for some: what follows is not to be believed. */
		if (!is_same && !is_name(name, length))
			break;
		if (!is_same) {
			file = name;
			kept = 0;
		}
		at = name + length + 1;
		if (address < start || address - start >= size || !file)
			continue;
		for (size_t i = symbols_jit_first(dump->jit, address); i < dump->jit->pcs.count;
		     i++) {
			struct symbols_jit_pc *pc = &dump->jit->pcs.items[i];

			if (pc->pc - start >= size || ++dump->jit->work > SYMBOLS_JIT_WORK)
				break;
			if (!kept)
				TRY(symbols_jit_keep(dump->jit, file, strlen(file), &kept));
			dump->jit->lined += !pc->is_lined;
			pc->is_lined = true;
			pc->file = kept;
			pc->line = line;
			pc->column = 0;
		}
	}
	return NULL;
}

static struct error *take_load(struct dump *dump)
{
	const char *name = (const char *)dump->bytes + sizeof(struct load);
	struct load load;
	size_t place;

	if (dump->count <= sizeof(load))
		return NULL;
	memcpy(&load, dump->bytes, sizeof(load));
	size_t length = strnlen(name, dump->count - sizeof(load));

	TRY(symbols_jit_name(dump->jit, load.address, load.size, name, length));
	if (symbols_jit_first(dump->jit, load.address) < dump->jit->pcs.count)
		TRY(take_debug_info(dump, load.address, load.size));
	strbuf_clear(&dump->lines);
	TRY(symbols_jit_keep(dump->jit, name, length, &place));
	return map_u64_set(&dump->functions, load.index, place);
}

static struct error *take_move(struct dump *dump)
{
	struct move move;

	if (dump->count < sizeof(move))
		return NULL;
	memcpy(&move, dump->bytes, sizeof(move));
	const uint64_t *place = map_u64_find(&dump->functions, move.index);

	if (!place || *place == 0)
		return NULL;
	/* The names may move while one is added. */
	CLEANUP_FREE char *name = strdup(symbols_jit_text(dump->jit, *place));

	if (!name)
		return error_no_memory();
	return symbols_jit_name(dump->jit, move.to, move.size, name, strlen(name));
}

static struct error *take_lines(struct dump *dump)
{
	/* Address of the code and number of entries. */
	const size_t head = 2 * sizeof(uint64_t);

	strbuf_clear(&dump->lines);
	if (dump->count <= head)
		return NULL;
	strbuf_append_bytes(&dump->lines, dump->bytes + head, dump->count - head);
	return strbuf_result(&dump->lines);
}

static struct error *read_record(struct dump *dump, bool *ret)
{
	struct record record;

	TRY(read_whole(dump, &record, sizeof(record), ret));
	if (*ret && record.size < sizeof(record))
		*ret = false;
	if (*ret)
		TRY(read_content(dump, record.size - sizeof(record), ret));
	if (!*ret)
		return NULL;
	switch (record.id) {
	case CODE_LOAD:
		return take_load(dump);
	case CODE_MOVE:
		return take_move(dump);
	case CODE_DEBUG_INFO:
		return take_lines(dump);
	default:
		return NULL;
	}
}

static struct error *read_records(struct dump *dump)
{
	struct head head;
	bool more;

	TRY(read_whole(dump, &head, sizeof(head), &more));
	if (!more || head.magic != MAGIC || head.machine != EM_X86_64 || head.size < sizeof(head))
		return NULL;
	TRY(read_content(dump, head.size - sizeof(head), &more));
	while (more && dump->jit->work <= SYMBOLS_JIT_WORK)
		TRY(read_record(dump, &more));
	return NULL;
}

struct error *symbols_jit_read_dump(struct symbols_jit *jit, int fd)
{
	CLEANUP_FREE uint8_t *bytes = malloc(RECORD_BYTES);
	struct dump dump = {
		.jit = jit,
		.fd = fd,
		.left = SYMBOLS_JIT_BYTES,
		.bytes = bytes,
		.lines = STRBUF_EMPTY,
	};

	if (!bytes)
		return error_no_memory();
	symbols_jit_sort(jit);
	struct error *error = read_records(&dump);

	strbuf_free(&dump.lines);
	map_u64_free(&dump.functions);
	return error;
}
