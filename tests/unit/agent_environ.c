#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/environ.h"

#define AGENT "/opt/m/libmallograph-agent.so"

/* An environment of the test's own, writable as the kernel's is. */
static char text[16][8192];
static char *array[16];

static void set_environment(const char *const variables[])
{
	size_t n = 0;

	for (; variables[n]; n++) {
		assert_true(strlen(variables[n]) < sizeof(text[n]));
		strcpy(text[n], variables[n]);
		array[n] = text[n];
	}
	array[n] = NULL;
	environ = array;
	for (int which = 0; which < ENVIRON_COUNT; which++)
		environ_set((enum environ_variable)which, NULL);
}

static void assert_environment(char *const envp[], const char *const variables[])
{
	size_t n = 0;

	for (; variables[n]; n++) {
		assert_non_null(envp[n]);
		assert_string_equal(envp[n], variables[n]);
	}
	assert_null(envp[n]);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void test_what_must_come_first_is_seen_in_the_preloads(void **state)
{
	(void)state;
	static const struct {
		const char *variable;
		bool admits;
	} cases[] = {
		{"A=libasan.so.8", true},
		{"LD_PRELOAD=", true},
		{"LD_PRELOAD=/lib/libc.so.6::/lib/libjemalloc.so.2", true},
		{"LD_PRELOAD=/libasan.so/other.so", true},
		{"LD_PRELOAD=libasan.so.8", false},
		{"LD_PRELOAD=/a/x.so: /b/libtsan.so.2", false},
		{"LD_PRELOAD=/b/libclang_rt.asan-x86_64.so /a/x.so", false},
		{"LD_PRELOAD=/b/liblsan.so.0", false},
		{"LD_PRELOAD=/b/libclang_rt.ubsan_standalone-x86_64.so", true},
	};

	assert_true(environ_admits(NULL));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *envp[] = {(char *)cases[i].variable, NULL};

		assert_int_equal(environ_admits(envp), cases[i].admits);
	}
}

static void test_nothing_is_followed_before_a_session(void **state)
{
	(void)state;
	set_environment(LIST("A=1", "LD_PRELOAD=" AGENT, "MALLOGRAPH_SESSION=/s"));
	environ_scrub(AGENT);
	assert_false(environ_differs(environ));
	environ_follow();
	assert_true(environ_differs(environ));
}

static void test_scrub_leaves_the_program_its_own(void **state)
{
	static const struct {
		const char *list;
		const char *left; /* NULL: the variable goes */
	} cases[] = {
		{AGENT, NULL},
		{AGENT ":", ""},
		{AGENT ":/u/a.so", "/u/a.so"},
		{AGENT " /u/a.so:/u/b.so", "/u/a.so:/u/b.so"},
		{"/u/a.so:" AGENT, "/u/a.so"},
		{"/u/a.so " AGENT ":/u/b.so", "/u/a.so /u/b.so"},
		{"/u/a.so", "/u/a.so"},
		{"", ""},
		{"libmallograph-agent.so", NULL},
		{AGENT ":" AGENT, NULL},
		{"/u/not-libmallograph-agent.so", "/u/not-libmallograph-agent.so"},
		{AGENT "/", AGENT "/"},
	};
	char list[256], left[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcat(strcpy(list, "LD_PRELOAD="), cases[i].list);
		set_environment(LIST("A=1", list, "MALLOGRAPH_SESSION=/s", "MALLOGRAPH_OUT=/o",
				     "MALLOGRAPH_LOG=x", "Z="));
		environ_scrub(AGENT);
		strcat(strcpy(left, "LD_PRELOAD="), cases[i].left ? cases[i].left : "");
		if (cases[i].left)
			assert_environment(environ, LIST("A=1", left, "MALLOGRAPH_LOG=x", "Z="));
		else
			assert_environment(environ, LIST("A=1", "MALLOGRAPH_LOG=x", "Z="));
		assert_string_equal(environ_value(ENVIRON_SESSION), "/s");
		assert_string_equal(environ_value(ENVIRON_OUT), "/o");
		assert_string_equal(environ_value(ENVIRON_PRELOAD), AGENT);
	}
}

static void test_a_value_too_long_is_not_kept(void **state)
{
	static char variable[8000] = "MALLOGRAPH_SESSION=/";

	(void)state;
	memset(variable + strlen(variable), 'x', sizeof(variable) - strlen(variable) - 1);
	set_environment(LIST(variable, "LD_PRELOAD=" AGENT));
	environ_scrub(AGENT);
	assert_environment(environ, LIST());
	assert_null(environ_value(ENVIRON_SESSION));
	assert_false(environ_set(ENVIRON_OUT, variable));
	assert_null(environ_value(ENVIRON_OUT));
}

