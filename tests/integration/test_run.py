"""The program runs as it would without: what goes in, comes out, and what it sees."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from oracle import wait_for

# What a process can tell of how it was started, but for its pid and its parent's.
MIRROR = r"""
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	char line[4096], link[64];
	for (int i = 0; i < argc; i++)
		printf("argv %s\n", argv[i]);
	for (char **e = environ; *e; e++)
		printf("environ %s\n", *e);
	for (int fd = 0; fd < 100; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, line, sizeof(line));
		if (n > 0)
			printf("fd %d %.*s\n", fd, fd == 1 || fd == 2 ? 0 : (int)n, line);
	}
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit r;
		getrlimit(i, &r);
		printf("limit %d %lld %lld\n", i, (long long)r.rlim_cur, (long long)r.rlim_max);
	}
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, "Sig", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Cap", 3))
			if (strncmp(line, "SigQ", 4))
				fputs(line, stdout);
	printf("group %d session %d nice %d umask %o\n", getpgrp(), getsid(0), getpriority(0, 0), umask(0));
	puts(getcwd(line, sizeof(line)));
	return 0;
}
"""


@pytest.fixture(scope="session")
def mirror(cc):
    return cc("mirror", MIRROR)


@pytest.mark.parametrize("code", [0, 1, 2, 7, 125, 127, 255])
def test_exit_code_is_the_programs(run, code):
    assert run("-q", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize(
    "name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGPIPE",
             "SIGUSR1", "SIGRTMIN"],
)
def test_signal_death_is_the_programs(run, cc, tmp_path, name):
    die = cc("die", """
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
int main(int argc, char **argv)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	raise(atoi(argv[argc - 1]));
	return 9;
}""")
    number = getattr(signal, name)
    result = run("-o", "x.mgl", die, str(int(number)),
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY)))
    assert result.returncode == -number
    assert (tmp_path / "x.mgl").stat().st_size > 0
    assert [p.name for p in tmp_path.iterdir()] == ["x.mgl"]


def test_no_core_file_of_ours(run, tmp_path):
    pattern = open("/proc/sys/kernel/core_pattern").read()
    if pattern.startswith(("|", "/")):
        pytest.skip("core files go elsewhere here")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    result = run("-q", "-o", "x.mgl", "sh", "-c", "ulimit -c 0; kill -SEGV $$",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited))
    assert result.returncode == -signal.SIGSEGV
    assert [p.name for p in tmp_path.iterdir()] == ["x.mgl"]


def test_input_and_output_are_untouched(run):
    data = os.urandom(1 << 20)
    result = run("-q", "cat", input=data)
    assert result.stdout == data
    assert result.stderr == b""


def test_summary_comes_after_the_programs_words_on_stderr(run):
    result = run("sh", "-c", "echo out; echo err >&2", text=True)
    assert result.stdout == "out\n"
    first, rest = result.stderr.split("\n", 1)
    assert first == "err"
    assert rest.startswith("mallograph: sh -c")
    assert max(map(len, rest.splitlines())) <= 80


def test_what_the_program_sees_is_what_it_saw_bare(
    mirror, mallograph, runtime, tmp_path, sanitized
):
    def prepare():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.umask(0o027)
        os.nice(1)
        os.setsid()

    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(runtime), "A": "1", "": "odd",
           "NUL": "x=y", "LANG": "C"}
    read, write = os.pipe()
    outputs = []
    for prefix in [], [mallograph, "-q", "-o", "/dev/null"]:
        outputs.append(subprocess.run(
            [*prefix, mirror, "an argument", "-q", "", "--"], cwd=tmp_path, env=env, check=True,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, pass_fds=[read],
            start_new_session=False, preexec_fn=prepare, timeout=60,
        ).stdout)
    os.close(read)
    os.close(write)
    bare, recorded = outputs

    def same(text):
        # A sanitizer's own start gives up ignoring the C library's signals.
        left_out = ("group ", "SigIgn:") if sanitized else ("group ",)
        return [line for line in text.splitlines() if not line.startswith(left_out)]

    assert same(recorded) == same(bare)
    # Group and session are those of the tool, as they would be a shell's.
    assert recorded.count("group ") == 1


@pytest.mark.parametrize("before", [None, "lib"])
def test_an_existing_preload_is_kept(run, cc, mirror, before, sanitized):
    if before and sanitized:
        pytest.skip("a sanitizer must come first")
    env = {"PATH": os.environ["PATH"]}
    if before:
        env["LD_PRELOAD"] = str(cc("libnothing.so", "int nothing;", "-shared", "-fPIC"))
    result = run("-q", mirror, env=env, text=True)
    seen = [line for line in result.stdout.splitlines() if line.startswith("environ LD_PRELOAD")]
    assert seen == [f"environ LD_PRELOAD={value}" for key, value in env.items() if key == "LD_PRELOAD"]


def test_of_two_preloads_the_last_counts_as_it_does_for_the_loader(
    run, runtime, cc, mirror, may_preload
):
    """As no shell passes them on; but the loader takes the last, getenv the first."""
    twice = cc("twice", r"""
