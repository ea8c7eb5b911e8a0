#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "symbols/demangle.h"
#include "symbols/interval.h"
#include "symbols/receiver.h"
#include "symbols/wire.h"

static void add(struct symbols_intervals *set, uint64_t low, uint64_t high, uint32_t rank,
		uint32_t value)
{
	assert_null(symbols_intervals_add(set, low, high, rank, value));
}

/* Every range around address, innermost first, as a string of their values. */
static const char *around(const struct symbols_intervals *set, uint64_t address)
{
	static char text[64];
	const struct symbols_interval *interval;
	size_t position = SYMBOLS_INTERVALS_FIRST, length = 0;

	while ((interval = symbols_intervals_next(set, address, &position)) != NULL)
		text[length++] = (char)('a' + interval->value);
	text[length] = '\0';
	return text;
}

static void intervals_nest(void **state)
{
	struct symbols_intervals set = {VECTOR_EMPTY};

	(void)state;
	symbols_intervals_seal(&set);
	assert_string_equal(around(&set, 5), "");

	add(&set, 0, 100, 0, 0);   /* a around all */
	add(&set, 10, 20, 0, 1);   /* b */
	add(&set, 10, 30, 0, 2);   /* c around b, from the same start */
	add(&set, 12, 18, 2, 3);   /* d and e in one place: the lesser rank first */
	add(&set, 12, 18, 1, 4);   /* */
	add(&set, 25, 40, 0, 5);   /* f across c's end */
	add(&set, 50, 50, 0, 6);   /* empty: never there */
	add(&set, 200, 300, 0, 7); /* h apart */
	symbols_intervals_seal(&set);

	assert_string_equal(around(&set, 0), "a");
	assert_string_equal(around(&set, 10), "bca");
	assert_string_equal(around(&set, 12), "edbca");
	assert_string_equal(around(&set, 18), "bca");
	assert_string_equal(around(&set, 20), "ca");
	assert_string_equal(around(&set, 27), "fca");
	assert_string_equal(around(&set, 39), "fa");
	assert_string_equal(around(&set, 50), "a");
	assert_string_equal(around(&set, 100), "");
	assert_string_equal(around(&set, 199), "");
	assert_string_equal(around(&set, 299), "h");
	assert_string_equal(around(&set, UINT64_MAX), "");
	symbols_intervals_free(&set);
}

static void expect_name(const char *mangled, const char *expected)
{
	char *name;

	assert_null(symbols_demangle(mangled, &name));
	if (expected)
		assert_string_equal(name ? name : "(not mangled)", expected);
	else
		assert_null(name);
	free(name);
}

