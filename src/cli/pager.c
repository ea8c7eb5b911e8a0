/*
 * A pager between stdout and the terminal. It gets the terminal's signals: interrupting it
 * is its own affair, and what is still to be written ends with it.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/view.h"

/* A machine without less still shows what there is. */
#define DEFAULT_PAGER "if command -v less >/dev/null; then exec less; else exec cat; fi"

static pid_t pager;

static const char *pager_command(void)
{
	const char *command = getenv("PAGER");

	if (!command)
		return DEFAULT_PAGER;
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

static void run_pager(const char *command, int input)
{
	/* Leaves at once where all fits on the screen; colours are colours. */
	setenv("LESS", "FRX", 0);
	dup2(input, STDIN_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void cli_pager_begin(void)
{
	const char *command = pager_command();
	int ends[2];

	if (!isatty(STDOUT_FILENO) || !command || pipe2(ends, O_CLOEXEC) != 0)
		return;
	fflush(stdout);
	pager = fork();
	if (pager == 0)
		run_pager(command, ends[0]);
	close(ends[0]);
	if (pager < 0) {
		pager = 0;
	} else {
		signal(SIGINT, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		dup2(ends[1], STDOUT_FILENO);
	}
	close(ends[1]);
}

bool cli_pager_end(void)
{
	if (pager == 0)
		return false;
	fclose(stdout);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	return true;
}
