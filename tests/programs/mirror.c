/*
 * mirror [THEN…]: prints what a process can see of itself: arguments, environment, descriptors,
 * signals, limits, threads, what the kernel keeps for it. THEN is done first,
 * word by word:
 *   work     allocates, frees, and lets a thread do so
 *   fork     goes on in a child of fork, for whose end the parent waits
 *   close    closes every descriptor above 2 and opens /dev/null three times
 *   exec     executes itself with the words that follow
 *   map      maps, moves and unmaps some pages
 *   proc     at the end: prints what /proc tells, too: signals, rights, what is mapped
 * Whatever differs from run to run in any case (addresses, pids, times) is not printed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void say_environment(char **argv, char **envp)
{
	char cwd[4096];
	mode_t mask = umask(0);

	umask(mask);
	for (char **word = argv; *word; word++)
		printf("argument %s\n", *word);
	for (char **e = environ; *e; e++)
		printf("environ %s\n", *e);
	for (char **e = envp; *e; e++)
		printf("envp %s\n", *e);
	printf("preload %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
	printf("directory %s\numask %o\n", getcwd(cwd, sizeof(cwd)) ? cwd : "?", mask);
}

static void say_descriptors(void)
{
	for (int fd = 0; fd < 256; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || fstat(fd, &st) != 0)
			continue;
		printf("descriptor %d flags %x %x mode %o offset %ld\n", fd, (unsigned)flags,
		       (unsigned)fcntl(fd, F_GETFL), (unsigned)st.st_mode,
		       (long)lseek(fd, 0, SEEK_CUR) * !!S_ISREG(st.st_mode));
	}
}

static void say_signals(void)
{
	sigset_t blocked, pending;
	stack_t stack;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	sigpending(&pending);
	for (int s = 1; s < NSIG; s++) {
		struct sigaction action;
		const char *how = "other";

		if (sigaction(s, NULL, &action) != 0)
			continue;
		if (action.sa_handler == SIG_DFL)
			how = "default";
		else if (action.sa_handler == SIG_IGN)
			how = "ignored";
		printf("signal %d %s flags %x%s%s\n", s, how, (unsigned)action.sa_flags,
		       sigismember(&blocked, s) == 1 ? " blocked" : "",
		       sigismember(&pending, s) == 1 ? " pending" : "");
	}
	sigaltstack(NULL, &stack);
	printf("alternate stack %x %zu\n", (unsigned)stack.ss_flags, stack.ss_size);
}

static void say_limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;

		if (getrlimit(i, &limit) == 0)
			printf("limit %d %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
	}
	for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++) {
		struct itimerval timer;

		getitimer(i, &timer);
		printf("timer %d %d\n", i, timer.it_value.tv_sec || timer.it_value.tv_usec);
	}
	printf("nice %d scheduler %d personality %x\n", getpriority(PRIO_PROCESS, 0),
	       sched_getscheduler(0), (unsigned)personality(0xffffffff));
}

static void say_kept(void)
{
	static const int asked[] = {PR_GET_DUMPABLE,    PR_GET_KEEPCAPS, PR_GET_NO_NEW_PRIVS,
				    PR_GET_THP_DISABLE, PR_GET_SECCOMP,  PR_GET_TIMERSLACK,
				    PR_GET_SECUREBITS};
	int value = 0;
	char name[17] = "";

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		printf("kept %d %d\n", asked[i], prctl(asked[i], 0, 0, 0, 0));
	prctl(PR_GET_PDEATHSIG, &value);
	printf("death signal %d\n", value);
	prctl(PR_GET_CHILD_SUBREAPER, &value);
	prctl(PR_GET_NAME, name);
	printf("subreaper %d name %s\n", value, name);
	errno = 0;
	printf("children %d %s\n", waitpid(-1, NULL, WNOHANG) == -1, strerror(errno));
	printf("locale %s\n", setlocale(LC_ALL, NULL));
}

/* What is an address, or differs anyway, is left out. */
static void say_auxiliary(void)
{
	static const unsigned long asked[] = {AT_PAGESZ, AT_FLAGS,  AT_UID,    AT_EUID,
					      AT_GID,    AT_EGID,   AT_SECURE, AT_CLKTCK,
					      AT_HWCAP,  AT_HWCAP2, AT_PHENT,  AT_PHNUM};

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		printf("auxiliary %lu %lx\n", asked[i], getauxval(asked[i]));
	printf("executed %s\n", (const char *)getauxval(AT_EXECFN));
}

static void say_status(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "Threads", 7) == 0 ||
		    (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0) ||
		    strncmp(line, "Shd", 3) == 0 || strncmp(line, "Cap", 3) == 0 ||
		    strncmp(line, "NoNew", 5) == 0 || strncmp(line, "Seccomp", 7) == 0)
			printf("status %s", line);
	if (file)
		fclose(file);
}

static int say_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	printf("object %s\n", info->dlpi_name);
	return 0;
}

/* By name and access, each once; neighbours may or may not be merged. */
static void say_mappings(void)
{
	static char seen[256][600];
	char line[600];
	size_t n = 0;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && fgets(line, sizeof(line), file)) {
		char access[8] = "", name[512] = "anonymous";
		char entry[600];
		size_t i = 0;

		if (sscanf(line, "%*s %7s %*s %*s %*s %511[^\n]", access, name) < 1)
			continue;
		snprintf(entry, sizeof(entry), "mapping %s %s", access, name);
		while (i < n && strcmp(seen[i], entry) != 0)
			i++;
		if (i == n && n < sizeof(seen) / sizeof(*seen))
			puts(strcpy(seen[n++], entry));
	}
	if (file)
		fclose(file);
}

static void *churn(void *unused)
{
	for (size_t i = 1; i < 2000; i++)
		free(realloc(malloc(i), 2 * i));
	return unused;
}

static void work(void)
{
	pthread_t thread;

	churn(NULL);
	if (pthread_create(&thread, NULL, churn, NULL) == 0)
		pthread_join(thread, NULL);
}

static void go_on_in_child(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid <= 0)
		return;
	if (waitpid(pid, &status, 0) != pid)
		exit(9);
	printf("child ended %x\n", (unsigned)status);
	exit(0);
}

static void reopen(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	for (int i = 0; i < 3; i++)
		printf("opened %d\n", open("/dev/null", O_RDONLY));
}

static void map(void)
{
	size_t bytes = 1 << 20;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	at = mremap(at, bytes, 4 * bytes, MREMAP_MAYMOVE);
	printf("mapped %d\n", at != MAP_FAILED);
	munmap(at, 4 * bytes);
}

int main(int argc, char **argv, char **envp)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "work") == 0)
			work();
		else if (strcmp(argv[i], "fork") == 0)
			go_on_in_child();
		else if (strcmp(argv[i], "close") == 0)
			reopen();
		else if (strcmp(argv[i], "map") == 0)
			map();
		else if (strcmp(argv[i], "exec") == 0 && fflush(stdout) == 0)
			return execv("/proc/self/exe", argv + i) + 10;
	}
	say_environment(argv, envp);
	say_descriptors();
	say_signals();
	say_limits();
	say_kept();
	say_auxiliary();
	if (argc > 1 && strcmp(argv[argc - 1], "proc") == 0) {
		say_status();
		dl_iterate_phdr(say_object, NULL);
		say_mappings();
	}
	say_descriptors();
	return 0;
}
