/*
 * depth OUT DEPTH [WAY]: a block from DEPTH calls of `deeper` below main, made through WAY:
 *   plain      (the default)
 *   frame      a function without call frame information that keeps a frame pointer
 *   bare       one that does not, and puts what it likes into rbp
 *   jit, jit_bare   the same two as machine code in anonymous memory
 * DEPTH 0 and bare: rbp is anything, also a hole, an odd number, the stack's far end.
 * Says its tally.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "tally.h"

typedef void *(*maker)(void);

/* nocfi.S */
void *nocfi_frame(maker f);
void *nocfi_bare(maker f, uint64_t rbp);

static struct tally t;
static maker make;
static void *volatile kept;

SITE static void *made(void)
{
	void *p = malloc(1000);

	KEEP_FRAME();
	tally_in(&t, 1000);
	return p;
}

SITE static void *through_frame(void)
{
	void *p = nocfi_frame(made);

	KEEP_FRAME();
	return p;
}

static void *machine_code(const char *code, size_t size)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	return memcpy(p, code, size);
}

SITE static void *through_jit(void)
{
	/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
	static const char code[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3";
	void *(*run)(maker) = (void *(*)(maker))(uintptr_t)machine_code(code, sizeof(code));
	void *p = run(made);

	KEEP_FRAME();
	return p;
}

static const uint64_t odd_values[] = {
	0, 1, 8, 0x1000, 0x7ffffffff000, 0xdeadbeefdeadbeef, UINT64_MAX, UINT64_MAX - 15};

SITE static void *through_bare(void)
{
	char *hole = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *p = NULL;

	for (size_t i = 0; i < sizeof(odd_values) / sizeof(odd_values[0]); i++)
		p = nocfi_bare(made, odd_values[i]);
	for (size_t i = 0; i < 64; i++)
		p = nocfi_bare(made, (uintptr_t)&i + (i << i % 30));
	p = nocfi_bare(made, (uintptr_t)hole);
	p = nocfi_bare(made, (uintptr_t)hole + 4096 - 8);
	KEEP_FRAME();
	return p;
}

SITE static void *through_jit_bare(void)
{
	/* push rbp; mov rbp, rsi; call rdi; pop rbp; ret */
	static const char code[] = "\x55\x48\x89\xf5\xff\xd7\x5d\xc3";
	void *(*run)(maker, uint64_t) =
		(void *(*)(maker, uint64_t))(uintptr_t)machine_code(code, sizeof(code));
	void *p = NULL;

	for (size_t i = 0; i < sizeof(odd_values) / sizeof(odd_values[0]); i++)
		p = run(made, odd_values[i]);
	KEEP_FRAME();
	return p;
}

SITE static void *deeper(uint64_t depth)
{
	void *p = depth == 0 ? make() : deeper(depth - 1);

	KEEP_FRAME();
	return p;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		maker make;
	} ways[] = {
		{"plain", made},      {"frame", through_frame},       {"bare", through_bare},
		{"jit", through_jit}, {"jit_bare", through_jit_bare},
	};
	const char *way = argc > 3 ? argv[3] : "plain";

	if (argc < 3)
		return 2;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(way, ways[i].name) == 0)
			make = ways[i].make;
	if (make == NULL)
		return 2;
	say_open(argv[1]);
	kept = deeper(number_of(argv[2]));
	say_process();
	say_tally(&t);
	say_flush();
	return 0;
}
