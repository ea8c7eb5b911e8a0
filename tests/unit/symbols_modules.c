#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "symbols/symbols.h"

static char directory[] = "/tmp/mallograph-symbols-XXXXXX";

static const char *in_directory(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const void *bytes, size_t count)
{
	CLEANUP_FD int fd = open(in_directory(name), O_CREAT | O_WRONLY | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	unlink(in_directory("empty"));
	unlink(in_directory("text"));
	unlink(in_directory("magic"));
	unlink(in_directory("fifo"));
	return rmdir(directory);
}

static uint64_t own_base(void)
{
	extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

	return (uintptr_t)&__ehdr_start;
}

static __attribute__((noinline)) int found_by_name(int x) { return x + 1; }

static uint64_t own_offset(void) { return (uintptr_t)found_by_name - own_base(); }

/* What a file without symbols gives: no frames, and this as (a part of) the reason. */
static void expect_none(const char *path, const char *reason)
{
	struct symbols *symbols;
	struct symbols_module *module;
	size_t count;

	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_module_add(symbols, path, NULL, 0, &module));
	assert_int_equal(symbols_module_verdict(module).level, SYMBOLS_PENDING);
	assert_null(symbols_address_add(module, 0x1000, false));
	assert_null(symbols_resolve(symbols));
	assert_int_equal(symbols_module_verdict(module).level, SYMBOLS_NONE);
	if (!strstr(symbols_module_verdict(module).reason, reason))
		fail_msg("%s: %s", path, symbols_module_verdict(module).reason);
	assert_null(symbols_frames(module, 0x1000, false, &count));
	assert_int_equal(count, 0);
	symbols_free(symbols);
}

static void files_that_are_none(void **state)
{
	(void)state;
	write_file("empty", "", 0);
	write_file("text", "#!/bin/sh\n", 10);
	write_file("magic", "\177ELF\2\1\1", 7);
	assert_int_equal(mkfifo(in_directory("fifo"), 0600), 0);

	expect_none("", "it has no file");
	expect_none("[vdso]", "it has no file");
	expect_none("/nonexistent/lib.so", "No such file");
	expect_none("/nonexistent/lib.so (deleted)", "deleted or replaced");
	expect_none("/", "not a regular file");
	expect_none(in_directory("fifo"), "not a regular file");
	expect_none(in_directory("empty"), "not a usable ELF file");
	expect_none(in_directory("text"), "not a usable ELF file");
	expect_none(in_directory("magic"), "not a usable ELF file");
}

static void build_ids_in_hexadecimal(void **state)
{
	uint8_t bytes[3] = {0};

	(void)state;
	assert_int_equal(symbols_parse_build_id("0aFf", bytes, 3), 2);
	assert_memory_equal(bytes, "\x0a\xff", 2);
	assert_int_equal(symbols_parse_build_id("12345678", bytes, 3), 3);
	assert_int_equal(symbols_parse_build_id("123", bytes, 3), 1);
	assert_int_equal(symbols_parse_build_id("1x34", bytes, 3), 0);
	assert_int_equal(symbols_parse_build_id("", bytes, 3), 0);
	assert_int_equal(symbols_parse_build_id(NULL, bytes, 3), 0);
}

static void expect_found(const struct symbols_module *module)
{
	size_t count;
	const struct symbols_frame *frames = symbols_frames(module, own_offset(), true, &count);

	assert_int_equal(count, 1);
	assert_string_equal(frames[0].function, "found_by_name");
	assert_string_equal(strrchr(frames[0].file, '/'), "/symbols_modules.c");
	assert_true(frames[0].line > 0);
	assert_false(frames[0].inlined);
}

