/* Perf maps and jitdump files, true and false ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbols/jit.h"

typedef struct error *read_file(struct symbols_jit *jit, int fd);

static struct symbols_jit add(const uint64_t *pcs, size_t count)
{
	struct symbols_jit jit = SYMBOLS_JIT_EMPTY;

	for (size_t i = 0; i < count; i++)
		assert_null(symbols_jit_add(&jit, pcs[i]));
	return jit;
}

static void read_bytes(struct symbols_jit *jit, read_file *reader, const void *bytes, size_t count)
{
	int fd = memfd_create("jit", 0);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(reader(jit, fd));
	close(fd);
}

static void assert_pc(const struct symbols_jit *jit, uint64_t address, const char *function,
		      const char *file, uint32_t line)
{
	const struct symbols_jit_pc *pc = symbols_jit_find(jit, address);

	assert_non_null(pc);
	if (function)
		assert_string_equal(symbols_jit_text(jit, pc->function), function);
	else
		assert_int_equal(pc->function, 0);
	if (file)
		assert_string_equal(symbols_jit_text(jit, pc->file), file);
	else
		assert_int_equal(pc->file, 0);
	assert_int_equal(pc->line, line);
}

static void test_map(void **state)
{
	static const uint64_t pcs[] = {0x2fff, 0x1000, 0x10ff, 0x1100, 0x0fff, 0x2000,    0x4000,
				       0x5000, 0x6000, 0x7000, 0x8000, 0x9000, UINT64_MAX};
	static const char text[] =
		"1000 100 first\n"
		"2000 1000 was there\n"
		"not a line\n"
		"\n"
		"4000\n"
		"4000 10\n"
		"2000 10 came later\n"
		"0x5000 0x10 JS:*sort /srv/my table.js:20:17\n"
		"6000 10 LazyCompile:~get size file:///srv/x.mjs:3:9\n"
		"7000 10 operator() (a:1:2)\n"
		"8000 10 LazyCompile:~Module.load node:internal/modules/cjs/loader:1190\n"
		"9000 10 block in each:3\n"
		"ffffffffffffffff 10 the end\n"
		"123456789abcdef01 10 too long a number\n"
		"fff 1 cut sho"; /* no newline: its writer was killed, or wrote it so */
	struct symbols_jit jit = add(pcs, sizeof(pcs) / sizeof(*pcs));

	(void)state;
	read_bytes(&jit, symbols_jit_read_map, text, sizeof(text) - 1);
	assert_pc(&jit, 0x1000, "first", NULL, 0);
	assert_pc(&jit, 0x10ff, "first", NULL, 0);
	assert_pc(&jit, 0x1100, NULL, NULL, 0);
	assert_pc(&jit, 0x0fff, NULL, NULL, 0);
	assert_pc(&jit, 0x2000, "came later", NULL, 0);
	assert_pc(&jit, 0x2fff, "was there", NULL, 0);
	assert_pc(&jit, 0x4000, NULL, NULL, 0);
	assert_pc(&jit, 0x5000, "JS:*sort", "/srv/my table.js", 20);
	assert_pc(&jit, 0x6000, "LazyCompile:~get size", "file:///srv/x.mjs", 3);
	assert_pc(&jit, 0x7000, "operator() (a:1:2)", NULL, 0);
	assert_pc(&jit, 0x8000, "LazyCompile:~Module.load", "node:internal/modules/cjs/loader",
		  1190);
	assert_pc(&jit, 0x9000, "block in each:3", NULL, 0);
	assert_pc(&jit, UINT64_MAX, "the end", NULL, 0);
	assert_null(symbols_jit_find(&jit, 0x3000));
	assert_int_equal(jit.named, 10);
	symbols_jit_free(&jit);
}

