#include "collect/program.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "collect/elf.h"

/* The kernel's own bounds: BINPRM_BUF_SIZE, and the interpreters in a row it follows. */
#define SCRIPT_LINE  256
#define MAX_SCRIPTS  5
#define SCRIPT_SHELL "/bin/sh"
#define GLIBC_LOADER "ld-linux-x86-64.so.2"
#define MUSL_LOADER  "ld-musl-"

void collect_program_free(struct collect_program *program)
{
	free(program->path);
	free(program->image);
	memset(program, 0, sizeof(*program));
}

/* 0, or why path cannot be executed. */
static int executable_errno(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static struct error *not_startable(const char *name, int errnum, int *exit_code)
{
	if (errnum == ENOENT) {
		*exit_code = COLLECT_EXIT_NOT_FOUND;
		if (strchr(name, '/'))
			return error_create_path(ERROR_NOT_FOUND, name, "no such program");
		return error_remedy(
			error_create(ERROR_NOT_FOUND, "%s: no such program in PATH", name),
			"A program in this directory is called ./NAME; mallograph --help lists the "
			"commands.");
	}
	*exit_code = COLLECT_EXIT_NOT_EXECUTABLE;
	if (errnum == EISDIR)
		return error_create_path(ERROR_REFUSED, name, "cannot be executed: a directory");

	struct error *error = error_create_system(errnum, name, "cannot be executed");

	return errnum == EACCES && access(name, F_OK) == 0
		       ? error_remedy(error, "If it is a program, chmod +x makes it executable.")
		       : error;
}

/* As execvp(3): an empty element is the working directory; a file that may not be
 * executed is remembered and the search goes on. */
static struct error *search_path(const char *name, char **ret, int *exit_code)
{
	const char *list = getenv("PATH");
	int denied = 0;

	if (!list)
		list = "/bin:/usr/bin";
	for (const char *element = list;; element++) {
		size_t length = strcspn(element, ":");
		CLEANUP_FREE char *path = NULL;

		if (asprintf(&path, "%.*s%s%s", (int)length, element, length ? "/" : "", name) <
		    0) {
			path = NULL;
			return error_no_memory();
		}
		int errnum = executable_errno(path);

		if (errnum == 0) {
			*ret = STEAL(path);
			return NULL;
		}
		if (errnum == EACCES)
			denied = errnum;
		element += length;
		if (*element == '\0')
			break;
	}
	return not_startable(name, denied ? denied : ENOENT, exit_code);
}

static struct error *find_path(const char *name, char **ret, int *exit_code)
{
	if (!strchr(name, '/') && *name)
		return search_path(name, ret, exit_code);

	int errnum = *name ? executable_errno(name) : ENOENT;

	if (errnum)
		return not_startable(name, errnum, exit_code);
	*ret = strdup(name);
	return *ret ? NULL : error_no_memory();
}

/* The interpreter a #! line names. Returns 0, or the exit the kernel would make: its
 * errno. interpreter has SCRIPT_LINE bytes. */
static int script_interpreter(char line[SCRIPT_LINE + 1], size_t bytes, char *interpreter)
{
	line[bytes] = '\0';
	char *start = line + 2 + strspn(line + 2, " \t");
	size_t length = strcspn(start, " \t\n");

	if (length == 0 || (start[length] == '\0' && bytes == SCRIPT_LINE))
		return ENOEXEC;
	memcpy(interpreter, start, length);
	interpreter[length] = '\0';
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Why the agent cannot be loaded into a program; all NULL = it can. */
struct refusal {
	const char *why;
	const char *more; /* of why, where there is room for it */
	const char *remedy;
	const char *name; /* ends it; NULL = nothing does */
};

static struct refusal because(const char *why, const char *more, const char *remedy)
{
	return (struct refusal){why, more, remedy, NULL};
}

static struct refusal elf_refusal(const struct collect_elf *elf)
{
	if (!elf->is_64)
		return because("a 32-bit program", "; only 64-bit ones can be recorded",
			       "Build it with -m64.");
	if (elf->machine != EM_X86_64 || !elf->little_endian)
		return because("built for another processor", "; only x86-64 can be recorded",
			       "Build it for x86-64.");
	bool is_static = elf->link == COLLECT_ELF_STATIC || elf->link == COLLECT_ELF_STATIC_PIE;

	if (is_static && elf->is_appimage)
		return because("an AppImage", " that starts with a statically linked program",
			       "Unpack it (--appimage-extract) and record squashfs-root/AppRun.");
	if (is_static)
		return because("statically linked", ": there is no loader to preload the agent",
			       "Link it dynamically (leave out -static and -static-pie).");
	if (elf->link == COLLECT_ELF_LOADER)
		return (struct refusal){.why = NULL};
	if (strncmp(base_name(elf->loader), MUSL_LOADER, strlen(MUSL_LOADER)) == 0)
		return because("linked with musl", "; the agent needs the GNU C library",
			       "Build it against glibc.");
	if (strcmp(base_name(elf->loader), GLIBC_LOADER) != 0)
		return (struct refusal){"its loader is not glibc's", ": ",
					"Build it against glibc.", elf->loader};
	if (elf->must_be_first)
		return because(COLLECT_PROGRAM_SANITIZED,
			       ", which must be the first library, and so must the agent",
			       "Build it without -fsanitize.");
	if (elf->sanitizer)
		return because(COLLECT_PROGRAM_SANITIZED,
			       ", whose allocator the agent does not see",
			       "Build it without -fsanitize.");
	return (struct refusal){.why = NULL};
}

/* A program that changes who it is makes the loader ignore LD_PRELOAD. */
static struct refusal privileges_refusal(int fd, const struct stat *st, const struct statvfs *fs)
{
	const char *remedy = "Run mallograph as the user it changes to, or record a copy of it "
			     "(cp drops the bits).";

	if ((fs->f_flag & ST_NOSUID) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return (struct refusal){.why = NULL};
	if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
		return because("setuid", ": it runs as another user, without the agent", remedy);
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid())
		return because("setgid", ": it runs as another group, without the agent", remedy);
	if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return because("has file capabilities", ": it runs without the agent",
			       "Record a copy of it (cp drops them), or run mallograph as root.");
	return (struct refusal){.why = NULL};
}

static struct error *refuse(struct collect_program *program, const struct refusal *refusal)
{
	if (!refusal->why)
		return NULL;
	program->why = refusal->why;
	return error_remedy(error_create(ERROR_REFUSED, "cannot record %s: %s%s%s", program->image,
					 refusal->why, refusal->more,
					 refusal->name ? refusal->name : ""),
			    "%s", refusal->remedy);
}

static struct error *check_elf(struct collect_program *program, const struct collect_elf *elf)
{
	struct refusal refusal = elf_refusal(elf);

	TRY(refuse(program, &refusal));
	if (elf->link != COLLECT_ELF_LOADER && access(elf->loader, F_OK) != 0)
		return error_remedy(error_create_system(errno, elf->loader,
							"the dynamic loader of %s is missing",
							program->image),
				    "Install the C library it was built for.");
	return NULL;
}

static struct error *check_privileges(int fd, struct collect_program *program)
{
	struct stat st;
	struct statvfs fs;

	if (fstat(fd, &st) != 0 || fstatvfs(fd, &fs) != 0)
		return error_create_system(errno, program->image, "cannot examine the program");
	struct refusal refusal = privileges_refusal(fd, &st, &fs);

	return refuse(program, &refusal);
}

static struct error *check_image(int fd, struct collect_program *program, int *exit_code)
{
	struct collect_elf elf;

	*exit_code = COLLECT_EXIT_FAILED;
	TRY(collect_elf_read(fd, program->image, &elf));
	if (!elf.is_elf) {
		*exit_code = COLLECT_EXIT_NOT_EXECUTABLE;
		return error_create_path(ERROR_REFUSED, program->image,
					 "cannot be executed: not a program");
	}
	TRY(check_elf(program, &elf));
	TRY(check_privileges(fd, program));
	return NULL;
}

/* Make the interpreter of a script the image; what is not a script or a program is
 * the shell's, as for execvp(3). */
static struct error *follow_script(struct collect_program *program, char line[SCRIPT_LINE + 1],
				   size_t bytes, int *exit_code)
{
	char interpreter[SCRIPT_LINE + 1] = SCRIPT_SHELL;
	int errnum = 0;

	if (bytes >= 2 && memcmp(line, "#!", 2) == 0)
		errnum = script_interpreter(line, bytes, interpreter);
	if (!errnum)
		errnum = executable_errno(interpreter);
	if (errnum) {
		*exit_code =
			errnum == ENOENT ? COLLECT_EXIT_NOT_FOUND : COLLECT_EXIT_NOT_EXECUTABLE;
		return error_remedy(error_create_system(errnum, interpreter,
							"%s: its interpreter cannot be executed",
							program->image),
				    "Mend its first line.");
	}
	free(program->image);
	program->image = strdup(interpreter);
	return program->image ? NULL : error_no_memory();
}

static struct error *check_program(struct collect_program *program, int *exit_code)
{
	for (int scripts = 0; scripts <= MAX_SCRIPTS; scripts++) {
		CLEANUP_FD int fd =
			open(program->image, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		char line[SCRIPT_LINE + 1];

		/* One may execute what one may not read: the loader will tell. */
		if (fd < 0 && errno == EACCES)
			return NULL;
		if (fd < 0)
			return error_create_system(errno, program->image, "cannot be read");
		ssize_t bytes = pread(fd, line, SCRIPT_LINE, 0);

		if (bytes < 0)
			return error_create_system(errno, program->image, "cannot be read");
		bool is_elf = bytes >= SELFMAG && memcmp(line, ELFMAG, SELFMAG) == 0;

		if (is_elf || (scripts > 0 && (bytes < 2 || memcmp(line, "#!", 2) != 0)))
			return check_image(fd, program, exit_code);
		TRY(follow_script(program, line, (size_t)bytes, exit_code));
	}
	*exit_code = COLLECT_EXIT_NOT_EXECUTABLE;
	return error_create_system(ELOOP, program->path, "cannot be executed");
}

struct error *collect_program_find(const char *name, struct collect_program *ret, int *exit_code)
{
	*exit_code = COLLECT_EXIT_FAILED;
	TRY(find_path(name, &ret->path, exit_code));
	ret->image = strdup(ret->path);
	if (!ret->image)
		return error_no_memory();
	return check_program(ret, exit_code);
}

const char *collect_program_why_missed(const char *name)
{
	CLEANUP(collect_program_free) struct collect_program program = {.path = NULL};
	int exit_code;

	error_free(collect_program_find(name, &program, &exit_code));
	if (program.why && strstr(program.image, "/valgrind/"))
		return "Valgrind: record what runs in it without it";
	return program.why;
}