static void more_can_be_added_later(void **state)
{
	struct symbols *symbols;
	struct symbols_module *module, *late;
	size_t count;

	(void)state;
	assert_int_equal(found_by_name(1), 2);
	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_resolve(symbols));
	assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &module));
	assert_null(symbols_resolve(symbols)); /* its verdict alone */
	assert_int_equal(symbols_module_verdict(module).level, SYMBOLS_FULL);
	assert_null(symbols_frames(module, own_offset(), true, &count));

	for (int i = 0; i < 3; i++)
		assert_null(symbols_address_add(module, own_offset(), true));
	assert_null(symbols_resolve(symbols));
	expect_found(module);

	const char *function = symbols_frames(module, own_offset(), true, &count)->function;

	/* The byte after one is a return address into it; one before it is another's. */
	assert_null(symbols_address_add(module, own_offset() + 1, false));
	assert_null(symbols_address_add(module, own_offset(), false));
	assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &late));
	assert_null(symbols_address_add(late, own_offset(), true));
	assert_null(symbols_resolve(symbols));
	expect_found(module);
	expect_found(late);
	assert_ptr_equal(symbols_frames(module, own_offset() + 1, false, &count)->function,
			 function);
	const struct symbols_frame *before = symbols_frames(module, own_offset(), false, &count);

	assert_true(!before || !before->function || before->function != function);
	assert_null(symbols_resolve(symbols)); /* nothing new */
	symbols_free(symbols);
}

static bool has_child(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void reading_may_go_on_meanwhile(void **state)
{
	struct symbols *symbols;
	struct symbols_module *module;

	(void)state;
	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_start(symbols)); /* nothing to read */
	assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &module));
	assert_null(symbols_address_add(module, own_offset(), true));
	assert_null(symbols_start(symbols));
	assert_true(has_child()); /* which is at it, or has been */
	assert_int_equal(symbols_module_verdict(module).level, SYMBOLS_PENDING);
	assert_null(symbols_resolve(symbols));
	expect_found(module);
	assert_false(has_child());
	symbols_free(symbols);

	/* Nobody waits for it. */
	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &module));
	assert_null(symbols_start(symbols));
	symbols_free(symbols);
	assert_false(has_child());
}

/* Offset 0 as a return address has no call before it. */
static void the_edges_of_the_address_space(void **state)
{
	struct symbols *symbols;
	struct symbols_module *module;
	const uint64_t offsets[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, INT64_MAX};
	size_t count;

	(void)state;
	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &module));
	for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		assert_null(symbols_address_add(module, offsets[i], true));
		assert_null(symbols_address_add(module, offsets[i], false));
	}
	assert_null(symbols_resolve(symbols));
	for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++)
		assert_null(symbols_frames(module, offsets[i], true, &count));
	symbols_free(symbols);
}

static void a_build_id_must_be_the_recorded_one(void **state)
{
	struct symbols *symbols;
	struct symbols_module *module;
	size_t count;

	(void)state;
	assert_null(symbols_create(NULL, &symbols));
	assert_null(symbols_module_add(symbols, "/proc/self/exe", "\1\2\3\4", 4, &module));
	assert_null(symbols_address_add(module, own_offset(), true));
	assert_null(symbols_resolve(symbols));
	assert_int_equal(symbols_module_verdict(module).level, SYMBOLS_NONE);
	assert_non_null(
		strstr(symbols_module_verdict(module).reason, "build-id 01020304 was recorded"));
	assert_null(symbols_frames(module, own_offset(), true, &count));
	symbols_free(symbols);
}

/* Nothing of the process's own is touched: descriptors, children, signal dispositions. */
static void readers_leave_no_trace(void **state)
{
	struct symbols *symbols;
	struct symbols_module *module;
	int lowest = dup(STDIN_FILENO);

	(void)state;
	close(lowest);
	assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR); /* children are reaped unseen */
	assert_null(symbols_create(&(struct symbols_options){.workers = 4}, &symbols));
	for (int i = 0; i < 8; i++) {
		assert_null(symbols_module_add(symbols, "/proc/self/exe", NULL, 0, &module));
		assert_null(symbols_address_add(module, own_offset(), true));
	}
	assert_null(symbols_resolve(symbols));
	expect_found(module);
	symbols_free(symbols);
	signal(SIGCHLD, SIG_DFL);
	assert_int_equal(dup(STDIN_FILENO), lowest);
	close(lowest);
	assert_false(has_child());
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_ids_in_hexadecimal),
		cmocka_unit_test(files_that_are_none),
		cmocka_unit_test(more_can_be_added_later),
		cmocka_unit_test(reading_may_go_on_meanwhile),
		cmocka_unit_test(the_edges_of_the_address_space),
		cmocka_unit_test(a_build_id_must_be_the_recorded_one),
		cmocka_unit_test(readers_leave_no_trace),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