/* Lines longer than what is read at a time, and than a name may be. */
static void test_long_lines(void **state)
{
	static const uint64_t pcs[] = {0x1000, 0x2000, 0x3000};
	const size_t lengths[] = {SYMBOLS_JIT_NAME - 1, 65536, 200000};
	struct symbols_jit jit = add(pcs, 3);
	struct strbuf text = STRBUF_EMPTY;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		strbuf_printf(&text, "%x 10 ", 0x1000 * (i + 1));
		strbuf_fill(&text, (char)('a' + i), lengths[i]);
		strbuf_append_char(&text, '\n');
	}
	read_bytes(&jit, symbols_jit_read_map, text.text, text.length);
	for (unsigned int i = 0; i < 3; i++) {
		const struct symbols_jit_pc *pc = symbols_jit_find(&jit, 0x1000 * (i + 1));
		const char *name = symbols_jit_text(&jit, pc->function);

		assert_non_null(name);
		assert_int_equal(name[0], 'a' + i);
		assert_int_equal(strspn(name, (char[]){(char)('a' + i), '\0'}), strlen(name));
		assert_true(strlen(name) <= SYMBOLS_JIT_NAME);
		assert_true(strlen(name) >= SYMBOLS_JIT_NAME - 1);
	}
	strbuf_free(&text);
	symbols_jit_free(&jit);
}

/* --- jitdump ------------------------------------------------------------------------- */

static void put32(struct strbuf *out, uint32_t value)
{
	strbuf_append_bytes(out, &value, sizeof(value));
}

static void put64(struct strbuf *out, uint64_t value)
{
	strbuf_append_bytes(out, &value, sizeof(value));
}

static void put_head(struct strbuf *out)
{
	put32(out, 0x4A695444);
	put32(out, 1);
	put32(out, 40);
	put32(out, 62 /* EM_X86_64 */);
	put32(out, 0);
	put32(out, 4711);
	put64(out, 1);
	put64(out, 0);
}

static void put_record(struct strbuf *out, uint32_t id, const struct strbuf *content)
{
	put32(out, id);
	put32(out, (uint32_t)(16 + content->length));
	put64(out, 2);
	strbuf_append_bytes(out, content->text, content->length);
}

static void put_load(struct strbuf *out, uint64_t address, uint64_t size, uint64_t index,
		     const char *name)
{
	struct strbuf content = STRBUF_EMPTY;

	put32(&content, 4711);
	put32(&content, 4712);
	put64(&content, address);
	put64(&content, address);
	put64(&content, size);
	put64(&content, index);
	strbuf_append_bytes(&content, name, strlen(name) + 1);
	strbuf_fill(&content, '\x90', size < 100 ? size : 100);
	put_record(out, 0, &content);
	strbuf_free(&content);
}

static void put_move(struct strbuf *out, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	struct strbuf content = STRBUF_EMPTY;

	put32(&content, 4711);
	put32(&content, 4712);
	put64(&content, to);
	put64(&content, from);
	put64(&content, to);
	put64(&content, size);
	put64(&content, index);
	put_record(out, 1, &content);
	strbuf_free(&content);
}

struct entry {
	uint64_t address;
	uint32_t line;
	const char *file;
};

static void put_lines(struct strbuf *out, const struct entry *entries, size_t count)
{
	struct strbuf content = STRBUF_EMPTY;

	put64(&content, entries[0].address);
	put64(&content, count);
	for (size_t i = 0; i < count; i++) {
		put64(&content, entries[i].address);
		put32(&content, entries[i].line);
		put32(&content, 0);
		strbuf_append_bytes(&content, entries[i].file, strlen(entries[i].file) + 1);
	}
	put_record(out, 2, &content);
	strbuf_free(&content);
}

static const uint64_t dump_pcs[] = {0x1000, 0x1010, 0x1020, 0x2000, 0x3004, 0x4000, 0x5000, 0x6008};

static void put_dump(struct strbuf *out)
{
	static const struct entry lines[] = {
		{0x1000, 10, "/srv/a.js"}, {0x1010, 11, "\xff"}, {0x1018, 12, "/srv/b.js"}};
	static const struct entry bad[] = {{0x3000, 7, "/srv/c.js"}, {0x3002, 8, "j\x1d\x02"}};
	struct strbuf unknown = STRBUF_EMPTY;

	put_head(out);
	put_lines(out, lines, 3);
	put_load(out, 0x1000, 0x100, 1, "JS:*first /srv/a.js:9:1");
	put_load(out, 0x2000, 0x100, 2, "no lines");
	put_lines(out, bad, 2);
	put_load(out, 0x3000, 0x100, 3, "bad lines");
	put_load(out, 0x4000, 0x100, 4, "stays");
	strbuf_append(&unknown, "what a later version says");
	put_record(out, 99, &unknown);
	put_load(out, 0x9000, 0x100, 5, "moves");
	put_move(out, 0x9000, 0x6000, 0x100, 5);
	strbuf_free(&unknown);
}