#include <unistd.h>
int main(int argc, char **argv)
{
	char *env[] = {"LD_PRELOAD=/not/there.so", "BETWEEN=1", argv[1], argv[2], argv[3], 0};

	execve(argv[4], argv + 4, env);
	return 9;
}""")
    last = f"LD_PRELOAD={cc('libnothing.so', 'int nothing;', '-shared', '-fPIC')}"
    result = run("-q", "-o", "twice.mgl", mirror, text=True, before=[
        twice, last, f"PATH={os.environ['PATH']}", f"XDG_RUNTIME_DIR={runtime}"])
    seen = [line for line in result.stdout.splitlines() if line.startswith("environ ")]
    assert seen[:3] == ["environ LD_PRELOAD=/not/there.so", "environ BETWEEN=1", f"environ {last}"]
    assert result.stderr == ""


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_descriptors_stay_closed(mallograph, cc, runtime, tmp_path, closed):
    count = cc("count_fds", r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int bits = 0;
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			bits += fd < 3 ? 1 << fd : 64;
	return bits;
}""")

    def close():
        for fd in closed:
            os.close(fd)

    result = subprocess.run(
        [mallograph, "-o", "x.mgl", count], cwd=tmp_path, preexec_fn=close, timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    assert result.returncode == 7 - sum(1 << fd for fd in closed)
    assert (tmp_path / "x.mgl").read_bytes()[:8] == b"MGLEDGR1"


def test_output_ends_when_the_program_closes_it(mallograph, cc, runtime, tmp_path):
    patient = cc("patient", r"""
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	char c;
	close(1);
	close(9);
	return read(0, &c, 1) == 1 ? 4 : 5;
}""")
    read, write = os.pipe()
    process = subprocess.Popen(
        [mallograph, "-q", "-o", "/dev/null", patient], cwd=tmp_path, pass_fds=[9],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: os.dup2(write, 9),
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
    )
    os.close(write)
    assert process.stdout.read() == b""
    assert os.read(read, 1) == b""
    assert process.poll() is None
    process.stdin.write(b"x")
    process.stdin.close()
    assert process.wait(timeout=60) == 4
    os.close(read)


def test_name_is_as_typed(run, cc, mirror, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "named").symlink_to(mirror)
    env = {"PATH": f"/nowhere:{tmp_path / 'bin'}"}
    assert b"argv named\n" in run("-q", "named", env=env).stdout
    assert b"argv bin/named\n" in run("-q", "bin/named", env=env).stdout
    # An empty element of PATH is the working directory, and PATH unset has a default.
    assert run("-q", "named", env={"PATH": "/nowhere:"}, cwd=tmp_path / "bin").returncode == 0
    assert run("-q", "true", env={}).returncode == 0


def test_a_file_without_a_magic_is_the_shells(run, tmp_path):
    script = tmp_path / "script"
    script.write_text('echo "$0" "$@"; exit 3\n')
    script.chmod(0o755)
    result = run("-q", "./script", "a b", "c", text=True)
    assert (result.returncode, result.stdout) == (3, "./script a b c\n")


def test_scripts_run_and_are_recorded(run, tmp_path):
    (tmp_path / "outer").write_text(f"#! {tmp_path}/inner  -x y\n")
    (tmp_path / "inner").write_text("#!/bin/sh\necho \"$@\"\n")
    for name in "outer", "inner":
        (tmp_path / name).chmod(0o755)
    result = run("-q", "./outer", "z", text=True)
    assert result.stdout == "-x y ./outer z\n"
    assert list(tmp_path.glob("mallograph.outer.*.mgp"))


def test_the_loader_run_as_a_program_is_recorded(run, tmp_path):
    result = run("-q", "-o", "x.mgl", "/lib64/ld-linux-x86-64.so.2", "/bin/echo", "hello")
    assert result.stdout == b"hello\n"
    assert (tmp_path / "x.mgl").exists()


def test_the_target_does_not_see_an_output_begun(run, tmp_path):
    assert run("-q", "ls", "-A").stdout == b""
    assert len(list(tmp_path.iterdir())) == 1


def test_many_at_once(mallograph, runtime, tmp_path):
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    started = [
        subprocess.Popen([mallograph, "-q", "sh", "-c", f"sleep 0.1; exit {i}"], cwd=tmp_path, env=env)
        for i in range(8)
    ]
    assert [process.wait(timeout=60) for process in started] == list(range(8))
    assert len(list(tmp_path.glob("mallograph.sh.*.mgp"))) == 8
    assert list((runtime / "mallograph").iterdir()) == []


def test_a_small_program_takes_no_time(run, sanitized):
    """Of the processor, that is: how long it has to wait for one is not ours to say."""
    if sanitized:
        pytest.skip("a sanitizer takes it")

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("-q", "-o", "/dev/null", "true")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(10)) < 0.02


