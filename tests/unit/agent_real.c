#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "agent/image.h"
#include "agent/real.h"
#include "agent/scope.h"

static const struct link_map *find_map(const char *soname)
{
	struct image image;

	for (const struct link_map *map = image_first(); map; map = map->l_next) {
		if (image_open(&image, map) && strcmp(image_soname(&image), soname) == 0)
			return map;
	}
	return NULL;
}

/* The program under test holds the agent's code, so that it is the module left out. */
static void test_finds_what_the_loader_finds(void **state)
{
	(void)state;
	assert_true(real_resolve());
#define X(name, type, parameters) assert_ptr_equal(dlsym(RTLD_NEXT, #name), real.name);
	X(malloc, , )
	X(free, , )
	X(calloc, , )
	X(realloc, , )
	X(memalign, , )
	X(posix_memalign, , )
	X(pvalloc, , )
	REAL_SYSTEM(X)
#undef X
	assert_null(real._Znwm);
	assert_non_null(real.free_sized);
	assert_non_null(real.free_aligned_sized);
	assert_non_null(real.cfree);
	assert_false(real_facts.library_new);
	assert_non_null(strstr(real_facts.malloc_path, "lib"));
}

static void test_reallocarray_substitute_knows_an_overflow(void **state)
{
	void *p;

	(void)state;
	assert_true(real_resolve());
	assert_null(real.reallocarray(NULL, SIZE_MAX / 2, 3));
	p = real.reallocarray(NULL, 3, 5);
	assert_non_null(p);
	real.free_sized(p, 15);
}

/* Every function the C library exports, the indirect ones (memcpy …) among them. */
static void test_finds_all_of_a_library(void **state)
{
	static const char *const names[] = {"memcpy", "strlen",       "strchr",        "printf",
					    "qsort",  "fork",         "getenv",        "regcomp",
					    "time",   "gettimeofday", "pthread_create"};
	const struct link_map *libc = find_map("libc.so.6");
	struct image image;
	uint32_t indirect = 0;

	(void)state;
	assert_non_null(libc);
	assert_true(image_open(&image, libc));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct image_name name = image_name(names[i]);
		struct image_symbol symbol;

		assert_true(image_symbol(&image, &name, &symbol));
		assert_ptr_equal(image_function(&image, &symbol), dlsym(RTLD_NEXT, names[i]));
		indirect += symbol.type == STT_GNU_IFUNC;
		/* A System V table finds the same. */
		if (image.sysv_hash) {
			struct image other = image;
			struct image_symbol same;

			other.gnu_hash = NULL;
			assert_true(image_symbol(&other, &name, &same));
			assert_int_equal(same.address, symbol.address);
		}
	}
	assert_true(indirect > 0);
}

static void test_does_not_find_what_is_not_there(void **state)
{
	struct image_name name = image_name("mallograph_is_not_in_libc");
	struct image_symbol symbol;
	struct image image;

	(void)state;
	assert_true(image_open(&image, find_map("libc.so.6")));
	assert_false(image_symbol(&image, &name, &symbol));
	/* Undefined here: libc's own reference to the loader's. */
	name = image_name("__tls_get_addr");
	assert_false(image_symbol(&image, &name, &symbol));
	assert_string_equal(image_string(&image, SIZE_MAX), "");
	assert_string_equal(image_string(&image, image.string_bytes), "");
}

/* Tables of noise at the end of a mapping: no read may leave it. */
static void test_damaged_tables_end_a_search(void **state)
{
	const size_t bytes = 4096;
	unsigned seed = 3;
	unsigned char *page =
		mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(mprotect(page, bytes, PROT_NONE), 0);
	assert_int_equal(mprotect(page + 2 * bytes, bytes, PROT_NONE), 0);
	page += bytes;
	for (int round = 0; round < 20000; round++) {
		struct image_name name = image_name("malloc");
		struct image_symbol symbol;
		struct image image = {
			.start = (uintptr_t)page,
			.stop = (uintptr_t)page + bytes,
			.bias = (uintptr_t)page,
			.symbols = (const Elf64_Sym *)(page + 1024),
			.strings = (const char *)page + 3072,
			.string_bytes = 1024,
			.versions = (const uint16_t *)(page + 4000),
		};
		uint32_t *head = (uint32_t *)page;

		for (size_t i = 0; i < bytes / 4; i++)
			((uint32_t *)page)[i] = (uint32_t)rand_r(&seed) & (i % 3 ? 0xf : ~0u);
		memcpy(page + 3072, "malloc", 7);
		head[0] = 1 + (uint32_t)rand_r(&seed) % 8;
		head[2] = 1u << rand_r(&seed) % 3;
		if (round % 4 == 0)
			head[round / 4 % 4] = (uint32_t)rand_r(&seed) * 4u;
		image.gnu_hash = head;
		image.sysv_hash = NULL;
		if (image_symbol(&image, &name, &symbol))
			assert_in_range(symbol.address, image.start, image.stop);
		image.gnu_hash = NULL;
		image.sysv_hash = head;
		if (image_symbol(&image, &name, &symbol))
			assert_in_range(symbol.address, image.start, image.stop);
	}
	assert_int_equal(munmap(page - bytes, 3 * bytes), 0);
}

static void test_a_call_from_nowhere_finds_the_first(void **state)
{
	struct scope_definition found;

	(void)state;
	assert_true(scope_find("qsort", 0, &found));
	assert_ptr_equal(found.function, dlsym(RTLD_NEXT, "qsort"));
	assert_false(scope_find("mallograph_is_not_in_libc", (uintptr_t)found.function, &found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_what_the_loader_finds),
		cmocka_unit_test(test_reallocarray_substitute_knows_an_overflow),
		cmocka_unit_test(test_finds_all_of_a_library),
		cmocka_unit_test(test_does_not_find_what_is_not_there),
		cmocka_unit_test(test_damaged_tables_end_a_search),
		cmocka_unit_test(test_a_call_from_nowhere_finds_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
