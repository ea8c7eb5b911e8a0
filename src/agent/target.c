#include "agent/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/core.h"
#include "agent/environ.h"
#include "agent/seccomp.h"
#include "agent/syscall.h"

#define LOADER        "ld-linux-x86-64.so.2"
#define HEAD_BYTES    2048u
#define MAX_SEGMENTS  512u
#define MAX_SCRIPTS   4 /* an interpreter may be a script: the kernel's own limit */
#define DEFAULT_PATHS "/bin:/usr/bin"

/* execve(2), "Limits on size of arguments and environment". */
#define ARGUMENTS_LEAST ((size_t)128 << 10)
#define ARGUMENTS_MOST  ((size_t)6 << 20)
#define ARGUMENT_MOST   ((size_t)128 << 10) /* bytes of one */

enum kind { KIND_LOADS, KIND_REFUSES, KIND_SCRIPT };

/* The two halves of the room. */
struct room {
	_Alignas(16) unsigned char head[HEAD_BYTES];
	_Alignas(16) char path[PATH_MAX];
};
_Static_assert(sizeof(struct room) <= TARGET_ROOM, "room");

static long read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return sys_call6(SYS_pread64, fd, (long)to, (long)bytes, (long)offset, 0, 0);
}

static bool is_loader(const char *path, size_t n)
{
	const size_t length = sizeof(LOADER) - 1;

	return n >= length && memcmp(path + n - length, LOADER, length) == 0 &&
	       (n == length || path[n - length - 1] == '/');
}

/* Whether the loader would run in secure mode, which ignores LD_PRELOAD. */
static bool changes_ids(int fd, const struct stat *st)
{
	uint32_t uid = (uint32_t)sys_call3(SYS_geteuid, 0, 0, 0);
	uint32_t gid = (uint32_t)sys_call3(SYS_getegid, 0, 0, 0);

	if ((st->st_mode & S_ISUID) && st->st_uid != uid)
		return true;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != gid)
		return true;
	/* An inherited filter lets the loader's calls pass, but not surely this one. */
	return uid != 0 && sys_prctl(PR_GET_SECCOMP, 0) == 0 &&
	       sys_call6(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) > 0;
}

/* The file under inspection. */
struct elf {
	int fd;
	struct room *room;
	size_t head_bytes;
	Elf64_Ehdr header;
};

/* From the head where it has that, which is nearly always. */
static long elf_read(const struct elf *elf, void *to, size_t bytes, uint64_t offset)
{
	if (offset > elf->head_bytes || bytes > elf->head_bytes - offset)
		return read_at(elf->fd, to, bytes, offset);
	memcpy(to, elf->room->head + offset, bytes);
	return (long)bytes;
}

/* The first segment of a type; of PT_LOAD the one that holds an address. */
static bool find_segment(const struct elf *elf, uint32_t type, uint64_t address, Elf64_Phdr *ret)
{
	for (unsigned i = 0; i < elf->header.e_phnum && i < MAX_SEGMENTS; i++) {
		if (elf_read(elf, ret, sizeof(*ret), elf->header.e_phoff + i * sizeof(*ret)) !=
		    sizeof(*ret))
			return false;
		if (ret->p_type == type &&
		    (type != PT_LOAD || address - ret->p_vaddr < ret->p_filesz))
			return true;
	}
	return false;
}

/* PT_INTERP's path is that of the loader the agent needs. */
static bool has_loader(const struct elf *elf)
{
	char *name = elf->room->path;
	size_t n = sizeof(elf->room->path);
	Elf64_Phdr ph = {0};
	long got;

	if (!find_segment(elf, PT_INTERP, 0, &ph))
		return false;
	got = elf_read(elf, name, ph.p_filesz < n ? ph.p_filesz : n, ph.p_offset);
	return got <= 0 || is_loader(name, strnlen(name, (size_t)got));
}

static bool needs_to_be_alone(const struct elf *elf)
{
	Elf64_Dyn *dynamic = (Elf64_Dyn *)elf->room->path;
	uint64_t names = 0;
	Elf64_Phdr ph = {0};
	char name[24] = "";
	long n;

	if (!find_segment(elf, PT_DYNAMIC, 0, &ph))
		return false;
	n = read_at(elf->fd, dynamic, HEAD_BYTES, ph.p_offset);
	n = n < 0 ? 0 : n / (long)sizeof(*dynamic);
	for (long i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag == DT_STRTAB)
			names = dynamic[i].d_un.d_ptr;
	}
	if (!find_segment(elf, PT_LOAD, names, &ph))
		return false;
	names += ph.p_offset - ph.p_vaddr;
	for (long i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag == DT_NEEDED &&
		    read_at(elf->fd, name, sizeof(name) - 1, names + dynamic[i].d_un.d_val) > 0 &&
		    environ_is_first_or_nothing(name))
			return true;
	}
	return false;
}

static enum kind elf_kind(int fd, struct room *room, size_t n)
{
	struct elf elf = {.fd = fd, .room = room, .head_bytes = n};

	if (n < sizeof(elf.header))
		return KIND_REFUSES;
	memcpy(&elf.header, room->head, sizeof(elf.header));
	if (elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_machine != EM_X86_64 ||
	    elf.header.e_phentsize != sizeof(Elf64_Phdr))
		return KIND_REFUSES;
	return has_loader(&elf) && !needs_to_be_alone(&elf) ? KIND_LOADS : KIND_REFUSES;
}