/* What the next program's own scrub makes of it is what this one gave. */
static void assert_round_trip(const char *const variables[])
{
	enum mgl_how how = MGL_HOW_ROOT;
	uint32_t serial = 0;
	size_t bytes;
	char **made, *memory;

	set_environment(LIST("LD_PRELOAD=" AGENT, "MALLOGRAPH_SESSION=/s"));
	environ_scrub(AGENT);
	bytes = environ_bytes((char *const *)variables);
	memory = malloc(bytes + 16);
	memset(memory, 0x5a, bytes + 16);
	made = environ_inject((char *const *)variables, memory, MGL_HOW_VFORK, UINT32_MAX);
	for (size_t i = bytes; i < bytes + 16; i++)
		assert_int_equal(memory[i], 0x5a);
	set_environment((const char *const *)made);
	environ_scrub(AGENT);
	assert_environment(environ, variables);
	assert_string_equal(environ_value(ENVIRON_SESSION), "/s");
	assert_null(environ_value(ENVIRON_OUT));
	environ_origin(&how, &serial);
	assert_int_equal(how, MGL_HOW_VFORK);
	assert_int_equal(serial, UINT32_MAX);
	free(memory);
}

static void test_inject_and_scrub_cancel_out(void **state)
{
	(void)state;
	assert_round_trip(LIST());
	assert_round_trip(LIST("A=1", "B=2"));
	assert_round_trip(LIST("LD_PRELOAD=/u/a.so", "A=1"));
	assert_round_trip(LIST("A=1", "LD_PRELOAD="));
	assert_round_trip(LIST("LD_PRELOAD=/u/a.so", "LD_PRELOAD=/u/b.so /u/c.so"));
	assert_round_trip(LIST("no equals sign", "=x", ""));
}

static void test_inject_takes_no_environment_for_an_empty_one(void **state)
{
	char memory[1024];

	(void)state;
	set_environment(LIST("LD_PRELOAD=" AGENT, "MALLOGRAPH_OUT=/o"));
	environ_scrub(AGENT);
	assert_true(environ_differs(NULL));
	assert_true(environ_bytes(NULL) <= sizeof(memory));
	assert_environment(environ_inject(NULL, memory, MGL_HOW_SPAWN, 0),
			   LIST("MALLOGRAPH_FROM=s0", "MALLOGRAPH_OUT=/o", "LD_PRELOAD=" AGENT));
}

static void test_where_a_program_came_from_may_be_nonsense(void **state)
{
	static const char *const values[] = {"",     "v",   "x1",          "17",
					     "v17x", "v-1", "v4294967296", "e99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		enum mgl_how how = MGL_HOW_ROOT;
		uint32_t serial = 7;

		assert_true(environ_set(ENVIRON_FROM, values[i]));
		environ_origin(&how, &serial);
		if (strcmp(values[i], "v") == 0) {
			assert_int_equal(serial, 0);
		} else {
			assert_int_equal(how, MGL_HOW_ROOT);
			assert_int_equal(serial, 7);
		}
		assert_null(environ_value(ENVIRON_FROM));
	}
}

static void test_a_session_the_program_names_is_left_alone(void **state)
{
	(void)state;
	set_environment(LIST("LD_PRELOAD=" AGENT, "MALLOGRAPH_SESSION=/s"));
	environ_scrub(AGENT);
	assert_false(environ_differs((char *const *)LIST("MALLOGRAPH_OUT=/theirs")));
	assert_true(environ_differs((char *const *)LIST("MALLOGRAPH_LOG=x")));
}

static void test_what_the_loader_only_lists_is_not_followed(void **state)
{
	(void)state;
	set_environment(LIST("LD_PRELOAD=" AGENT, "MALLOGRAPH_SESSION=/s"));
	environ_scrub(AGENT);
	assert_false(environ_differs((char *const *)LIST("A=b", "LD_TRACE_LOADED_OBJECTS=1")));
	assert_false(environ_differs((char *const *)LIST("LD_TRACE_LOADED_OBJECTS=")));
	assert_true(environ_differs((char *const *)LIST("LD_TRACE_LOADED_OBJECT=1")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_followed_before_a_session),
		cmocka_unit_test(test_what_must_come_first_is_seen_in_the_preloads),
		cmocka_unit_test(test_scrub_leaves_the_program_its_own),
		cmocka_unit_test(test_a_value_too_long_is_not_kept),
		cmocka_unit_test(test_inject_and_scrub_cancel_out),
		cmocka_unit_test(test_inject_takes_no_environment_for_an_empty_one),
		cmocka_unit_test(test_where_a_program_came_from_may_be_nonsense),
		cmocka_unit_test(test_a_session_the_program_names_is_left_alone),
		cmocka_unit_test(test_what_the_loader_only_lists_is_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
