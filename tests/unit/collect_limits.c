#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/limits.h"

static char root[] = "/tmp/limits-XXXXXX";

static void put(const char *directory, const char *name, const char *value)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", root, directory);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(path, 0700);
	}
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", root, directory, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(value, file);
	fclose(file);
}

static int make_hierarchies(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	put("a", "memory.max", "1000\n");
	put("a", "memory.current", "400\n");
	put("a/b", "memory.max", "max\n");
	put("a/b", "memory.current", "5\n");
	put("full", "memory.max", "10\n");
	put("full", "memory.current", "12\n");
	put("odd", "memory.max", "what\n");
	put("odd", "memory.current", "1\n");
	put("memory/one", "memory.limit_in_bytes", "300\n");
	put("memory/one", "memory.usage_in_bytes", "100\n");
	put("memory", "memory.limit_in_bytes", "9223372036854771712\n");
	put("memory", "memory.usage_in_bytes", "100\n");
	return 0;
}

static int remove_hierarchies(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void the_least_of_all_above(void **state)
{
	(void)state;
	assert_int_equal(collect_limits_cgroup("0::/a\n", root), 600);
	assert_int_equal(collect_limits_cgroup("0::/a/b\n", root), 600);
	assert_int_equal(collect_limits_cgroup("0::/full\n", root), 0);
}

static void the_first_version_too(void **state)
{
	(void)state;
	assert_int_equal(collect_limits_cgroup("7:memory:/one\n", root), 200);
	assert_int_equal(collect_limits_cgroup("7:cpu,memory:/one\n1:name=x:/\n", root), 200);
	assert_int_equal(collect_limits_cgroup("4:memory:/one\n0::/a/b\n", root), 200);
}

static void what_cannot_be_read_does_not_limit(void **state)
{
	static const char *const memberships[] = {
		"",
		"\n",
		"0",
		"0:",
		"0::",
		"0::/none\n",
		"0::/odd",
		"5:memory,cpu",
		"5:cpu:/one\n",
		"5:memorys:/one\n",
		":::",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(memberships) / sizeof(*memberships); i++)
		assert_true(collect_limits_cgroup(memberships[i], root) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_of_all_above),
		cmocka_unit_test(the_first_version_too),
		cmocka_unit_test(what_cannot_be_read_does_not_limit),
	};

	return cmocka_run_group_tests(tests, make_hierarchies, remove_hierarchies);
}