def test_children_left_running_are_told(run, tmp_path):
    result = run("sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!; sleep 0.2", text=True)
    child = int(result.stdout)
    try:
        os.kill(child, 0)
        assert "1 process still runs; it is recorded up to now" in result.stderr
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_daemon_fills_nothing_that_nobody_can_read(run, cc, tmp_path):
    """It had no ledger when the program ended, and gets none that grows."""
    daemon = cc("daemon", """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	if (fork()) return 0;
	close(0), close(1), close(2), setsid();
	while (access("go", F_OK)) usleep(10000);
	for (int i = 0; i < 1000000; i++) if (!malloc(10)) return 1;
	dprintf(open("new", O_CREAT | O_WRONLY, 0600), "%d", getpid());
	rename("new", "done");
	for (int i = 0; i < 1000 && !access("done", F_OK); i++) usleep(10000);
	return 0;
}""", "-fno-builtin")
    assert run("-q", daemon).returncode == 0
    (tmp_path / "go").touch()
    wait_for(lambda: (tmp_path / "done").exists())
    pid = (tmp_path / "done").read_text()
    maps = [line.split() for line in open(f"/proc/{pid}/maps") if ".mgl" in line]
    (tmp_path / "done").unlink()
    sizes = [int(end, 16) - int(start, 16) for start, end in (one[0].split("-") for one in maps)]
    assert sum(sizes) <= 8 << 20


BIG = "import subprocess,sys; subprocess.run([sys.executable, '-c', 'x = bytes(150 << 20)'])"


@pytest.mark.parametrize("options", [["--no-follow"], ["--not", "python*"], []])
def test_resident_memory_is_not_the_childrens(run, cc, tmp_path, options):
    """The kernel counts those that were waited for with their parent, recorded or not."""
    starter = cc("starter", """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
	(void)argc; free(malloc(100)); usleep(100000);
	pid_t pid = fork();
	if (pid == 0) execv(argv[1], argv + 1);
	int status; waitpid(pid, &status, 0); usleep(1200000); return status;
}
""")
    run("-q", "-o", "p.mgp", *options, starter, sys.executable, "-c", BIG)
    root = json.loads(run("report", "--json", "p.mgp").stdout)["processes"][0]
    assert root["rss_peak_bytes"] < 20 << 20


@pytest.mark.parametrize("script, ends", [
    ("exec true", ["exec", "exit"]), ("exec sh -c 'exec sh -c \"exit 5\"'", ["exec", "exec", "exit"]),
    ("kill -TERM $$", ["signal"]),
])
def test_what_became_of_the_root(run, script, ends):
    result = run("-q", "-o", "x.mgl", "sh", "-c", script)
    processes = json.loads(run("report", "--json", "x.mgl").stdout)["processes"]
    assert [process["end"]["kind"] for process in processes] == ends
    assert processes[-1]["end"]["code"] == abs(result.returncode)
    assert [process["how"] for process in processes] == ["root"] + ["exec"] * (len(ends) - 1)
    assert len({process["pid"] for process in processes}) == 1
    assert 1 << 20 < processes[-1]["rss_peak_bytes"] < 100 << 20


def test_a_daemon_that_has_not_allocated_yet_is_told_of(run, cc):
    """Its ledger would begin with its first allocation, and the program that started it is over."""
    daemon = cc("daemon_of_none", """
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	free(malloc(10));
	if (fork() == 0) {
		for (int i = 0; i < 3; i++) close(i);
		sleep(3);
	}
	return 0;
}
""")
    result = run("-o", "x.mgp", daemon, text=True)
    said = " ".join(result.stderr.split())
    assert result.returncode == 0
    assert "1 process runs on that allocated nothing so far, and is not recorded" in said
    (process,) = json.loads(run("report", "--json", "x.mgp").stdout)["processes"]
    assert [(loss["kind"], loss["count"], loss["detail"]) for loss in process["losses"]] == [
        ("missed_process", 1, "daemon_of_none (no allocation yet)")]


def test_children_of_a_run_are_recorded(run):
    run("-q", "-o", "x.mgl", "sh", "-c", "sh -c 'exit 1'; (exit 2); true & wait")
    processes = json.loads(run("report", "--json", "x.mgl").stdout)["processes"]
    assert processes[0]["end"] == {"kind": "exit", "code": 0}
    assert {process["parent"] for process in processes[1:]} <= {p["id"] for p in processes}
    assert len(processes) >= 4
