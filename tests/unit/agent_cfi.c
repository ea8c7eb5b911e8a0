#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frame_writer.h"

bool agent_frozen, agent_starting;

#define CODE UINT64_C(0x401000)

static struct frame_writer w;
static struct cfi_scratch scratch;
static struct cfi_machine machine;

static void begin(void) { w.used = 0; }

/* One FDE over CODE … CODE + 256 with this program. */
static struct cfi_section one(const uint8_t *program, size_t bytes)
{
	begin();
	size_t cie = cie_usual(&w);

	fde_begin(&w, cie, CODE, 256);
	put(&w, program, bytes);
	entry_end(&w);
	return section_of(guarded(w.bytes, w.used), w.used);
}
#define ONE(...) one((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static bool row_at(const struct cfi_section *s, uint64_t address)
{
	return cfi_find(s, address, &scratch) && cfi_run(s, address, &scratch);
}

static void assert_cfa(uint64_t reg, int64_t offset)
{
	assert_int_equal(scratch.row.cfa_kind, CFI_REGISTER);
	assert_int_equal(scratch.row.cfa, reg);
	assert_int_equal(scratch.row.cfa_offset, offset);
}

static void assert_rule(unsigned reg, enum cfi_kind kind, int64_t value)
{
	assert_int_equal(scratch.row.kind[reg], kind);
	assert_int_equal((int64_t)scratch.row.value[reg], value);
}

/* --- programs ---------------------------------------------------------------------- */

static void test_a_usual_function(void **state)
{
	struct cfi_section s = ONE(0x41,              /* advance 1 */
				   0x0e, 16,          /* def_cfa_offset 16 */
				   0x80 | CFI_RBP, 2, /* offset */
				   0x43,              /* advance 3 */
				   0x0d, CFI_RBP,     /* def_cfa_register */
				   0x02, 60,          /* advance1 60 */
				   0x0a,              /* remember_state */
				   0x0c, CFI_RSP, 8,  /* def_cfa */
				   0xc0 | CFI_RBP,    /* restore */
				   0x41, 0x0b);       /* advance 1, restore_state */

	(void)state;
	assert_false(row_at(&s, CODE - 1));
	assert_false(row_at(&s, CODE + 256));
	assert_true(row_at(&s, CODE));
	assert_cfa(CFI_RSP, 8);
	assert_rule(CFI_RIP, CFI_OFFSET, -8);
	assert_rule(CFI_RBP, CFI_UNSET, 0);
	assert_true(row_at(&s, CODE + 1));
	assert_cfa(CFI_RSP, 16);
	assert_rule(CFI_RBP, CFI_OFFSET, -16);
	assert_true(row_at(&s, CODE + 4));
	assert_cfa(CFI_RBP, 16);
	assert_true(row_at(&s, CODE + 64));
	assert_cfa(CFI_RSP, 8);
	assert_rule(CFI_RBP, CFI_UNSET, 0);
	assert_true(row_at(&s, CODE + 255));
	assert_cfa(CFI_RBP, 16);
	assert_rule(CFI_RBP, CFI_OFFSET, -16);
}

