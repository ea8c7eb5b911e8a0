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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrappers),    cmocka_unit_test(test_others),
		cmocka_unit_test(test_plain_names), cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_odd_names),   cmocka_unit_test(test_runtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
