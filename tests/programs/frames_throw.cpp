// Exceptions, for frames.c.
extern "C" {
void made(void);
void caught(void);
void throws(void);
void catches(void);
}

namespace
{
struct holder {
	~holder();
};

__attribute__((noinline)) holder::~holder() { made(); }
} // namespace

__attribute__((noinline)) void throws(void)
{
	holder on_the_way;

	throw 1;
}

__attribute__((noinline)) void catches(void)
{
	try {
		throws();
	} catch (int) {
		caught();
	}
}
