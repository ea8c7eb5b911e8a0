/*
 * throws OUT: operator new that throws, in every throwing form, between ones that do not.
 * Says what must be counted for the function called.
 */
#include <new>

extern "C" {
#include "tally.h"
}

namespace
{
const std::size_t too_much = static_cast<std::size_t>(-1) >> 2;
std::size_t volatile asked = too_much;
int thrown;

/* Frees on its way out: the hooks must work again by then. */
struct holder {
	char *block = new char[64];
	~holder() { delete[] block; }
};
} // namespace

SITE static void *by_new(std::size_t size)
{
	void *p = ::operator new(size);

	KEEP_FRAME();
	return p;
}

SITE static void *by_new_array(std::size_t size)
{
	void *p = ::operator new[](size);

	KEEP_FRAME();
	return p;
}

SITE static void *by_aligned_new(std::size_t size)
{
	void *p = ::operator new(size, std::align_val_t(128));

	KEEP_FRAME();
	return p;
}

SITE static void *by_aligned_new_array(std::size_t size)
{
	void *p = ::operator new[](size, std::align_val_t(128));

	KEEP_FRAME();
	return p;
}

static void *try_one(void *(*make)(std::size_t), std::size_t size)
{
	try {
		holder held;

		return make(size);
	} catch (const std::bad_alloc &) {
		thrown++;
		return nullptr;
	}
}

int main(int, char **argv)
{
	static void *(*const ways[])(std::size_t) = {by_new, by_new_array, by_aligned_new,
						     by_aligned_new_array};
	void *volatile kept[4];

	say_open(argv[1]);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 4; i++) {
			if (try_one(ways[i], asked) != nullptr)
				return 3;
			void *p = try_one(ways[i], 500);
			if (p == nullptr)
				return 4;
			if (i < 2)
				::operator delete(p);
			else
				::operator delete(p, std::align_val_t(128));
		}
	}
	for (int i = 0; i < 4; i++)
		kept[i] = ways[i](700);
	if (kept[3] == nullptr || ::operator new(asked, std::nothrow) != nullptr)
		return 5;
	say_process();
	say_count("thrown", static_cast<uint64_t>(thrown));
	say_flush();
	return 0;
}
