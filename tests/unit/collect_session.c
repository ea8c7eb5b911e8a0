/* What the collector populates ahead of the processes, in a file in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/session.h"

#define UNITS 64u

/* Bytes populated once so many units are taken, of which that much is in use. */
static uint64_t populated_ahead(uint64_t units, uint64_t bytes)
{
	struct mgl_session head = {
		.magic = MGL_SESSION_MAGIC,
		.next_unit = units,
		.populated_bytes = bytes,
	};
	struct collect_session session = COLLECT_SESSION_CLOSED;
	struct stat status;

	session.fd = memfd_create("session", MFD_CLOEXEC);
	session.path = "session";
	session.file_bytes = session.max_bytes = UNITS * MGL_UNIT_BYTES;
	assert_true(session.fd >= 0);
	assert_int_equal(ftruncate(session.fd, (off_t)session.file_bytes), 0);
	assert_int_equal(pwrite(session.fd, &head, sizeof(head), 0), sizeof(head));
	assert_true(collect_session_tend(&session));
	assert_int_equal(fstat(session.fd, &status), 0);
	close(session.fd);
	return (uint64_t)status.st_blocks * 512 - MGL_PAGE;
}

static void ahead_of_who_fills_what_he_takes(void **state)
{
	(void)state;
	assert_int_equal(populated_ahead(16, 10 * MGL_UNIT_BYTES), 2 * MGL_UNIT_BYTES);
}

static void not_for_many_small_processes(void **state)
{
	(void)state;
	assert_int_equal(populated_ahead(16, 8 * 3 * MGL_PAGE), 0);
}

static void not_for_a_small_program(void **state)
{
	(void)state;
	assert_int_equal(populated_ahead(3, 3 * MGL_UNIT_BYTES), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ahead_of_who_fills_what_he_takes),
		cmocka_unit_test(not_for_many_small_processes),
		cmocka_unit_test(not_for_a_small_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