static void test_every_rule(void **state)
{
	struct cfi_section s = ONE(0x05, CFI_RBX, 3,          /* offset_extended */
				   0x11, CFI_R12, 0x7c,       /* offset_extended_sf −4 */
				   0x2f, CFI_R13, 5,          /* GNU_negative_offset_extended */
				   0x14, CFI_R14, 6,          /* val_offset */
				   0x15, CFI_R15, 0x79,       /* val_offset_sf −7 */
				   0x09, CFI_RBP, CFI_RAX,    /* register */
				   0x07, CFI_RIP,             /* undefined */
				   0x08, CFI_RDX,             /* same_value */
				   0x10, CFI_RSI, 2, 0x75, 8, /* expression */
				   0x16, CFI_RDI, 1, 0x31,    /* val_expression */
				   0x2e, 32,                  /* GNU_args_size */
				   0x05, 40, 1,               /* a vector register */
				   0x12, CFI_RSP, 0x7d,       /* def_cfa_sf −3 */
				   0x44, 0x13, 0x7b,         /* advance 4, def_cfa_offset_sf −5 */
				   0x44, 0x06, CFI_RBX,      /* restore_extended */
				   0x44, 0x0f, 2, 0x77, 16); /* def_cfa_expression */

	(void)state;
	assert_true(row_at(&s, CODE));
	assert_cfa(CFI_RSP, 24);
	assert_rule(CFI_RBX, CFI_OFFSET, -24);
	assert_rule(CFI_R12, CFI_OFFSET, 32);
	assert_rule(CFI_R13, CFI_OFFSET, 40);
	assert_rule(CFI_R14, CFI_VAL_OFFSET, -48);
	assert_rule(CFI_R15, CFI_VAL_OFFSET, 56);
	assert_rule(CFI_RBP, CFI_REGISTER, CFI_RAX);
	assert_rule(CFI_RIP, CFI_UNDEFINED, 0);
	assert_rule(CFI_RDX, CFI_SAME, 0);
	assert_int_equal(scratch.row.kind[CFI_RSI], CFI_EXPRESSION);
	assert_int_equal(cfi_expression_bytes(scratch.row.value[CFI_RSI]), 2);
	assert_int_equal(cfi_expression_at(scratch.row.value[CFI_RSI])[1], 8);
	assert_int_equal(scratch.row.kind[CFI_RDI], CFI_VAL_EXPRESSION);
	assert_true(row_at(&s, CODE + 4));
	assert_cfa(CFI_RSP, 40);
	assert_true(row_at(&s, CODE + 8));
	assert_rule(CFI_RBX, CFI_UNSET, 0);
	assert_true(row_at(&s, CODE + 12));
	assert_int_equal(scratch.row.cfa_kind, CFI_VAL_EXPRESSION);
	assert_int_equal(cfi_expression_bytes(scratch.row.cfa), 2);
}

static void test_every_advance(void **state)
{
	uint8_t program[] = {0x02, 10, 0x0e, 16,                                  /* 1 byte */
			     0x03, 10, 0,    0x0e, 24,                            /* 2 */
			     0x04, 10, 0,    0,    0,  0x0e, 32,                  /* 4 */
			     0x1d, 10, 0,    0,    0,  0,    0,  0, 0, 0x0e, 40,  /* 8 */
			     0x01, 0,  0,    0,    0,  0,    0,  0, 0, 0x0e, 48}; /* set_loc */
	uint64_t to = CODE + 50;

	(void)state;
	memcpy(program + 28, &to, 8);
	struct cfi_section s = one(program, sizeof(program));

	for (unsigned i = 0; i < 6; i++) {
		assert_true(row_at(&s, CODE + 10 * i));
		assert_cfa(CFI_RSP, 8 + 8 * (int64_t)i);
		assert_true(row_at(&s, CODE + 10 * i + 9));
		assert_cfa(CFI_RSP, 8 + 8 * (int64_t)i);
	}
}

static void test_programs_that_make_no_sense(void **state)
{
	(void)state;
	const struct cfi_section bad[] = {
		ONE(0x0b), /* restore_state of nothing */
		ONE(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a), /* too many */
		ONE(0x3f),                                                 /* no such instruction */
		ONE(0x0f, 1, 0x31, 0x0e, 8),                   /* an offset of an expression */
		ONE(0x0f, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x31), /* an expression without end */
		ONE(0x10, CFI_RBX, 200, 1),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(cfi_find(&bad[i], CODE, &scratch));
		assert_false(cfi_run(&bad[i], CODE + 255, &scratch));
	}
	/* A number that goes on for ever ends with the entry. */
	uint8_t endless[64];

	memset(endless, 0xff, sizeof(endless));
	endless[0] = 0x0e;
	struct cfi_section s = one(endless, sizeof(endless));

	assert_true(cfi_find(&s, CODE, &scratch));
	scratch.fde.program_end = scratch.fde.program + 32;
	assert_false(cfi_run(&s, CODE, &scratch));
}

/* --- entries -------------------------------------------------------------------------- */

/* A CIE with one encoding of addresses and an FDE that says CODE in it. */
static struct cfi_section encoded(uint8_t encoding, uint64_t value, unsigned bytes, bool relative)
{
	begin();
	size_t cie = cie_begin(&w, "zR");

