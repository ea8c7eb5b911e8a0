"""Signals and terminals: the tool stands between a program and its senders unnoticed."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

# Prints a line a signal; ends with the count of SIGTERM's exit status.
LISTENER = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	sigset_t all;
	siginfo_t info;
	sigfillset(&all);
	sigdelset(&all, SIGTSTP);
	sigdelset(&all, SIGCONT);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		kill(atoi(argv[1]) ? 0 : getppid(), SIGUSR1);
	printf("ready %d\n", getpid());
	for (;;) {
		/* A stop interrupts it. */
		if (sigwaitinfo(&all, &info) < 0)
			continue;
		if (info.si_code == SI_QUEUE)
			printf("%d value %d\n", info.si_signo, info.si_value.sival_int);
		else
			printf("%d\n", info.si_signo);
		if (info.si_signo == SIGTERM)
			return 42;
	}
}
"""


@pytest.fixture(scope="session")
def listener(cc):
    return cc("listener", LISTENER)


@pytest.fixture
def start(mallograph, runtime, tmp_path):
    """start(program, …): the tool, its program's pid, both ended with the test."""
    with contextlib.ExitStack() as stack:
        def start_one(*words, **options):
            process = stack.enter_context(subprocess.Popen(
                [mallograph, "-q", "-o", "x.mgl", *words], cwd=tmp_path, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, bufsize=1,
                env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, **options,
            ))
            pid = int(process.stdout.readline().split()[1])

            def end():
                for victim in process.pid, pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
            stack.callback(end)
            return process, pid
        yield start_one


@pytest.mark.parametrize(
    "name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGURG",
             "SIGPIPE", "SIGRTMIN"],
)
def test_a_signal_sent_to_the_tool_reaches_the_program(start, listener, name):
    process, _ = start(listener)
    process.send_signal(getattr(signal, name))
    assert process.stdout.readline() == f"{int(getattr(signal, name))}\n"
    process.terminate()
    assert process.stdout.readline() == "15\n"
    assert process.wait(timeout=60) == 42


def test_a_queued_value_comes_along(start, listener, cc):
    queue = cc("queue", """
#include <signal.h>
#include <stdlib.h>
int main(int c, char **v) { return sigqueue(atoi(v[1]), SIGUSR1, (union sigval){.sival_int = 77}); }
""")
    process, _ = start(listener)
    subprocess.run([queue, str(process.pid)], check=True)
    assert process.stdout.readline() == f"{int(signal.SIGUSR1)} value 77\n"


@pytest.mark.parametrize("group", ["0", "1"])
def test_what_the_program_sends_does_not_come_back(start, listener, group):
    process, _ = start(listener, group, start_new_session=True)
    process.terminate()
    # To its group it sends to itself as well, once.
    expected = [f"{int(signal.SIGUSR1)}\n"] * int(group) + ["15\n"]
    assert process.stdout.readlines() == expected
    assert process.wait(timeout=60) == 42


def test_a_program_that_dies_of_what_was_sent(start, cc):
    idle = cc("idle", r"""
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("ready %d\n", getpid()); fflush(stdout); pause(); }
""")
    process, _ = start(idle)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == -signal.SIGUSR2


def test_a_timer_from_before_is_the_programs(run):
    result = run("-q", "sleep", "30", preexec_fn=lambda: signal.alarm(1))
    assert result.returncode == -signal.SIGALRM


def state(pid):
    return re.search(r"State:\s(\S)", open(f"/proc/{pid}/status").read())[1]


def wait_state(pid, *wanted):
    until = time.monotonic() + 20
    while state(pid) not in wanted:
        assert time.monotonic() < until, f"{pid} is {state(pid)}, not {wanted}"
        time.sleep(0.01)


def test_stopping_the_program_alone_does_not_stop_the_tool(start, listener):
    process, pid = start(listener, start_new_session=True)
    os.kill(pid, signal.SIGSTOP)
    wait_state(pid, "T")
    time.sleep(0.1)
    assert state(process.pid) in "SR"  # it may be looking at the program just now
    os.kill(pid, signal.SIGCONT)
    process.terminate()
    assert process.wait(timeout=60) == 42


def test_continuing_the_tool_continues_the_program(start, listener):
    process, pid = start(listener, start_new_session=True)
    for victim in pid, process.pid:
        os.kill(victim, signal.SIGSTOP)
        wait_state(victim, "T")
    os.kill(process.pid, signal.SIGCONT)
    wait_state(pid, "S")
    process.terminate()
    assert process.wait(timeout=60) == 42


class Terminal:
    """A job-control shell in a pseudo-terminal."""

    def __init__(self, cwd, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**env, "PS1": "prompt> ", "TERM": "dumb"})
        self.seen = ""
        self.expect("prompt> ")

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def expect(self, text):
        until = time.monotonic() + 20
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], until - time.monotonic())
            assert ready, f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def close(self):
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(runtime, tmp_path):
    shell = Terminal(tmp_path, {**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    yield shell
    shell.close()


def test_a_terminals_interrupt_reaches_the_program_once(terminal, mallograph, listener):
    terminal.type(f"{mallograph} -q {listener}; echo code=$?\n")
    terminal.expect("ready")
    terminal.type("\x03")
    terminal.expect("^C2\r\n")
    terminal.type("\x1c")
    assert terminal.expect("3\r\n") == "^\\"
    terminal.type("\x1a")
    terminal.expect("Stopped")
    terminal.expect("prompt> ")
    # The shell continues what it kills, so fg may come too late, and wait too early.
    terminal.type("kill %1; until jobs | grep Exit; do sleep 0.1; done\n")
    terminal.expect("  Exit 42")


def test_a_job_stops_and_goes_on(terminal, mallograph, cc):
    echo = cc("echo_lines", r"""
#include <stdio.h>
int main(void)
{
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && line[0] != 'q')
		printf("<%s", line), fflush(stdout);
	return 6;
}""")
    terminal.type(f"{mallograph} -q {echo}; echo code=$?\n")
    terminal.expect("ready")
    terminal.type("one\n")
    terminal.expect("<one")
    for _ in range(3):
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.expect("prompt> ")
        terminal.type("fg\n")
        terminal.expect("mallograph")
        terminal.type("two\n")
        terminal.expect("<two")
    terminal.type("quit\n")
    terminal.expect("prompt> ")
    terminal.type("\n")


def test_a_background_job_that_reads_stops(terminal, mallograph):
    terminal.type(f"{mallograph} -q cat &\n")
    terminal.expect("prompt> ")
    time.sleep(0.3)
    terminal.type("\n")
    terminal.expect("Stopped")
    terminal.type("fg\n")
    terminal.expect("-q cat")
    time.sleep(0.3)
    terminal.type("hello\n")
    terminal.expect("hello")
    terminal.expect("hello")
    terminal.type("\x04")
    terminal.expect("prompt> ")


def test_a_program_that_stops_itself_stops_the_job(terminal, mallograph, cc):
    stopper = cc("stopper", r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) { raise(SIGSTOP); puts("went on"); return 8; }
""")
    terminal.type(f"{mallograph} -q {stopper}; echo code=$?\n")
    terminal.expect("Stopped")
    terminal.expect("prompt> ")
    terminal.type("fg\n")
    terminal.expect("went on")
