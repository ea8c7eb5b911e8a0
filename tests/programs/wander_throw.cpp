// Exceptions, for wander.c.
extern "C" {
void wander_throws(void);
void wander_catches(void (*f)(void));
}

__attribute__((noinline)) void wander_throws(void) { throw 1; }

__attribute__((noinline)) void wander_catches(void (*f)(void))
{
	try {
		f();
	} catch (int) {
	}
}
