#include "collect/watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"

#define FIRST_TICK_MS 10
#define LAST_TICK_MS  1000

struct watch {
	pid_t pid;
	const struct collect_signals *signals;
	struct collect_session *session;
	struct collect_end end;
	bool ended;
	struct error *error;
	bool terminal_stop; /* the terminal asked us to stop since the last one we joined */
	int tick_ms;
	uint64_t tick_due_ns;
	struct collect_snapshots *snapshots;
	struct collect_retiring *retiring;
};

/* One line of /proc/PID/status, which takes none of the target's locks. */
static bool read_status(pid_t pid, const char *key, char *value, size_t size)
{
	char path[32], text[4096], line[32];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (bytes <= 0)
		return false;
	text[bytes] = '\0';
	snprintf(line, sizeof(line), "\n%s:\t", key);
	const char *at = strstr(text, line);

	if (!at)
		return false;
	at += strlen(line);
	snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
	return true;
}

static bool is_stopped(pid_t pid)
{
	char state[32];

	return read_status(pid, "State", state, sizeof(state)) && state[0] == 'T';
}

static void see_rss(struct watch *watch)
{
	char text[32];
	uint64_t kib;

	if (read_status(watch->pid, "VmHWM", text, sizeof(text)) &&
	    sscanf(text, "%" SCNu64, &kib) == 1)
		watch->end.rss_seen = kib << 10;
}

/* Whether the terminal's keyboard is ours, so that a shell waits for us to stop. */
static bool in_foreground(void)
{
	CLEANUP_FD int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd >= 0 && tcgetpgrp(fd) == getpgrp();
}

/* The target stopped. Where that is job control, the shell waits for this process and
 * must see it stop too. Where somebody stopped the target alone, nobody would ever
 * continue us. */
static void join_stop(struct watch *watch, int number)
{
	sigset_t only;
	bool joins =
		number == SIGTTIN || number == SIGTTOU || watch->terminal_stop || in_foreground();

	watch->terminal_stop = false;
	if (!joins || getpgid(watch->pid) != getpgrp())
		return;
	if (number == SIGSTOP)
		number = SIGTSTP; /* which, unlike it, spares an orphaned process group */
	sigemptyset(&only);
	sigaddset(&only, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	sigprocmask(SIG_BLOCK, &only, NULL);
}

static void reap(struct watch *watch)
{
	struct rusage usage;
	int status;
	pid_t pid;

	/* Any child: as a container's first process we also get everybody's orphans. */
	while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0) {
		if (pid != watch->pid)
			continue;
		if (WIFSTOPPED(status)) {
			join_stop(watch, WSTOPSIG(status));
			continue;
		}
		watch->ended = true;
		watch->end.by_signal = WIFSIGNALED(status);
		watch->end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
		watch->end.ns = clock_now_ns();
		watch->end.rss_peak = (uint64_t)usage.ru_maxrss << 10;
	}
	if (pid < 0 && !watch->ended)
		watch->error = error_create_system(errno, NULL, "lost sight of the program");
}

/* What the terminal sends goes to the whole process group, so the target has it. What a
 * process sent to us was meant for what it takes us for; but what the target itself
 * sent to its group or its parent must not come back to it. */
static bool is_for_target(const struct watch *watch, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCHLD)
		return false;
	/* A timer set before we were executed was the program's. */
	if (info->ssi_signo == SIGALRM)
		return true;
	/* Ours is SIGXFSZ, which the kernel sends as from whoever it is for. */
	return info->ssi_code <= 0 && (pid_t)info->ssi_pid != watch->pid &&
	       (pid_t)info->ssi_pid != getpid();
}

static void pass_on(const struct watch *watch, const struct signalfd_siginfo *from)
{
	int number = (int)from->ssi_signo;

	if (from->ssi_code != SI_QUEUE) {
		kill(watch->pid, number);
		return;
	}
	siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)from->ssi_ptr;
	syscall(SYS_rt_sigqueueinfo, watch->pid, number, &info);
}

static void take_signal(struct watch *watch, const struct signalfd_siginfo *info)
{
	switch (info->ssi_signo) {
	case SIGCHLD:
		reap(watch);
		return;
	case SIGCONT:
		/* The shell continues the whole group, but knows only us. */
		if (is_stopped(watch->pid))
			kill(watch->pid, SIGCONT);
		return;
	case SIGTSTP:
		watch->terminal_stop = true;
		break;
	default:
		break;
	}
	if (is_for_target(watch, info))
		pass_on(watch, info);
}

static void take_signals(struct watch *watch)
{
	struct signalfd_siginfo info;

	while (!watch->ended && !watch->error &&
	       read(watch->signals->fd, &info, sizeof(info)) == sizeof(info))
		take_signal(watch, &info);
}

static void tick(struct watch *watch)
{
	bool grew = collect_session_tend(watch->session);

	see_rss(watch);
	watch->tick_ms = grew ? watch->tick_ms / 2 : watch->tick_ms * 2;
	if (watch->tick_ms < FIRST_TICK_MS)
		watch->tick_ms = FIRST_TICK_MS;
	if (watch->tick_ms > LAST_TICK_MS)
		watch->tick_ms = LAST_TICK_MS;
	watch->tick_due_ns = clock_now_ns() + (uint64_t)watch->tick_ms * 1000000u;
}

static void snapshot_tick(struct watch *watch)
{
	if (watch->snapshots)
		collect_snapshots_tick(watch->snapshots);
	collect_retiring_step(watch->retiring);
}

/* −1 = no wait. */
static int shorter(int a, int b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

/* Milliseconds until there is something to do. */
static int wait_ms(const struct watch *watch)
{
	int wait =
		shorter(clock_wait_ms(watch->tick_due_ns), collect_retiring_wait(watch->retiring));

	return watch->snapshots ? shorter(wait, collect_snapshots_wait(watch->snapshots)) : wait;
}

struct error *collect_watch(pid_t pid, const struct collect_signals *signals,
			    struct collect_session *session, struct collect_snapshots *snapshots,
			    struct collect_retiring *retiring, struct collect_end *ret)
{
	struct watch watch = {
		.pid = pid,
		.signals = signals,
		.session = session,
		.tick_ms = FIRST_TICK_MS,
		.tick_due_ns = clock_now_ns() + FIRST_TICK_MS * UINT64_C(1000000),
		.snapshots = snapshots,
		.retiring = retiring,
	};

	while (!watch.ended) {
		struct pollfd poll_fd = {.fd = signals->fd, .events = POLLIN};
		int ready = poll(&poll_fd, 1, wait_ms(&watch));

		if (ready < 0 && errno != EINTR)
			return error_create_system(errno, NULL, "cannot wait for the program");
		if (ready > 0)
			take_signals(&watch);
		if (watch.error)
			return watch.error;
		if (watch.ended)
			break;
		if (clock_now_ns() >= watch.tick_due_ns)
			tick(&watch);
		snapshot_tick(&watch);
	}
	*ret = watch.end;
	return NULL;
}
