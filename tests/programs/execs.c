/*
 * execs HOW PROGRAM [FILE]: starts PROGRAM (FILE where PATH is searched) with the arguments
 * "shown", "", "two words" in the way named HOW, and passes its exit status on. Ways that
 * take an environment give one of their own. "failing" tries a file that is not there in every way
 * first; "vforks" starts it 200 times from vfork children and says if memory grew.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS "shown", "", "two words"

static char *const arguments[] = {ARGUMENTS, NULL};
static char *const own[] = {"OWN=1", "LD_LIBRARY_PATH=", "Z", NULL};

static int finish(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 90;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

static int spawn(const char *path, char *const envp[], int search)
{
	pid_t pid;
	int error = search ? posix_spawnp(&pid, path, NULL, NULL, arguments, envp)
			   : posix_spawn(&pid, path, NULL, NULL, arguments, envp);

	return error ? (errno = error, -1) : finish(pid);
}

/* Returns only where the program was not started, or is another process. */
static int start(const char *how, const char *path, const char *file)
{
#define IS(name) (strcmp(how, name) == 0)
	if (IS("execve"))
		return execve(path, arguments, own);
	if (IS("execve_null"))
		return execve(path, arguments, NULL);
	if (IS("execv"))
		return execv(path, arguments);
	if (IS("execvp"))
		return execvp(file, arguments);
	if (IS("execvpe"))
		return execvpe(file, arguments, own);
	if (IS("execl"))
		return execl(path, ARGUMENTS, (char *)NULL);
	if (IS("execlp"))
		return execlp(file, ARGUMENTS, (char *)NULL);
	if (IS("execle"))
		return execle(path, ARGUMENTS, (char *)NULL, own);
	if (IS("fexecve"))
		return fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, own);
	if (IS("execveat"))
		return execveat(AT_FDCWD, path, arguments, own, 0);
	if (IS("execveat_fd"))
		return execveat(open(path, O_PATH | O_CLOEXEC), "", arguments, own, AT_EMPTY_PATH);
	if (IS("posix_spawn"))
		return spawn(path, own, 0);
	if (IS("posix_spawn_null"))
		return spawn(path, NULL, 0);
	if (IS("posix_spawnp"))
		return spawn(file, environ, 1);
	return 92;
}

static const char *const ways[] = {"execve",   "execv",       "execvp",      "execvpe",
				   "execl",    "execlp",      "execle",      "fexecve",
				   "execveat", "posix_spawn", "posix_spawnp"};

static int fail_all(void)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int expected = strcmp(ways[i], "fexecve") == 0 ? EBADF : ENOENT;

		errno = 0;
		if (start(ways[i], "/nowhere/program", "no-such-program") != -1 ||
		    (errno != expected && errno != EINVAL)) {
			printf("%s: %s\n", ways[i], strerror(errno));
			return 93;
		}
	}
	return 0;
}

static long mappings(void)
{
	char line[512];
	long n = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		n++;
	if (maps)
		fclose(maps);
	return n;
}

static pid_t vfork_one(const char *path, int as_list)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (as_list)
			execl(path, ARGUMENTS, (char *)NULL);
		else
			execv(path, arguments);
		_exit(94);
	}
	return pid;
}

static int vfork_many(const char *path)
{
	long before = 0;
	int status = 0;

	for (int i = 0; i < 200 && status == 0; i++) {
		status = finish(vfork_one(path, i % 2));
		if (i == 20)
			before = mappings();
	}
	if (mappings() > before + 2)
		return 95;
	return status;
}

int main(int argc, char **argv)
{
	const char *how = argv[1], *path = argv[2], *file = argc > 3 ? argv[3] : path;
	int failed;

	if (strcmp(how, "failing") == 0) {
		failed = fail_all();
		return failed ? failed : start("execv", path, file);
	}
	if (strcmp(how, "vforks") == 0)
		return vfork_many(path);
	if (strcmp(how, "vfork") == 0)
		return finish(vfork_one(path, 0));
	if (strcmp(how, "fork") == 0) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(start("execv", path, file));
		return finish(pid);
	}
	return start(how, path, file);
}
