/* Which programs a choice admits, against the C library's own patterns. */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/choice.h"

/* Its head and control page; what stands in it is read again by every test. */
static _Alignas(4096) char head[MGL_HEAD_BYTES];

static bool matches(const char *pattern, const char *text)
{
	return choice_matches(pattern, strlen(pattern), text);
}

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
	} all[] = {
		{"", ""},           {"", "a"},
		{"*", ""},          {"*", "a"},
		{"a*", "a"},        {"a*c", "abbc"},
		{"a*c*", "abcb"},   {"*a*b*", "xxaxxbxx"},
		{"?", ""},          {"?", "x"},
		{"a?c", "abc"},     {"[abc]x", "bx"},
		{"[a-c]x", "dx"},   {"[!a-c]x", "dx"},
		{"[]a]", "]"},      {"[]a]", "a"},
		{"[", "["},         {"[a", "[a"},
		{"\\*", "*"},       {"\\*", "a"},
		{"[a-]", "-"},      {"cc1*", "cc1plus"},
		{"*.so", "a.so.1"}, {"*/bin/*", "/usr/bin/x"},
		{"[^a]", "b"},      {"a**b", "ab"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (matches(all[i].pattern, all[i].text) !=
		    (fnmatch(all[i].pattern, all[i].text, 0) == 0))
			fail_msg("%s on %s", all[i].pattern, all[i].text);
}

static void test_random_patterns(void **state)
{
	static const char letters[] = "ab*?[]!-/";
	char pattern[8], text[8];

	(void)state;
	srand(7);
	for (int i = 0; i < 200000; i++) {
		size_t n = (size_t)rand() % sizeof(pattern), m = (size_t)rand() % sizeof(text);

		for (size_t j = 0; j < n; j++)
			pattern[j] = letters[rand() % 4]; /* sets differ where they make no sense */
		for (size_t j = 0; j < m; j++)
			text[j] = "ab/"[rand() % 3];
		pattern[n] = text[m] = '\0';
		if (matches(pattern, text) != (fnmatch(pattern, text, 0) == 0))
			fail_msg("%s on %s", pattern, text);
		for (size_t j = 0; j < n; j++)
			pattern[j] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		matches(pattern, text); /* ends, and reads nothing past its end */
	}
}

static void choose(const char *text)
{
	memset(head, 0, sizeof(head));
	choice_write(head + MGL_CONTROL_OFFSET + MGL_CHOICE_OFFSET, text);
	choice_read((struct mgl_session *)head);
}

static void test_a_choice(void **state)
{
	(void)state;
	choose("");
	assert_false(choice_asks());
	assert_true(choice_admits("/bin/sh", "sh"));
	choose("ncc1*\nnas\n");
	assert_true(choice_asks());
	assert_true(choice_admits("/bin/sh", "sh"));
	assert_false(choice_admits("/usr/lib/cc1plus", "x"));
	assert_false(choice_admits("/usr/bin/x86_64-as", "/usr/bin/as"));
	choose("occ1*\nonode\nncc1obj\n");
	assert_false(choice_admits("/bin/sh", "sh"));
	assert_true(choice_admits("/bin/cc1", ""));
	assert_true(choice_admits("/x/node", "/y/npm"));
	assert_true(choice_admits("/x/y", "node"));
	assert_false(choice_admits("/x/cc1obj", ""));
	choose("o/opt/*\n");
	assert_true(choice_admits("/opt/a/b", ""));
	assert_false(choice_admits("/usr/opt", "opt"));
	assert_true(choice_follows());
	choose("f\n");
	assert_false(choice_follows());
	assert_true(choice_admits("/bin/sh", ""));
}

/* Whoever shares the session may write there what he likes. */
static void test_nonsense(void **state)
{
	char *page = head + MGL_CONTROL_OFFSET + MGL_CHOICE_OFFSET;

	(void)state;
	choose("o");
	assert_false(choice_admits("/bin/sh", "sh"));
	choose("\n\nx\n\nosh");
	assert_true(choice_admits("/bin/sh", ""));
	memset(page, 'o', MGL_CHOICE_BYTES);
	choice_read((struct mgl_session *)head);
	assert_false(choice_admits("/bin/sh", ""));
	memset(page, '\n', MGL_CHOICE_BYTES);
	choice_read((struct mgl_session *)head);
	choice_admits("/bin/sh", "");
	for (size_t i = 0; i < MGL_CHOICE_BYTES; i++)
		page[i] = "o*\n"[i % 3];
	choice_read((struct mgl_session *)head);
	assert_true(choice_admits("/bin/sh", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_random_patterns),
		cmocka_unit_test(test_a_choice),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
