/*
 * A plugin with an operator new of its own, from a pool that malloc never sees. Each block
 * carries a mark before it: one that another operator new made is not taken back.
 */
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" int answer();

namespace
{
alignas(64) char pool[1 << 20];
std::size_t used;
const std::uint64_t mark = 0x6d61726b6d61726b;

void *take(std::size_t size)
{
	std::size_t bytes = (size + 64 + 63) / 64 * 64;

	if (used + bytes > sizeof(pool))
		std::abort();
	char *p = pool + used;
	used += bytes;
	*reinterpret_cast<std::uint64_t *>(p + 56) = mark;
	return p + 64;
}

void give(void *p)
{
	if (p == nullptr)
		return;
	auto *before = reinterpret_cast<std::uint64_t *>(static_cast<char *>(p) - 8);
	if (*before != mark)
		std::abort();
	*before = 0;
}
} // namespace

void *operator new(std::size_t size) { return take(size); }
void *operator new[](std::size_t size) { return take(size); }
void operator delete(void *p) noexcept { give(p); }
void operator delete[](void *p) noexcept { give(p); }
void operator delete(void *p, std::size_t) noexcept { give(p); }
void operator delete[](void *p, std::size_t) noexcept { give(p); }

/* Three blocks of 1000 bytes, two freed; one array of 3000, freed. */
extern "C" int answer()
{
	struct thing {
		char bytes[1000];
	};
	thing *volatile things[3];
	char *volatile array = new char[3000];

	for (auto &t : things)
		t = new thing;
	delete things[0];
	delete things[1];
	delete[] array;
	return 1;
}