static void names_of_every_language(void **state)
{
	(void)state;
	expect_name("_ZN3FooC4Ev", "Foo::Foo()");
	expect_name("_Z1fIiEvT_", "f<int>(int)");
	expect_name("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const");
	expect_name("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
	expect_name("_ZN40_$LT$T$u20$as$u20$closures..Describe$GT$8describe17h18b63fc83e08c571E",
		    "<T as closures::Describe>::describe");
	expect_name("_RNvC6_123foo3bar", "123foo::bar");
	expect_name("_D4test3fooFZv", "test.foo()");
	expect_name("malloc", NULL);
	expect_name("", NULL);
	expect_name("_", NULL);
	expect_name("_Znonsense", NULL);
	expect_name("_ZN5wrong", NULL);
	expect_name("_Rwrong", NULL);
	expect_name("_Dwrong", NULL);
}

static char *repeat(const char *head, const char *part, size_t count, const char *tail)
{
	struct strbuf text = STRBUF_EMPTY;

	strbuf_append(&text, head);
	for (size_t i = 0; i < count; i++)
		strbuf_append(&text, part);
	strbuf_append(&text, tail);
	return strbuf_take(&text);
}

static void names_of_64_kib(void **state)
{
	CLEANUP_FREE char *identifier = repeat("", "a", 65000, "");
	CLEANUP_FREE char *one_word = repeat("_Z65000", identifier, 1, "v");
	CLEANUP_FREE char *one_word_is = repeat("", identifier, 1, "()");
	CLEANUP_FREE char *word = repeat("N100", "word", 25, "3barIiE1xE");
	CLEANUP_FREE char *wide = repeat("_Z1f", word, 570, "");
	CLEANUP_FREE char *legacy = repeat("_ZN65000", identifier, 1, "17h0123456789abcdefE");
	CLEANUP_FREE char *v0 = repeat("_RNvC3foo65000", identifier, 1, "");
	CLEANUP_FREE char *v0_is = repeat("foo::", identifier, 1, "");
	CLEANUP_FREE char *dlang = repeat("_D4test3fooF", "P", 60000, "iZv");
	char *name;

	(void)state;
	expect_name(one_word, one_word_is);
	expect_name(legacy, identifier);
	expect_name(v0, v0_is);
	assert_null(symbols_demangle(wide, &name));
	assert_non_null(name);
	assert_true(strlen(wide) > 64000);
	assert_memory_equal(name, "f(wordword", 10);
	assert_int_equal(strlen(name), strlen("f()") + 570 * (100 + strlen("::bar<int>::x, ")) - 2);
	free(name);
	assert_null(symbols_demangle(dlang, &name));
	assert_non_null(name);
	assert_int_equal(strlen(name), strlen("test.foo(int)") + 60000);
	free(name);
}

/* Names that demangle to 2^36 types, recurse as deep as they are long, want arrays of the
 * square of their length, or never end. */
static void hostile_names(void **state)
{
	struct strbuf doubling = STRBUF_EMPTY;
	CLEANUP_FREE char *deep = repeat("_Z1f", "P", 65000, "i");
	CLEANUP_FREE char *nested = repeat("_Z1f", "1aI", 20000, "i");
	CLEANUP_FREE char *square = repeat("_Z1fI", "RT_", 20000, "EE");
	CLEANUP_FREE char *rust = repeat("_RMC0", "R", 65000, "e");
	CLEANUP_FREE char *too_long = repeat("_Z", "a", SYMBOLS_MANGLED_MAX, "");

	(void)state;
	strbuf_append(&doubling, "_Z1f1pIiiE");
	for (const char *c = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"; *c; c++)
		strbuf_printf(&doubling, "S_IS%c_S%c_E", *c, *c);
	expect_name(doubling.text, NULL);
	strbuf_free(&doubling);
	expect_name(deep, NULL);
	expect_name(nested, NULL);
	expect_name(square, NULL);
	expect_name(rust, NULL);
	expect_name(too_long, NULL);
}

/* A round of two modules, the first with two addresses, each one work. */
struct fixture {
	struct symbols *symbols;
	struct symbols_round round;
	struct symbols_receiver receiver;
	struct symbols_module *module;
	struct strbuf input;
};

static void put_works(struct fixture *f, struct symbols_module *module, uint32_t count)
{
	uint32_t addresses = (uint32_t)module->addresses.count;

	module->works_left = count;
	for (uint32_t i = 0; i < count; i++)
		assert_null(vector_push(&f->round.works,
					((struct symbols_work){module, addresses * i / count,
							       addresses * (i + 1) / count})));
}

static void setup(struct fixture *f)
{
	struct symbols_module *other;

	*f = (struct fixture){.input = STRBUF_EMPTY};
	assert_null(symbols_create(NULL, &f->symbols));
	assert_null(symbols_module_add(f->symbols, "/a", NULL, 0, &f->module));
	assert_null(symbols_module_add(f->symbols, "/b", NULL, 0, &other));
	assert_null(symbols_address_add(f->module, 0x10, true));
	assert_null(symbols_address_add(f->module, 0x20, true));
	f->round.symbols = f->symbols;
	put_works(f, f->module, 1);
	put_works(f, other, 1);
	symbols_receiver_init(&f->receiver, &f->round);
}

static void teardown(struct fixture *f)
{
	symbols_receiver_free(&f->receiver);
	vector_free(&f->round.works);
	symbols_free(f->symbols);
	strbuf_free(&f->input);
}

static void put_u32(struct fixture *f, uint32_t value)
{
	strbuf_append_bytes(&f->input, &value, sizeof(value));
}

static void put_record(struct fixture *f, uint8_t kind, const void *bytes, uint32_t count)
{
	put_u32(f, count);
	strbuf_append_char(&f->input, (char)kind);
	strbuf_append_bytes(&f->input, bytes, count);
}

static void put_work(struct fixture *f, uint32_t place)
{
	put_record(f, SYMBOLS_WIRE_WORK, &place, sizeof(place));
}

static void put_verdict(struct fixture *f, uint8_t level, uint32_t reason)
{
	uint8_t bytes[13] = {level};

	memcpy(bytes + 1, &reason, sizeof(reason));
	put_record(f, SYMBOLS_WIRE_VERDICT, bytes, sizeof(bytes));
}

static void put_frame(struct fixture *f, uint32_t place, uint32_t function)
{
	uint8_t bytes[4 + SYMBOLS_WIRE_FRAME] = {0};

	memcpy(bytes, &place, sizeof(place));
	memcpy(bytes + 4, &function, sizeof(function));
	bytes[4 + 8] = 7; /* line */
	put_record(f, SYMBOLS_WIRE_FRAMES, bytes, sizeof(bytes));
}

static void put_try(struct fixture *f, uint8_t place, uint8_t outcome, uint32_t path)
{
	uint8_t bytes[3 + 2 * 4 + 4 * 8] = {place, outcome, 1};

	memcpy(bytes + 3, &path, sizeof(path));
	bytes[11] = 1; /* device */
	bytes[19] = 2; /* inode */
	bytes[27] = 3; /* size */
	bytes[35] = 4; /* mtime */
	put_record(f, SYMBOLS_WIRE_TRY, bytes, sizeof(bytes));
}

/* Feeds what was put, in pieces of so many bytes; whether it made sense. */
static bool take(struct fixture *f, size_t piece)
{
	for (size_t at = 0; at < f->input.length; at += piece) {
		size_t count = f->input.length - at < piece ? f->input.length - at : piece;

		assert_null(symbols_receiver_take(&f->receiver, f->input.text + at, count));
	}
	strbuf_clear(&f->input);
	return !f->receiver.is_garbled;
}

static void expect_try(const struct symbols_module *module)
{
	const struct symbols_identity expected = {
		.exists = true, .device = 1, .inode = 2, .size = 3, .mtime_ns = 4};
	size_t count;
	bool is_whole;
	const struct symbols_try *tries = symbols_module_tries(module, &count, &is_whole);

	assert_true(is_whole);
	assert_int_equal(count, 1);
	assert_int_equal(tries->place, SYMBOLS_PLACE_LINK);
	assert_int_equal(tries->outcome, SYMBOLS_OUTCOME_OTHER_CRC);
	assert_string_equal(tries->path, "/a/b");
	assert_null(tries->detail);
	assert_true(symbols_identity_equal(&tries->identity, &expected));
}

static void answers_come_in_any_pieces(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 100; piece++) {
		struct fixture f;
		size_t count;

		setup(&f);
		put_work(&f, 0);
		put_record(&f, SYMBOLS_WIRE_STRING, "why", 3);
		put_verdict(&f, SYMBOLS_LINES, 1);
		put_record(&f, SYMBOLS_WIRE_STRING, "main", 4);
		put_record(&f, SYMBOLS_WIRE_STRING, "/a/b", 4);
		put_try(&f, SYMBOLS_PLACE_LINK, SYMBOLS_OUTCOME_OTHER_CRC, 3);
		put_frame(&f, 1, 2);
		put_record(&f, SYMBOLS_WIRE_END, NULL, 0);
		assert_true(take(&f, piece));
		assert_int_equal(f.receiver.work, SYMBOLS_NO_WORK);
		assert_int_equal(f.round.progress, 1);
		assert_int_equal(symbols_module_verdict(f.module).level, SYMBOLS_LINES);
		assert_string_equal(symbols_module_verdict(f.module).reason, "why");

		const struct symbols_frame *frames = symbols_frames(f.module, 0x20, true, &count);

		assert_int_equal(count, 1);
		assert_string_equal(frames->function, "main");
		assert_null(frames->file);
		assert_int_equal(frames->line, 7);
		assert_null(symbols_frames(f.module, 0x10, true, &count));
		expect_try(f.module);
		teardown(&f);
	}
}

/* Two readers at once: the module is finished when both are. */
static void works_of_a_module_end_together(void **state)
{
	struct fixture f;
	struct symbols_receiver other;
	size_t count;

	(void)state;
	setup(&f);
	f.round.works.count = 0;
	put_works(&f, f.module, 2);
	symbols_receiver_init(&other, &f.round);
	put_work(&f, 1);
	put_record(&f, SYMBOLS_WIRE_STRING, "second", 6);
	put_frame(&f, 1, 1);
	assert_null(symbols_receiver_take(&other, f.input.text, f.input.length));
	strbuf_clear(&f.input);
	put_work(&f, 0);
	put_verdict(&f, SYMBOLS_FULL, 0);
	put_record(&f, SYMBOLS_WIRE_STRING, "first", 5);
	put_frame(&f, 0, 1);
	put_record(&f, SYMBOLS_WIRE_END, NULL, 0);
	assert_true(take(&f, 1000));
	assert_true(f.module->is_dirty);
	put_record(&f, SYMBOLS_WIRE_END, NULL, 0);
	assert_null(symbols_receiver_take(&other, f.input.text, f.input.length));
	assert_false(other.is_garbled);
	assert_false(f.module->is_dirty);
	assert_int_equal(f.round.progress, 2);
	assert_string_equal(symbols_frames(f.module, 0x10, true, &count)->function, "first");
	assert_string_equal(symbols_frames(f.module, 0x20, true, &count)->function, "second");
	symbols_receiver_free(&other);
	teardown(&f);
}

enum nonsense {
	NO_SUCH_WORK,
	TWO_WORKS,
	FRAMES_OF_NOTHING,
	FRAMES_OF_NO_ADDRESS,
	FRAMES_TWICE,
	HALF_A_FRAME,
	SHORT_VERDICT,
	NO_SUCH_LEVEL,
	TRY_OF_NO_PATH,
	TRY_OF_NO_PLACE,
	TRY_OF_NO_OUTCOME,
	SHORT_TRY,
	TRIES_WITHOUT_END,
	WANTS_WITHOUT_END,
	WANTS_NOTHING,
	WANTS_TOO_LONG,
	END_OF_NOTHING,
	END_WITHOUT_VERDICT,
	FRAMES_OF_ANOTHER_WORK,
	VERDICT_OF_A_PART,
	NO_SUCH_KIND,
	ENDLESS_RECORD,
	NONSENSE_COUNT,
};

static void put_nonsense(struct fixture *f, enum nonsense nonsense)
{
	bool is_part = nonsense == FRAMES_OF_ANOTHER_WORK || nonsense == VERDICT_OF_A_PART;

	if (is_part) {
		f->round.works.count = 0;
		put_works(f, f->module, 2);
	}
	if (nonsense != FRAMES_OF_NOTHING && nonsense != END_OF_NOTHING)
		put_work(f, nonsense == NO_SUCH_WORK ? 2 : is_part);
	switch (nonsense) {
	case TWO_WORKS:
		put_work(f, 1);
		break;
	case FRAMES_TWICE:
		put_frame(f, 0, 0);
		put_frame(f, 0, 0);
		break;
	case FRAMES_OF_NOTHING:
		put_frame(f, 0, 0);
		break;
	case FRAMES_OF_NO_ADDRESS:
		put_frame(f, 2, 0);
		break;
	case HALF_A_FRAME:
		put_record(f, SYMBOLS_WIRE_FRAMES, "\0\0\0\0abcdefgh", 12);
		break;
	case SHORT_VERDICT:
		put_record(f, SYMBOLS_WIRE_VERDICT, "\2\0\0", 3);
		break;
	case NO_SUCH_LEVEL:
		put_verdict(f, 99, 0);
		break;
	case TRY_OF_NO_PATH:
		put_try(f, 1, 1, 1);
		break;
	case TRY_OF_NO_PLACE:
		put_record(f, SYMBOLS_WIRE_STRING, "/a", 2);
		put_try(f, SYMBOLS_PLACE_LAST + 1, 1, 1);
		break;
	case TRY_OF_NO_OUTCOME:
		put_record(f, SYMBOLS_WIRE_STRING, "/a", 2);
		put_try(f, 1, 0, 1);
		break;
	case SHORT_TRY:
		put_record(f, SYMBOLS_WIRE_STRING, "/a", 2);
		put_record(f, SYMBOLS_WIRE_TRY, "\1\1\1\1\0\0\0", 7);
		break;
	case TRIES_WITHOUT_END:
		put_record(f, SYMBOLS_WIRE_STRING, "/a", 2);
		for (size_t i = 0; i <= SYMBOLS_TRACE_MAX; i++)
			put_try(f, 1, 1, 1);
		break;
	case WANTS_WITHOUT_END:
		for (size_t i = 0; i <= SYMBOLS_WANTED_MAX; i++)
			put_record(f, SYMBOLS_WIRE_WANTED, "12345678", 8);
		break;
	case WANTS_NOTHING:
		put_record(f, SYMBOLS_WIRE_WANTED, NULL, 0);
		break;
	case WANTS_TOO_LONG: {
		static const char bytes[SYMBOLS_BUILD_ID_MAX + 1];

		put_record(f, SYMBOLS_WIRE_WANTED, bytes, sizeof(bytes));
		break;
	}
	case END_OF_NOTHING:
	case END_WITHOUT_VERDICT:
		put_record(f, SYMBOLS_WIRE_END, NULL, 0);
		break;
	case FRAMES_OF_ANOTHER_WORK:
		put_frame(f, 0, 0);
		break;
	case VERDICT_OF_A_PART:
		put_verdict(f, SYMBOLS_FULL, 0);
		break;
	case NO_SUCH_KIND:
		put_record(f, 77, "x", 1);
		break;
	case ENDLESS_RECORD:
		put_u32(f, UINT32_MAX);
		strbuf_append_char(&f->input, SYMBOLS_WIRE_STRING);
		break;
	case NO_SUCH_WORK:
	case NONSENSE_COUNT:
		break;
	}
}

static void nonsense_is_not_taken(void **state)
{
	(void)state;
	for (int nonsense = 0; nonsense < NONSENSE_COUNT; nonsense++) {
		struct fixture f;

		setup(&f);
		put_nonsense(&f, (enum nonsense)nonsense);
		if (take(&f, 1000))
			fail_msg("nonsense %d was taken", nonsense);
		teardown(&f);
	}
}

/* A number that names no string is no name; the rest of the frame counts. */
static void strings_never_sent_are_none(void **state)
{
	struct fixture f;
	size_t count;

	(void)state;
	setup(&f);
	put_work(&f, 0);
	put_verdict(&f, SYMBOLS_FULL, 9);
	put_frame(&f, 0, UINT32_MAX);
	put_record(&f, SYMBOLS_WIRE_END, NULL, 0);
	assert_true(take(&f, 1000));
	assert_null(symbols_module_verdict(f.module).reason);
	assert_null(symbols_frames(f.module, 0x10, true, &count)->function);
	assert_int_equal(count, 1);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_nest),
		cmocka_unit_test(names_of_every_language),
		cmocka_unit_test(names_of_64_kib),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(answers_come_in_any_pieces),
		cmocka_unit_test(works_of_a_module_end_together),
		cmocka_unit_test(nonsense_is_not_taken),
		cmocka_unit_test(strings_never_sent_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
