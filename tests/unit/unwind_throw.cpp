// Exceptions that pass through frames, with work done on their way.
#include "unwind_check.h"

#include <stdexcept>
#include <string>

namespace
{

struct Checks {
	~Checks() { check(); }
};

__attribute__((noinline)) void deep(int depth)
{
	Checks on_the_way;
	std::string text(40, 'x');

	__asm__ volatile("" ::"r"(text.data()) : "memory");
	if (depth == 0)
		throw std::runtime_error("thrown");
	deep(depth - 1);
	__asm__ volatile("" ::: "memory");
}

} // namespace

extern "C" void unwind_throw(int depth)
{
	try {
		deep(depth);
	} catch (const std::exception &) {
		check();
	}
	check();
}
