/*
 * ways_new OUT: every form of operator new and delete, each from a function of its own: one block
 * freed by the matching delete, one kept. Says `way FORM FUNCTION BYTES` a line: FORM is what an
 * allocator with a new of its own would be called by.
 */
#include <new>

extern "C" {
#include "tally.h"
}

static void *volatile kept[16];

#define WAY(name, make, unmake)                           \
	extern "C" SITE void *by_##name(std::size_t size) \
	{                                                 \
		void *p = make;                           \
		KEEP_FRAME();                             \
		return p;                                 \
	}                                                 \
	static void un_##name(void *p, std::size_t size)  \
	{                                                 \
		(void)size;                               \
		unmake;                                   \
	}
#define A128 std::align_val_t(128)
WAY(new, ::operator new(size), ::operator delete(p))
WAY(new_nothrow, ::operator new(size, std::nothrow), ::operator delete(p, std::nothrow))
WAY(new_sized, ::operator new(size), ::operator delete(p, size))
WAY(array, ::operator new[](size), ::operator delete[](p))
WAY(array_nothrow, ::operator new[](size, std::nothrow), ::operator delete[](p, std::nothrow))
WAY(array_sized, ::operator new[](size), ::operator delete[](p, size))
WAY(aligned, ::operator new(size, A128), ::operator delete(p, A128))
WAY(aligned_nothrow, ::operator new(size, A128, std::nothrow),
    ::operator delete(p, A128, std::nothrow))
WAY(aligned_sized, ::operator new(size, A128), ::operator delete(p, size, A128))
WAY(aligned_array, ::operator new[](size, A128), ::operator delete[](p, A128))
WAY(aligned_array_nothrow, ::operator new[](size, A128, std::nothrow),
    ::operator delete[](p, A128, std::nothrow))
WAY(aligned_array_sized, ::operator new[](size, A128), ::operator delete[](p, size, A128))

static const struct {
	const char *form;
	const char *function;
	void *(*make)(std::size_t);
	void (*unmake)(void *, std::size_t);
} ways[] = {
	{"new", "by_new", by_new, un_new},
	{"new", "by_new_nothrow", by_new_nothrow, un_new_nothrow},
	{"new", "by_new_sized", by_new_sized, un_new_sized},
	{"new[]", "by_array", by_array, un_array},
	{"new[]", "by_array_nothrow", by_array_nothrow, un_array_nothrow},
	{"new[]", "by_array_sized", by_array_sized, un_array_sized},
	{"aligned_new", "by_aligned", by_aligned, un_aligned},
	{"aligned_new", "by_aligned_nothrow", by_aligned_nothrow, un_aligned_nothrow},
	{"aligned_new", "by_aligned_sized", by_aligned_sized, un_aligned_sized},
	{"aligned_new[]", "by_aligned_array", by_aligned_array, un_aligned_array},
	{"aligned_new[]", "by_aligned_array_nothrow", by_aligned_array_nothrow,
	 un_aligned_array_nothrow},
	{"aligned_new[]", "by_aligned_array_sized", by_aligned_array_sized, un_aligned_array_sized},
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	say_open(argv[1]);
	say_process();
	for (std::size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		std::size_t size = 256 * (i + 1);

		ways[i].unmake(ways[i].make(size), size);
		kept[i] = ways[i].make(size);
		say_word("way");
		say_word(ways[i].form);
		say_word(ways[i].function);
		say_number((int64_t)size);
		say_end();
	}
	say_flush();
	return 0;
}
