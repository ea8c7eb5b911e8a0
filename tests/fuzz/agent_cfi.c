/*
 * The agent's reader of .eh_frame, which is the program's, over any bytes: found, run and
 * evaluated at addresses of code. Nothing may be read outside of the section, and everything
 * must end.
 *
 * The first byte is the size of an .eh_frame_hdr that follows, 0 = there is none; the rest is
 * .eh_frame. They lie at BASE, so that what refers to a place is the same in every run.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/cfi.h"

#include "image.h"

#ifdef __SANITIZE_ADDRESS__
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifdef IS_SANITIZED
#include <sanitizer/asan_interface.h>
#endif

#define BASE  UINT64_C(0x10000000)
#define ROOM  ((size_t)1 << 17)
#define CODE  UINT64_C(0x401000) /* where the corpus has its code */
#define STEP  4u
#define STEPS 64u
#define MIXED UINT64_C(0x9e3779b97f4a7c15)

/* Memory that an expression reads: all but its last pages, whatever stands there. */
bool stack_read(struct stack_map *map, uint64_t at, uint64_t *ret)
{
	(void)map;
	*ret = at * MIXED >> (at & 31);
	return at < UINT64_MAX - 65536;
}

static uint8_t *room(void)
{
	static uint8_t *at;

	if (!at) {
		void *base = (void *)(uintptr_t)BASE;

		at = mmap(base, ROOM, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (at != base)
			abort();
	}
	return at;
}

static void evaluate(const struct cfi_row *row, bool symbolic)
{
	static struct cfi_machine machine;
	struct cfi_value value, first = {.number = CODE};

	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		machine.reg[i] = i * MIXED;
	machine.symbolic = symbolic;
	machine.known = symbolic ? 1u << CFI_RSP : (1u << CFI_REGISTERS) - 1;
	if (row->cfa_kind == CFI_VAL_EXPRESSION)
		cfi_evaluate(&machine, row->cfa, NULL, &value);
	for (unsigned i = 0; i < CFI_REGISTERS; i++)
		if (row->kind[i] == CFI_EXPRESSION || row->kind[i] == CFI_VAL_EXPRESSION)
			cfi_evaluate(&machine, row->value[i], &first, &value);
}

static void read_all(const struct cfi_section *section)
{
	static struct cfi_scratch scratch;
	uint64_t frames;

	if (section->header)
		cfi_header_frames(section, &frames);
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t address = CODE + i * STEP;

		if (!cfi_find(section, address, &scratch))
			continue;
		if (address < scratch.fde.start || address >= scratch.fde.stop)
			abort();
		if (cfi_run(section, address, &scratch)) {
			evaluate(&scratch.row, true);
			evaluate(&scratch.row, false);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *at = room();
	size_t header = size ? data[0] : 0, bytes = size ? size - 1 : 0;

	if (bytes > ROOM)
		bytes = ROOM;
	if (header > bytes)
		header = bytes;
	struct cfi_section section = {
		.header = header ? at : NULL,
		.header_end = header ? at + header : NULL,
		.low = at,
		.high = at + bytes,
		.frames = at + header,
	};

#ifdef IS_SANITIZED
	ASAN_UNPOISON_MEMORY_REGION(at, ROOM);
#endif
	if (bytes)
		memcpy(at, data + 1, bytes);
#ifdef IS_SANITIZED
	ASAN_POISON_MEMORY_REGION(at + bytes, ROOM - bytes);
#endif
	read_all(&section);
	return 0;
}