/* "#! interpreter argument": the interpreter goes to room->path. */
static enum kind script_kind(struct room *room, size_t n)
{
	const char *s = (const char *)room->head + 2, *stop = (const char *)room->head + n;
	const char *from;

	while (s < stop && (*s == ' ' || *s == '\t'))
		s++;
	for (from = s; s < stop && *s && !strchr(" \t\n", *s); s++)
		;
	if (s == from || (size_t)(s - from) >= sizeof(room->path))
		return KIND_LOADS;
	memmove(room->path, from, (size_t)(s - from));
	room->path[s - from] = 0;
	return KIND_SCRIPT;
}

static enum kind file_kind(int fd, const char *path, struct room *room)
{
	struct stat st = {0};
	long n;

	if (sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return KIND_LOADS;
	n = read_at(fd, room->head, sizeof(room->head), 0);
	if (n >= 2 && room->head[0] == '#' && room->head[1] == '!')
		return script_kind(room, (size_t)n);
	if (n < SELFMAG || memcmp(room->head, ELFMAG, SELFMAG) != 0)
		return KIND_LOADS; /* a shell's, or none at all */
	if (changes_ids(fd, &st))
		return KIND_REFUSES;
	if (is_loader(path, strlen(path)))
		return KIND_LOADS;
	return elf_kind(fd, room, (size_t)n);
}

/* The file itself, and the interpreters it leads to. */
static bool loads(int dir, const char *path, int flags, struct room *room)
{
	enum kind kind = KIND_SCRIPT;

	for (int n = 0; kind == KIND_SCRIPT && n <= MAX_SCRIPTS; n++) {
		/* Never blocks on a FIFO, never becomes the terminal of a session. */
		int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
			  (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
		int fd;

		if (*path == 0 && (flags & AT_EMPTY_PATH))
			return file_kind(dir, path, room) != KIND_REFUSES;
		fd = (int)sys_call6(SYS_openat, dir, (long)path, how, 0, 0, 0);
		if (fd < 0)
			return true;
		kind = file_kind(fd, path, room);
		sys_close(fd);
		dir = AT_FDCWD;
		flags = 0;
		path = room->path;
	}
	return kind != KIND_REFUSES;
}

static const char *search_list(void)
{
	for (char **e = environ; e && *e; e++) {
		if (strncmp(*e, "PATH=", 5) == 0)
			return *e + 5;
	}
	return DEFAULT_PATHS;
}

/* The first directory of PATH that has the program: what execvp would start. */
static bool search_path(const char *name, struct room *room)
{
	size_t length = strlen(name);

	for (const char *p = search_list();; p++) {
		size_t n = strcspn(p, ":");

		if (n + 1 + length < sizeof(room->path)) {
			memcpy(room->path, p, n);
			room->path[n] = '/';
			memcpy(room->path + n + (n > 0), name, length + 1);
			if (sys_call3(SYS_access, (long)room->path, X_OK, 0) == 0)
				return true;
		}
		p += n;
		if (*p == 0)
			return false;
	}
}

/* Under a filter of the program's, looking could be forbidden at the price of death. */
static bool may_look(void) { return !agent_frozen && !agent_filtered; }

/* The kernel has the loader ignore LD_PRELOAD where an exec leaves them different. */
static bool ids_differ(void)
{
	return sys_call3(SYS_geteuid, 0, 0, 0) != sys_call3(SYS_getuid, 0, 0, 0) ||
	       sys_call3(SYS_getegid, 0, 0, 0) != sys_call3(SYS_getgid, 0, 0, 0);
}

static bool loads_from(const char *file)
{
	struct statfs fs = {0};

	/* access(2) judges without the capabilities that an exec takes away. */
	return sys_call3(SYS_access, (long)file, R_OK, 0) == 0 &&
	       (sys_call3(SYS_statfs, (long)file, (long)&fs, 0) != 0 || !(fs.f_flags & ST_NOEXEC));
}

/* Without a collector one that finds no file makes its own. */
static bool joins(const char *session)
{
	long ret = session ? sys_call3(SYS_access, (long)session, R_OK | W_OK, 0) : 0;

	return ret == 0 || (ret == -ENOENT && environ_value(ENVIRON_OUT));
}

bool target_reaches(void)
{
	return !may_look() || (!ids_differ() && loads_from(environ_value(ENVIRON_PRELOAD)) &&
			       joins(environ_value(ENVIRON_SESSION)));
}

bool target_takes(char *const envp[], size_t arguments)
{
	size_t bytes = arguments + environ_bytes(envp), limit = ARGUMENTS_LEAST;
	size_t ours = strlen(environ_value(ENVIRON_PRELOAD)) + 2;
	struct rlimit stack = {0, 0};

	for (size_t i = 0; envp && envp[i]; i++) {
		size_t n = strlen(envp[i]);

		bytes += n + 1;
		if (strncmp(envp[i], "LD_PRELOAD=", 11) == 0 && n + ours > ARGUMENT_MOST)
			return false;
	}
	if (bytes <= limit)
		return true;
	if (!may_look() || sys_getrlimit(RLIMIT_STACK, &stack) != 0)
		return false;
	limit = stack.rlim_cur / 4;
	return bytes <= (limit < ARGUMENTS_MOST ? limit : ARGUMENTS_MOST);
}

bool target_loads_agent(int dir, const char *path, int flags, bool search, void *memory)
{
	struct room *room = memory;

	if (!path || !may_look())
		return true;
	if (search && *path && !strchr(path, '/')) {
		if (!search_path(path, room))
			return true;
		path = room->path;
	}
	return loads(dir, path, flags, room);
}