	PUT(&w, 1, encoding);
	PUT(&w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
	entry_end(&w);
	entry_begin(&w);
	put32(&w, (uint32_t)(w.used - cie));
	size_t at = w.used;

	for (int i = 0; i < 2; i++) {
		uint64_t v = i == 0 ? value : 256;

		if (bytes)
			put(&w, &v, bytes);
		else
			put_uleb(&w, v);
	}
	put_uleb(&w, 0);
	entry_end(&w);
	/* A relative address can only be told once the place is known. */
	uint8_t *frames = (uint8_t *)(uintptr_t)guarded(w.bytes, w.used);

	if (relative) {
		uint64_t v = value - (uint64_t)(uintptr_t)(frames + at);

		memcpy(frames + at, &v, bytes);
	}
	return section_of(frames, w.used);
}

static void test_encodings_of_addresses(void **state)
{
	uint64_t here = (uint64_t)(uintptr_t)guarded("", 1);
	struct cfi_section s;

	(void)state;
	s = encoded(0x00, CODE, 8, false);
	assert_true(row_at(&s, CODE));
	s = encoded(0x04, CODE, 8, false);
	assert_true(row_at(&s, CODE));
	s = encoded(0x03, CODE, 4, false);
	assert_true(row_at(&s, CODE));
	s = encoded(0x0b, CODE, 4, false);
	assert_true(row_at(&s, CODE));
	s = encoded(0x02, 0x4010, 2, false);
	assert_true(row_at(&s, 0x4010));
	s = encoded(0x01, CODE, 0, false);
	assert_true(row_at(&s, CODE));
	s = encoded(0x10 | 0x0c, CODE, 8, true);
	assert_true(row_at(&s, CODE));
	s = encoded(0x10 | 0x0b, here, 4, true);
	assert_true(row_at(&s, here));
	s = encoded(0x30 | 0x04, CODE, 8, false); /* relative to a header that is not there */
	assert_true(row_at(&s, CODE));
	s = encoded(0x20, CODE, 8, false);
	assert_false(row_at(&s, CODE));
	s = encoded(0xff, CODE, 8, false);
	assert_false(row_at(&s, CODE));
	s = encoded(0x06, CODE, 8, false);
	assert_false(row_at(&s, CODE));
	/* Through a pointer: inside the section, and anywhere else. */
	s = encoded(0x80, 16, 8, false);
	assert_false(row_at(&s, CODE));
	s = encoded(0x80 | 0x10 | 0x0c, here, 8, true);
	assert_false(row_at(&s, CODE));
}

static void test_an_indirect_address(void **state)
{
	(void)state;
	begin();
	put64(&w, CODE);
	size_t cie = cie_begin(&w, "zR");

	PUT(&w, 1, 0x80 | 0x10 | 0x0b);
	PUT(&w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
	entry_end(&w);
	entry_begin(&w);
	put32(&w, (uint32_t)(w.used - cie));
	put32(&w, -(uint32_t)w.used);
	put32(&w, 256);
	put_uleb(&w, 0);
	entry_end(&w);
	const uint8_t *bytes = guarded(w.bytes, w.used);
	struct cfi_section s = section_of(bytes, w.used);

	s.frames = bytes + 8;
	assert_true(row_at(&s, CODE + 255));
	assert_false(row_at(&s, CODE + 256));
}

static void test_augmentations(void **state)
{
	struct cfi_section s;
	size_t cie;

	(void)state;
	begin();
	cie = cie_begin(&w, "zPLRS");
	PUT(&w, 11, 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b, 0x00); /* personality, LSDA, R */
	PUT(&w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
	entry_end(&w);
	entry_begin(&w);
	put32(&w, (uint32_t)(w.used - cie));
	put64(&w, CODE);
	put64(&w, 256);
	put_uleb(&w, 4);
	put32(&w, 0xffffffff); /* LSDA: not a program */
	PUT(&w, 0x0e, 16);
	entry_end(&w);
	s = section_of(guarded(w.bytes, w.used), w.used);
	assert_true(row_at(&s, CODE));
	assert_true(scratch.fde.signal);
	assert_cfa(CFI_RSP, 16);

	/* No augmentation, and GCC 2's. */
	for (int old = 0; old < 2; old++) {
		begin();
		entry_begin(&w);
		put32(&w, 0);
		put8(&w, 1);
		put(&w, old ? "eh" : "", old ? 3 : 1);
		if (old)
			put64(&w, 42);
		PUT(&w, 1, 0x78, CFI_RIP, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
		entry_end(&w);
		entry_begin(&w);
		put32(&w, (uint32_t)w.used);
		put64(&w, CODE);
		put64(&w, 256);
		entry_end(&w);
		s = section_of(guarded(w.bytes, w.used), w.used);
		assert_true(row_at(&s, CODE));
		assert_false(scratch.fde.signal);
	}

	/* Letters nobody knows: skipped after 'z', refused without. */
	begin();
	cie = cie_begin(&w, "zRX");
	PUT(&w, 3, 0x00, 7, 7);
	PUT(&w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
	entry_end(&w);
	fde_begin(&w, cie, CODE, 256);
	entry_end(&w);
	s = section_of(guarded(w.bytes, w.used), w.used);
	assert_true(row_at(&s, CODE));
	begin();
	cie = cie_begin(&w, "X");
	entry_end(&w);
	fde_begin(&w, cie, CODE, 256);
	entry_end(&w);
	s = section_of(guarded(w.bytes, w.used), w.used);
	assert_false(row_at(&s, CODE));
}

static void test_long_entries(void **state)
{
	(void)state;
	begin();
	size_t cie = cie_usual(&w);

	put32(&w, 0xffffffff);
	size_t length = w.used;

	put64(&w, 0);
	put32(&w, (uint32_t)(w.used - cie));
	put64(&w, CODE);
	put64(&w, 256);
	put_uleb(&w, 0);
	PUT(&w, 0x0e, 32);
	uint64_t bytes = w.used - length - 8;

	memcpy(w.bytes + length, &bytes, 8);
	struct cfi_section s = section_of(guarded(w.bytes, w.used), w.used);

	assert_true(row_at(&s, CODE));
	assert_cfa(CFI_RSP, 32);
}

/* --- the header's table ------------------------------------------------------------------ */

#define FDES 5u

/* Header, table and frames in one piece: FDE i covers 64 bytes from header + 0x10000 + 100 i. */
static struct cfi_section with_table(uint8_t table_encoding, uint32_t count, uint64_t *base)
{
	uint32_t offset[FDES];
	size_t table = 12, frames = table + FDES * 8 + 4;

	begin();
	PUT(&w, 1, 0x1b, 0x03, table_encoding); /* pcrel sdata4, udata4 */
	put32(&w, (uint32_t)(frames - 4));
	put32(&w, count);
	w.used = frames;
	size_t cie = cie_begin(&w, "zR");

	PUT(&w, 1, 0x30 | 0x0b);
	PUT(&w, 0x0c, CFI_RSP, 8, 0x80 | CFI_RIP, 1);
	entry_end(&w);
	for (uint32_t i = 0; i < FDES; i++) {
		entry_begin(&w);
		offset[i] = (uint32_t)w.entry;
		put32(&w, (uint32_t)(w.used - cie));
		put32(&w, 0x10000 + 100 * i);
		put32(&w, 64);
		put_uleb(&w, 0);
		PUT(&w, 0x0e, (uint8_t)(16 + 8 * i));
		entry_end(&w);
	}
	put32(&w, 0);
	for (uint32_t i = 0; i < FDES; i++) {
		uint32_t pair[] = {0x10000 + 100 * i, offset[i]};

		memcpy(w.bytes + table + i * 8, pair, 8);
	}
	const uint8_t *bytes = guarded(w.bytes, w.used);
	struct cfi_section s = section_of(bytes, w.used);
	uint64_t at;

	s.header = bytes;
	s.header_end = bytes + frames - 4;
	assert_true(cfi_header_frames(&s, &at));
	assert_int_equal(at, (uintptr_t)bytes + frames);
	s.frames = (const uint8_t *)(uintptr_t)at;
	*base = (uint64_t)(uintptr_t)bytes + 0x10000;
	return s;
}

static void assert_table(const struct cfi_section *s, uint64_t base, uint32_t known)
{
	assert_false(row_at(s, base - 1));
	for (uint32_t i = 0; i < FDES; i++) {
		assert_int_equal(row_at(s, base + 100 * i), i < known);
		if (i >= known)
			continue;
		assert_cfa(CFI_RSP, 16 + 8 * (int64_t)i);
		assert_true(row_at(s, base + 100 * i + 63));
		assert_false(row_at(s, base + 100 * i + 64));
	}
}

static void test_table(void **state)
{
	struct cfi_section s;
	uint64_t base;

	(void)state;
	s = with_table(0x3b, FDES, &base);
	assert_table(&s, base, FDES);
	s = with_table(0x3b, 3, &base);
	assert_table(&s, base, 3);
	/* A count that lies ends with the header. */
	s = with_table(0x3b, 0x7fffffff, &base);
	assert_table(&s, base, FDES);
	/* Tables of other kinds, and none: the frames are looked through. */
	s = with_table(0x33, FDES, &base);
	assert_table(&s, base, FDES);
	s = with_table(0x3b, 0, &base);
	assert_table(&s, base, FDES);
	s.frames = NULL;
	assert_false(row_at(&s, base));
}

/* --- hostile bytes ------------------------------------------------------------------------------ */

static void use_everything(const struct cfi_section *s, uint64_t base)
{
	static const uint16_t places[] = {0, 1, 8, 63, 100, 164, 200, 263, 300, 400, 463, 0xffff};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!row_at(s, base + places[i]))
			continue;
		for (uint32_t reg = 0; reg < CFI_REGISTERS; reg++) {
			struct cfi_value v;

			if (scratch.row.kind[reg] < CFI_EXPRESSION)
				continue;
			machine.symbolic = true;
			cfi_evaluate(&machine, scratch.row.value[reg], NULL, &v);
		}
	}
}

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state % n);
}

/* Whatever the bytes, nothing is read beyond them: an unreadable page follows. */
static void test_hostile_bytes(void **state)
{
	uint64_t base;
	struct cfi_section good = with_table(0x3b, FDES, &base), s = good;
	size_t bytes = (size_t)(good.high - good.low);
	uint8_t *at = (uint8_t *)(uintptr_t)good.low;
	uint8_t keep[FRAME_BYTES];

	(void)state;
	memcpy(keep, at, bytes);
	for (size_t i = 0; i < bytes; i++) {
		static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};

		for (size_t k = 0; k < sizeof(values); k++) {
			at[i] = values[k];
			use_everything(&s, base);
		}
		at[i] = keep[i];
	}
	for (int round = 0; round < 20000; round++) {
		for (uint32_t n = random_below(6) + 1; n > 0; n--)
			at[random_below((uint32_t)bytes)] = (uint8_t)random_below(256);
		use_everything(&s, base);
		if (round % 4 == 0)
			memcpy(at, keep, bytes);
	}
}

static void test_truncated_bytes(void **state)
{
	uint64_t base;
	struct cfi_section good = with_table(0x3b, FDES, &base);
	size_t bytes = (size_t)(good.high - good.low);
	size_t frames = (size_t)(good.frames - good.low);
	size_t header = (size_t)(good.header_end - good.header);

	(void)state;
	for (size_t n = 1; n < bytes; n++) {
		const uint8_t *at = guarded(good.low, n);
		struct cfi_section s = {
			.header = at,
			.header_end = at + (n < header ? n : header),
			.low = at,
			.high = at + n,
			.frames = at + frames,
		};

		use_everything(&s, (uint64_t)(uintptr_t)at + 0x10000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_usual_function),
		cmocka_unit_test(test_every_rule),
		cmocka_unit_test(test_every_advance),
		cmocka_unit_test(test_programs_that_make_no_sense),
		cmocka_unit_test(test_encodings_of_addresses),
		cmocka_unit_test(test_an_indirect_address),
		cmocka_unit_test(test_augmentations),
		cmocka_unit_test(test_long_entries),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_hostile_bytes),
		cmocka_unit_test(test_truncated_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
