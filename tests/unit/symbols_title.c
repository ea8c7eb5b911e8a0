#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "symbols/title.h"

static void check(const char *function, bool expected)
{
	if (symbols_title_is_wrapper(function, NULL, 0) != expected)
		fail_msg("%s is %s wrapper", function, expected ? "a" : "no");
}

static void test_wrappers(void **state)
{
	static const char *const names[] = {
		"malloc",
		"xmalloc",
		"g_malloc0_n",
		"sqlite3MemMalloc",
		"jv_mem_alloc",
		"ngx_palloc",
		"xrealloc.part.0",
		"__strdup",
		"g_strndup",
		"operator new",
		"operator new(unsigned long)",
		"operator new[](unsigned long, std::nothrow_t const&)",
		"__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
		"std::__new_allocator<std::_Rb_tree_node<int> >::allocate(unsigned long)",
		"std::vector<int, std::allocator<int> >::push_back(int const&)",
		"void std::vector<Foo>::_M_realloc_insert<Foo>(__gnu_cxx::__normal_iterator<Foo*, "
		"std::vector<Foo> >, Foo&&)",
		"std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
		"std::operator+(std::string const&, char const*)",
		"Arena::alloc(unsigned long)",
		"Pool<(anonymous namespace)::Node>::allocate() const",
		"alloc::raw_vec::RawVec<T,A>::reserve::do_reserve_and_handle",
		"<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
		"__rust_alloc",
		"hashbrown::raw::RawTable<T,A>::reserve_rehash",
		"core::iter::traits::iterator::Iterator::collect",
		"<core::iter::adapters::map::Map<I,F> as core::iter::traits::iterator::Iterator>::next",
		"__rdl_alloc",
		"PyMem_RawMalloc",
		"_PyMem_RawRealloc",
		"PyObject_Malloc",
		"_PyObject_GC_NewVar",
		"PyUnicode_New",
		"ngx_memalign",
		"<&mut dyn core::ops::function::FnMut() as core::ops::FnOnce>::call_once",
		"<hashbrown::map::HashMap<K,V> as core::iter::Extend<(K,V)>>::extend",
		"runtime.asmcgocall.abi0",
		"runtime.cgocall",
		"_cgo_08d69b39cb30_Cfunc__Cmalloc",
		"main._Cfunc_CString",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check(names[i], true);
}

static void test_others(void **state)
{
	static const char *const names[] = {
		"main",
		"jv_parser_next",
		"std",
		"",
		"parse(std::vector<int, std::allocator<int> >&)",
		"callocator",
		"deallocate_x",
		"subtype_dealloc",
		"report_allocations",
		"Heap::DeAllocate(void*)",
		"std::vector<int, std::allocator<int> > make<int>(unsigned long)",
		"Foo::operator()(std::allocator<char> const&) const",
		"Foo::operator std::string() const",
		"operator<<(std::ostream&, Foo const&)",
		"<my::Type as core::clone::Clone>::clone",
		"Allocated::size()",
		"my::standard::run",
		"Parser::parse(Alloc)",
		"foo<&malloc>(int)",
		"<&mut dyn my::Trait as core::ops::FnOnce>::call_once",
		"<&",
		"_PyUnicode_JoinArray",
		"main.(*Cache).Put",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check(names[i], false);
}

static void test_plain_names(void **state)
{
	static const char *const names[][2] = {
		{"main", "main"},
		{"std::vector<int>::push_back(int const&)", "std::vector::push_back"},
		{"void make<int>(unsigned long) const", "make"},
		{"operator new[](unsigned long, std::nothrow_t const&)", "operator new"},
		{"std::operator+<char, std::allocator<char> >(char const*, std::string&&)",
		 "std::operator+"},
		{"std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
		 "std::operator<<"},
		{"bool operator><int>(my::box<int> const&, my::box<int> const&)", "operator>"},
		{"my::map<int, int>::operator[]<int>(int&&)", "my::map::operator[]"},
		{"my::box<int>::operator-><int>() const", "my::box::operator->"},
		{"auto my::operator<=><int>(int, int)", "my::operator<=>"},
		{"my::box::operator bool() const", "my::box::operator bool"},
		{"v8::(anonymous namespace)::ConstructBuffer(int)", "v8::ConstructBuffer"},
		{"(anonymous namespace)::run()", "run"},
		{"app::load()::{lambda(int)#1}::operator()(int) const", "app::load"},
		{"hashbrown::raw::RawTable<T,A>::reserve", "hashbrown::raw::RawTable::reserve"},
		{"r::load::{{closure}}", "r::load"},
		{"net/http.(*conn).serve.func1", "net/http.(*conn).serve.func1"},
		{"main.Map[go.shape.int]", "main.Map"},
		{"<my::Type as core::clone::Clone>::clone",
		 "<my::Type as core::clone::Clone>::clone"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CLEANUP_STRBUF struct strbuf plain = STRBUF_EMPTY;

		symbols_title_plain(names[i][0], &plain);
		assert_string_equal(plain.text, names[i][1]);
	}
}

static void test_patterns(void **state)
{
	static const char *const patterns[] = {"make_*", "Node::create", "*Factory*"};

	(void)state;
	assert_true(symbols_title_is_wrapper("make_node", patterns, 3));
	assert_true(symbols_title_is_wrapper("Node::create(int)", patterns, 3));
	assert_true(symbols_title_is_wrapper("void Node<int>::create(int)", patterns, 3));
	assert_true(symbols_title_is_wrapper("f(Factory&)", patterns, 3));
	assert_true(symbols_title_is_wrapper("xmalloc", patterns, 3));
	assert_false(symbols_title_is_wrapper("remake_node", patterns, 3));
	assert_false(symbols_title_is_wrapper("make_node", patterns, 0));
}

/* Names from hostile files: nothing but an answer is asked for. */
static void test_odd_names(void **state)
{
	static const char *const names[] = {
		"<",  ">",    "(((",   "operator", "operator(", "operator ", "a<b<c<",
		"::", "[{(<", ">>>->", " const",   "x(",        ")",         "operator new["};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		symbols_title_is_wrapper(names[i], NULL, 0);
	check("<<<<alloc", true);
	check("<<std::thread::Thread>::new::{closure#0} as core::ops::FnOnce<()>>::call_once",
	      true);
}

static void test_runtime(void **state)
{
	(void)state;
	assert_true(symbols_title_is_runtime("/lib/x86_64-linux-gnu/libc.so.6"));
	assert_true(symbols_title_is_runtime("/lib/libc-2.31.so"));
	assert_true(symbols_title_is_runtime("libstdc++.so.6.0.30"));
	assert_true(symbols_title_is_runtime("/lib64/ld-linux-x86-64.so.2"));
	assert_false(symbols_title_is_runtime("/usr/lib/libcrypto.so.3"));
	assert_false(symbols_title_is_runtime("/usr/bin/libc.so/program"));
	assert_false(symbols_title_is_runtime(""));
}

struct place {
	const char *functions[4]; /* lines, ended by NULL; "?" is not known */
	bool is_runtime;
};

static uint32_t name_place(const struct place *place, const char *const *patterns,
			   size_t pattern_count)
{
	uint32_t named = place->functions[0] ? SYMBOLS_TITLE_NONE : 0;

	for (uint32_t i = 0; i < 4 && place->functions[i]; i++)
		symbols_title_line(&named, i,
				   *place->functions[i] == '?' ? NULL : place->functions[i],
				   patterns, pattern_count);
	return named;
}

/* place: from 1; 0 = none. */
static void check_title(const struct place *places, size_t count, uint32_t place, uint32_t depth)
{
	static const char *const patterns[] = {"mine*"};
	struct symbols_title title = {0};

	for (size_t i = 0; i < count; i++)
		if (!symbols_title_place(&title, (uint32_t)i + 1,
					 name_place(&places[i], patterns, 1), places[i].is_runtime))
			break;
	symbols_title_end(&title);
	assert_int_equal(title.place, place);
	assert_int_equal(title.depth, depth);
}

static void test_lines_of_a_place(void **state)
{
	(void)state;
	check_title(&(struct place){{"malloc", "mine", "?", "caller"}, false}, 1, 1, 2);
	check_title(&(struct place){{"malloc", "caller"}, false}, 1, 1, 1);
	check_title(&(struct place){{"malloc", "mine"}, false}, 1, 1, 0);
	check_title(&(struct place){{NULL}, false}, 1, 1, 0);
}

static void test_places_of_a_stack(void **state)
{
	static const struct place places[] = {
		{{"xmalloc"}, false}, {{"calloc", "_IO_file"}, true},
		{{"fopen"}, true},    {{"a", "b"}, false},
		{{"main"}, false},
	};

	(void)state;
	check_title(places, 0, 0, 0);
	check_title(places, 1, 1, 0); /* wrappers alone: the innermost */
	check_title(places, 2, 2, 1); /* nothing but the C library's */
	check_title(places, 3, 2, 1);
	check_title(places, 4, 4, 0);
	check_title(places, 5, 4, 0);
}

/* It says nothing where it called a helper. */
static void test_main(void **state)
{
	static const struct place helpers[] = {
		{{"xmalloc"}, false}, {{"grow_realloc"}, false}, {{"main"}, false}};
	static const struct place inlined[] = {{{"operator new", "xmalloc_or_die", "main"}, false}};
	static const struct place language[] = {
		{{"operator new(unsigned long)"}, true},
		{{"std::vector<int>::reserve(unsigned long)", "main"}, false}};
	static const struct place library[] = {
		{{"__strdup"}, true}, {{"getdelim"}, true}, {{"main"}, false}};
	static const struct place chosen[] = {{{"mine_alloc"}, false}, {{"main"}, false}};
	static const struct place looked_through[] = {
		{{"xmalloc"}, false}, {{"mine"}, false}, {{"main"}, false}};
	static const struct place inside[] = {{{"pool_alloc"}, false},
					      {{"std::vector<int>::reserve", "main"}, false}};
	static const struct place go[] = {{{"main.alloc_page"}, false}, {{"main.main"}, false}};
	static const struct place between[] = {
		{{"xmalloc"}, false}, {{"load"}, false}, {{"main"}, false}};

	(void)state;
	check_title(helpers, 3, 2, 0);
	check_title(inlined, 1, 1, 1);
	check_title(language, 2, 2, 1);
	check_title(library, 3, 3, 0);
	check_title(chosen, 2, 2, 0);
	check_title(looked_through, 3, 3, 0);
	check_title(inside, 2, 2, 1);
	check_title(go, 2, 1, 0);
	check_title(between, 3, 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_main),
		cmocka_unit_test(test_lines_of_a_place),
		cmocka_unit_test(test_places_of_a_stack),
		cmocka_unit_test(test_wrappers),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_plain_names),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_runtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
