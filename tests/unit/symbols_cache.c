#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "symbols/cache.h"

static char directory[] = "/tmp/mallograph-cache-XXXXXX";

#define FILES 10u
#define KIB   ((size_t)1024)

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(directory);
}

static const char *name_of(unsigned number)
{
	static char name[32];

	snprintf(name, sizeof(name), "%u.symbols", number);
	return name;
}

/* The higher its number, the longer ago was it used. */
static void make_file(int parent, unsigned number)
{
	char bytes[64 * KIB];
	CLEANUP_FD int fd = openat(parent, name_of(number), O_CREAT | O_WRONLY, 0600);
	struct timespec times[2] = {{.tv_sec = time(NULL) - 1000 * (time_t)number}};

	memset(bytes, (int)number, sizeof(bytes));
	times[1] = times[0];
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(futimens(fd, times), 0);
}

static unsigned left(int parent)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < FILES; i++)
		bits |= (unsigned)(faccessat(parent, name_of(i), F_OK, 0) == 0) << i;
	return bits;
}

static void what_was_not_used_goes_first(void **state)
{
	struct symbols_cache cache = SYMBOLS_CACHE_NONE;

	(void)state;
	symbols_cache_trim(&cache, 0); /* there is none */
	cache.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < FILES; i++)
		make_file(cache.fd, i);

	/* Enough room: nothing goes. */
	symbols_cache_trim(&cache, FILES * 64 * KIB);
	assert_int_equal(left(cache.fd), 0x3ff);
	/* Three quarters of what is allowed stay. */
	symbols_cache_trim(&cache, 8 * 64 * KIB);
	assert_int_equal(left(cache.fd), 0x03f);
	symbols_cache_trim(&cache, 8 * 64 * KIB);
	assert_int_equal(left(cache.fd), 0x03f);
	symbols_cache_trim(&cache, 0);
	assert_int_equal(left(cache.fd), 0);
	symbols_cache_close(&cache);
	assert_int_equal(cache.fd, -1);
}

static const struct symbols_verdict verdict = {
	.level = SYMBOLS_FULL, .reason = "a reason", .build_id = "beef"};

/* A file of as many addresses, each with a name of so many bytes; what came of it. */
static struct error *encode(unsigned addresses, size_t name_bytes, struct strbuf *ret)
{
	struct symbols_cache_writer writer = {0};
	struct strbuf key = STRBUF_EMPTY;
	struct error *error = NULL;
	char *name = calloc(1, name_bytes + 1);

	assert_non_null(name);
	strbuf_append(&key, "key");
	memset(name, 'n', name_bytes);
	for (unsigned i = 0; i < addresses && !error; i++) {
		struct symbols_frame frames[] = {
			{.function = name, .line = i, .column = INT32_MAX, .inlined = true},
			{.file = "file", .line = UINT32_MAX},
		};

		snprintf(name, name_bytes + 1, "%0*u", (int)name_bytes, i);
		error = symbols_cache_write_address(&writer, i * 2, frames, i % 3);
	}
	if (!error)
		error = symbols_cache_write_end(&writer, &verdict, &key, &key, ret);
	symbols_cache_writer_free(&writer);
	strbuf_free(&key);
	free(name);
	return error;
}

static void what_is_written_is_read(void **state)
{
	struct symbols_cached cached = {.bytes = STRBUF_EMPTY};

	(void)state;
	assert_null(encode(100, 20, &cached.bytes));
	assert_true(symbols_cached_decode(&cached));
	assert_int_equal(cached.verdict.level, SYMBOLS_FULL);
	assert_string_equal(cached.verdict.reason, "a reason");
	assert_null(cached.verdict.debug_file);
	assert_string_equal(cached.verdict.build_id, "beef");
	assert_int_equal(cached.address_count, 100);

	struct symbols_cached_address address = symbols_cached_address(&cached, 5);
	struct symbols_frame frame = symbols_cached_frame(&cached, address.first);

	assert_int_equal(address.pc, 10);
	assert_int_equal(address.count, 2);
	assert_string_equal(frame.function, "00000000000000000005");
	assert_null(frame.file);
	assert_int_equal(frame.line, 5);
	assert_int_equal(frame.column, INT32_MAX);
	assert_true(frame.inlined);
	frame = symbols_cached_frame(&cached, address.first + 1);
	assert_null(frame.function);
	assert_string_equal(frame.file, "file");
	assert_int_equal(frame.line, UINT32_MAX);
	assert_int_equal(frame.column, 0);
	assert_false(frame.inlined);
	symbols_cached_free(&cached);
}

/* None of it may be read as another file than was written. */
static void every_byte_counts(void **state)
{
	struct symbols_cached whole = {.bytes = STRBUF_EMPTY};

	(void)state;
	assert_null(encode(10, 5, &whole.bytes));
	for (size_t i = 0; i <= whole.bytes.length; i++) {
		struct symbols_cached damaged = {.bytes = STRBUF_EMPTY};

		strbuf_append_bytes(&damaged.bytes, whole.bytes.text, whole.bytes.length);
		if (i < whole.bytes.length)
			damaged.bytes.text[i] ^= 0x10;
		assert_int_equal(symbols_cached_decode(&damaged), i == whole.bytes.length);
		damaged.bytes.length = i;
		assert_int_equal(symbols_cached_decode(&damaged), i == whole.bytes.length);
		symbols_cached_free(&damaged);
	}
	symbols_cached_free(&whole);
}

static void too_much_is_refused(void **state)
{
	struct strbuf bytes = STRBUF_EMPTY;
	struct error *error = encode(20000, 2000, &bytes);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, ERROR_REFUSED);
	assert_true(bytes.length < SYMBOLS_CACHE_FILE_BYTES);
	error_free(error);
	strbuf_free(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_not_used_goes_first, make_directory,
						remove_directory),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(too_much_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
