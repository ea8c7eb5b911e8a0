#include "agent/program_path.h"

#include <fcntl.h>
#include <link.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "agent/image.h"
#include "agent/syscall.h"

static char found[4096];
static long found_bytes;
static char lines[4096 + 128]; /* of /proc/self/maps, as much as is there of one */

static const char *read_hex(const char *at, uint64_t *ret)
{
	*ret = 0;
	for (;; at++) {
		unsigned int digit = (unsigned int)(unsigned char)*at - '0';

		if (digit > 9) {
			digit = (unsigned int)(unsigned char)*at - 'a' + 10;
			if (digit < 10 || digit > 15)
				return at;
		}
		*ret = *ret << 4 | digit;
	}
}

/* START-STOP PERMISSIONS OFFSET DEVICE INODE PATH; the line ends in a NUL. */
static bool is_line_of(const char *line, uint64_t address)
{
	uint64_t start, stop;
	const char *at = read_hex(line, &start);

	if (*at != '-')
		return false;
	read_hex(at + 1, &stop);
	const char *path = strchr(line, '/');

	if (address < start || address >= stop || !path)
		return false;
	found_bytes = (long)strlen(path);
	if ((size_t)found_bytes > sizeof(found))
		found_bytes = 0;
	memcpy(found, path, (size_t)found_bytes);
	return true;
}

/* Takes whole lines off; what is left of the last moves to the front. *ret = it was there. */
static size_t take_lines(size_t held, uint64_t address, bool *ret)
{
	char *line = lines, *end;

	while (!*ret && (end = memchr(line, '\n', held))) {
		*end = '\0';
		*ret = is_line_of(line, address);
		held -= (size_t)(end + 1 - line);
		line = end + 1;
	}
	memmove(lines, line, held);
	return held;
}

static void find_by_maps(uint64_t address)
{
	int fd = (int)sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	size_t held = 0;
	bool done = false;

	while (fd >= 0 && !done && held < sizeof(lines)) {
		long n = sys_read(fd, lines + held, sizeof(lines) - held);

		if (n <= 0)
			break;
		held = take_lines(held + (size_t)n, address, &done);
	}
	if (fd >= 0)
		sys_close(fd);
}

/* Absolute, and nothing in it that a look-up would take out. */
static bool is_plain(const char *path)
{
	for (const char *c = path; *c == '/'; c += strcspn(c, "/")) {
		c++;
		if (*c == 0 || *c == '/' ||
		    (*c == '.' &&
		     (c[1] == 0 || c[1] == '/' || (c[1] == '.' && (c[2] == 0 || c[2] == '/')))))
			return false;
	}
	return *path == '/';
}

/* The file there begins as the program does: it is no script, nor in the program's place since. */
static bool is_program(int fd)
{
	uintptr_t headers = getauxval(AT_PHDR);
	Elf64_Ehdr header;

	return headers % 4096 == sizeof(header) &&
	       sys_call6(SYS_pread64, fd, (long)&header, sizeof(header), 0, 0, 0) ==
		       (long)sizeof(header) &&
	       memcmp(&header, (const void *)(headers - sizeof(header)), sizeof(header)) == 0;
}

/* The path it was executed by, where no link is in it: a fourth of what /proc costs at its first
 * use in a process. A filter of system calls need not know openat2. */
static void find_by_call(void)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	const char *path = (const char *)getauxval(AT_EXECFN);

	if (!path || !is_plain(path) || strlen(path) > sizeof(found) ||
	    sys_prctl(PR_GET_SECCOMP, 0) != 0)
		return;
	int fd = (int)sys_call6(SYS_openat2, AT_FDCWD, (long)path, (long)&how, sizeof(how), 0, 0);

	if (fd < 0)
		return;
	if (is_program(fd)) {
		found_bytes = (long)strlen(path);
		memcpy(found, path, (size_t)found_bytes);
	}
	sys_close(fd);
}

long program_path(char *to, size_t bytes)
{
	const struct link_map *first = image_first();

	if (found_bytes == 0 && first && getauxval(AT_BASE) == 0)
		find_by_maps((uintptr_t)first->l_ld);
	else if (found_bytes == 0)
		find_by_call();
	if (found_bytes == 0)
		found_bytes = sys_readlink("/proc/self/exe", found, sizeof(found));
	if (found_bytes <= 0 || (size_t)found_bytes > bytes) {
		found_bytes = 0;
		return 0;
	}
	memcpy(to, found, (size_t)found_bytes);
	return found_bytes;
}
