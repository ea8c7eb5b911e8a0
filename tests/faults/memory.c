/*
 * An allocator that fails when told to, linked into the tool in the C library's place:
 * FAULT_MEMORY=N refuses the N-th allocation of a process, FAULT_MEMORY=N+ that one and
 * all after it. Each refusal is told on standard error, so that a test knows when there
 * are no more to be had.
 *
 * glibc's own allocator goes on under its other name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static unsigned long done;

static int refused(void)
{
	static const char told[] = "fault: refused\n";
	const char *wanted = getenv("FAULT_MEMORY");
	char *end;
	unsigned long first = wanted ? strtoul(wanted, &end, 10) : 0;

	done++;
	if (first == 0 || done < first || (done > first && *end != '+'))
		return 0;
	errno = write(STDERR_FILENO, told, sizeof(told) - 1) < 0 ? errno : ENOMEM;
	return 1;
}

void *malloc(size_t size) { return refused() ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return refused() ? NULL : __libc_calloc(count, size); }

void *realloc(void *old, size_t size) { return refused() ? NULL : __libc_realloc(old, size); }
