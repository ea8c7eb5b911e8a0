/*
 * Built twice, with frames of another size but the same code at the same places: a stale
 * rule for the one gives a wrong caller in the other.
 */
void reloaded_call(void (*f)(void));

__attribute__((noinline)) void reloaded_call(void (*f)(void))
{
	char room[FRAME];

	__asm__ volatile("" ::"r"(room) : "memory");
	f();
	__asm__ volatile("" ::"r"(room) : "memory");
}