static void test_dump(void **state)
{
	struct symbols_jit jit = add(dump_pcs, sizeof(dump_pcs) / sizeof(*dump_pcs));
	struct strbuf dump = STRBUF_EMPTY;

	(void)state;
	put_dump(&dump);
	read_bytes(&jit, symbols_jit_read_dump, dump.text, dump.length);
	assert_pc(&jit, 0x1000, "JS:*first", "/srv/a.js", 10);
	assert_pc(&jit, 0x1010, "JS:*first", "/srv/a.js", 11);
	assert_pc(&jit, 0x1020, "JS:*first", "/srv/b.js", 12);
	assert_pc(&jit, 0x2000, "no lines", NULL, 0);
	assert_pc(&jit, 0x3004, "bad lines", "/srv/c.js", 7);
	assert_pc(&jit, 0x4000, "stays", NULL, 0);
	assert_pc(&jit, 0x5000, NULL, NULL, 0);
	assert_pc(&jit, 0x6008, "moves", NULL, 0);
	symbols_jit_free(&jit);
	strbuf_free(&dump);
}

/* Cut short anywhere: what stands before is named, and nothing is read beyond. */
static void test_truncated(void **state)
{
	struct strbuf dump = STRBUF_EMPTY;
	size_t before = 0;

	(void)state;
	put_dump(&dump);
	for (size_t length = 0; length <= dump.length; length++) {
		struct symbols_jit jit = add(dump_pcs, sizeof(dump_pcs) / sizeof(*dump_pcs));

		read_bytes(&jit, symbols_jit_read_dump, dump.text, length);
		assert_true(jit.named >= before);
		before = jit.named;
		symbols_jit_free(&jit);
	}
	assert_int_equal(before, 7);
	strbuf_free(&dump);
}

/* Any bytes at any place, for the sanitizers to judge. */
static void test_damaged(void **state)
{
	static const uint64_t values[] = {
		0,         1, 15, 16, 0xff, 0x7fffffff, UINT32_MAX, UINT64_MAX, UINT64_MAX - 15,
		1ull << 63};
	struct strbuf dump = STRBUF_EMPTY;

	(void)state;
	put_dump(&dump);
	for (size_t at = 0; at + 8 <= dump.length; at += 4) {
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			struct symbols_jit jit =
				add(dump_pcs, sizeof(dump_pcs) / sizeof(*dump_pcs));
			char saved[8];

			memcpy(saved, dump.text + at, 8);
			memcpy(dump.text + at, &values[i], i < 7 ? 4 : 8);
			read_bytes(&jit, symbols_jit_read_dump, dump.text, dump.length);
			symbols_jit_sort(&jit);
			for (size_t j = 0; j < jit.pcs.count; j++) {
				const char *name =
					symbols_jit_text(&jit, jit.pcs.items[j].function);

				assert_true(!name || strlen(name) <= SYMBOLS_JIT_NAME);
			}
			memcpy(dump.text + at, saved, 8);
			symbols_jit_free(&jit);
		}
	}
	strbuf_free(&dump);
}

/* A file that would take for ever: each line names every address. */
static void test_work_is_bounded(void **state)
{
	struct symbols_jit jit = SYMBOLS_JIT_EMPTY;
	struct strbuf text = STRBUF_EMPTY;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++)
		assert_null(symbols_jit_add(&jit, 0x1000 + i));
	for (unsigned int i = 0; i < 100000; i++)
		strbuf_printf(&text, "0 ffffffffffffffff f%u\n", i);
	read_bytes(&jit, symbols_jit_read_map, text.text, text.length);
	assert_true(jit.work <= SYMBOLS_JIT_WORK + 100000);
	assert_int_equal(jit.named, 20000);
	strbuf_free(&text);
	symbols_jit_free(&jit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),     cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_dump),    cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_work_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
