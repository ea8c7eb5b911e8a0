"""Surroundings nobody chose for mallograph: the program does not notice, and what was recorded
equals the program's own counts."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest

from oracle import PEAK, TOTALS, peak, read_said, report, totals

GROW = ("tree:30000", "make:500:100", "free:200", "churn:50")
SOME = ("tree:2000", "make:500:100", "free:200", "churn:50")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def assert_exact(process, said, kind="exit"):
    assert totals(process) == {**said.only(TOTALS), "temporary": process["temporary"]}
    assert peak(process) == said.only(PEAK)
    assert process["losses"] == []
    assert process["end"]["kind"] == kind


def limits(**values):
    def apply():
        for name, value in values.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return apply


def run_script(record, *steps, **more):
    recording = record.run("script", *steps, **more)
    assert (recording.stdout, recording.stderr) == ("", "")
    return recording


@pytest.mark.parametrize("when", [(), ("make:10:10",)], ids=["first", "later"])
@pytest.mark.parametrize("flags", [1, 2, 3])
def test_locked_memory(record, flags, when):
    """MCL_CURRENT, MCL_FUTURE, both: what is mapped then is there whole."""
    bare = subprocess.run([record.program("script"), record.new_paths()[1], f"lock:{flags}"])
    if bare.returncode == 77:
        pytest.skip("memory may not be locked here")
    recording = run_script(record, *when, f"lock:{flags}", *GROW, "say")
    assert_exact(recording.root, recording.said)


@needs_root
@pytest.mark.parametrize("flags", [2, 3])
def test_little_memory_may_be_locked(record, flags):
    """All of it is the program's: the agent's tables take nothing from it."""
    steps = ("make:10:10", f"memlock:{8 << 20}", "setuid:65534", f"lock:{flags}", *GROW, "say")
    said = record.new_paths()[1]
    said.touch()
    said.chmod(0o666)
    bare = subprocess.run([record.program("script"), said, *steps], timeout=60)
    if bare.returncode:
        pytest.skip("not even bare")
    recording = run_script(record, *steps)
    root, said = recording.root, recording.said
    lost = sum(loss["count"] for loss in root["losses"] if loss["kind"] == "unrecorded")
    assert root["allocations"] + lost == said["allocations"]
    assert root["frees"] <= said["frees"]
    if lost == 0:
        assert_exact(root, said)


@pytest.mark.parametrize(
    "steps",
    [("undumpable",), ("fsize:16384",), ("nofile:0",), ("close",), ("memlock:0",),
     pytest.param(("undumpable", "setuid:65534"), marks=needs_root),
     pytest.param(("setuid:65534",), marks=needs_root),
     pytest.param(("chroot:/proc/self/fdinfo",), marks=needs_root)],
    ids=lambda steps: "-".join(step.partition(":")[0] for step in steps),
)  # fmt: skip
def test_what_a_program_takes_from_itself(record, steps):
    """And then grows."""
    recording = run_script(record, "make:10:10", *steps, *GROW, "say")
    assert_exact(recording.root, recording.said)


@pytest.mark.parametrize("end", ["kill", "abort"])
def test_a_death_after_that(record, end):
    code = -signal.SIGKILL if end == "kill" else -signal.SIGABRT
    recording = run_script(record, "undumpable", "nofile:0", *GROW, "say", end, returncode=code)
    assert_exact(recording.root, recording.said, "signal")


def test_a_core_file_is_the_programs_own(record, tmp_path):
    """No extent of the ledger is in it: all of it is memory the program has."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith(("|", "/")):
        pytest.skip("core files go elsewhere here")
    sizes = []
    for number, command in enumerate([[], [record.tool, "-q", "-o", tmp_path / "core.mgl", "--"]]):
        place = tmp_path / str(number)
        place.mkdir()
        said = place / "said"
        words = [*command, record.program("script"), said, *SOME, "say", "abort"]
        done = subprocess.run(
            words, cwd=place, preexec_fn=limits(CORE=resource.RLIM_INFINITY), timeout=60
        )
        assert done.returncode == -signal.SIGABRT
        (core,) = place.glob("core*")
        sizes.append(core.stat().st_blocks * 512)
    assert sizes[1] < sizes[0] + (4 << 20)


@pytest.fixture
def small_group():
    """A cgroup of 48 MiB, where one can be made."""
    roots = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
    names = ["memory.limit_in_bytes", "memory.max"]
    for root, name in zip(roots, names):
        place = root / f"mallograph-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            place.mkdir()
            try:
                (place / name).write_text(str(48 << 20))
                yield place
            finally:
                place.rmdir()
            return
    pytest.skip("no cgroup may be made here")


@pytest.mark.slow
@pytest.mark.parametrize("tool", [False, True], ids=["program", "tool-too"])
def test_killed_for_its_memory(small_group, record, tool):
    """What the program had at its last word is there, and what it did until the kernel killed it; also
    where the tool has no more memory than that."""
    enter = ["sh", "-c", f'echo $$ > {small_group}/cgroup.procs && exec "$@"', "sh"]
    into = {"preexec_fn": lambda: (small_group / "cgroup.procs").write_text(str(os.getpid()))}
    steps = (*SOME, "say", "fill:2000:100000")
    recording = record.run("script", *steps, returncode=-signal.SIGKILL,
                           **(into if tool else {"before": enter}))  # fmt: skip
    process, said = recording.report.processes[-1], recording.said
    assert process["end"] == {"kind": "signal", "code": signal.SIGKILL}
    filled = process["allocations"] - said["allocations"]
    assert 100 < filled < 520
    assert process["frees"] == said["frees"]
    assert process["live_bytes"] - said["live_bytes"] in (filled * 100000, (filled - 1) * 100000)
    assert {loss["kind"] for loss in process["losses"]} <= {"unfinished_calls"}


@needs_root
@pytest.mark.parametrize("most", [2, 3, 5])
def test_few_processes_may_be_started(mallograph, agent, cc, most):
    """ulimit -u of a user's: names are read in processes of their own, and may be done without."""
    program = cc("seven", "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 7; }\n",
                 "-fno-builtin")  # fmt: skip
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        for file in mallograph, agent, program:
            shutil.copy(file, folder)
        (folder / "run").mkdir(mode=0o700)
        os.chown(folder / "run", 4711, 4711)
        done = subprocess.run(
            [folder / "mallograph", "-o", "x.mgp", "./seven"], cwd=folder, user=4711, group=4711,
            extra_groups=[], preexec_fn=limits(NPROC=most), capture_output=True, text=True,
            timeout=60,
            env={**os.environ, "XDG_CACHE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run")})  # fmt: skip
        assert done.returncode == 7, done.stderr
        root = report(mallograph, folder / "x.mgp", 0).root
        assert (root["allocations"], root["losses"]) == (1, [])
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "tr_TR.UTF-8"}, {"LC_ALL": "none such"}, {"LC_ALL": "C.UTF-8", "LANGUAGE": "x:y"},
     {"LOCPATH": "/nowhere", "LANG": "de_DE@euro", "LC_NUMERIC": "de_DE.UTF-8"},
     {"TZ": ":/nowhere", "COLUMNS": "x", "TERM": ""}, {"HOME": ""}, {"HOME": "/nowhere"},
     {f"VARIABLE{n}": "value\n" * 1000 for n in range(200)}],
    ids=["turkish", "none", "language", "numeric", "odd", "no-home", "home-gone", "huge"],
)  # fmt: skip
def test_odd_environments(record, environment):
    recording = run_script(record, *SOME, "say", env=environment)
    assert_exact(recording.root, recording.said)
    text = subprocess.run(
        [record.tool, "report", "--summary", recording.ledger], capture_output=True, text=True,
        check=True, env={**os.environ, **environment},
    ).stdout  # fmt: skip
    assert "2,550 times" in text


AUDIT = r"""
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
unsigned la_version(unsigned version) { free(malloc(10)); return version; }
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{ (void)map, (void)space, (void)cookie; return LA_FLG_BINDTO | LA_FLG_BINDFROM; }
uintptr_t la_symbind64(Elf64_Sym *s, unsigned i, uintptr_t *a, uintptr_t *b, unsigned *f, const char *name)
{ (void)i, (void)a, (void)b, (void)f, (void)name; return s->st_value; }
"""


@pytest.mark.parametrize("settings", [
    ["LD_AUDIT={audit}"], ["LD_BIND_NOW=1"], ["LD_DYNAMIC_WEAK=1"], ["LD_WARN=1"],
    ["LD_DEBUG=statistics", "LD_DEBUG_OUTPUT={folder}/debug"], ["LD_PROFILE=libc.so.6"],
    ["GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"],
    ["GLIBC_TUNABLES=glibc.malloc.hugetlb=1"], ["MALLOC_PERTURB_=3", "MALLOC_ARENA_MAX=1"],
    ["LD_PRELOAD=libc_malloc_debug.so.0", "MALLOC_CHECK_=3"],
    ["LD_PRELOAD=libc_malloc_debug.so.0", "MALLOC_TRACE={folder}/trace"],
], ids=lambda settings: "-".join(one.partition("=")[0] for one in settings))  # fmt: skip
def test_settings_of_the_loader_and_the_allocator(record, cc, settings):
    """With LD_AUDIT the loader itself allocates by the program's malloc."""
    audit = cc("libaudit.so", AUDIT, "-shared", "-fPIC") if "AUDIT" in settings[0] else ""
    env = [one.format(audit=audit, folder=record.folder) for one in settings]
    bare = subprocess.run(["env", *env, record.program("script"), record.new_paths()[1], *SOME],
                          capture_output=True, text=True)  # fmt: skip
    if bare.returncode or bare.stderr:
        pytest.skip("not here")
    recording = run_script(record, *SOME, "say", before=["env", *env])
    process, said = recording.report.processes[-1], recording.said
    more = process["allocations"] - said["allocations"]
    assert 0 <= more <= (3 if audit else 0)
    assert process["frees"] == said["frees"] and process["losses"] == []


def test_many_and_odd_arguments(record, program):
    """Newlines, bytes that are no text, none at all, and more than a page of them."""
    words = ["a\nb", "", "\udcff\x01", "'\"\\", *("word" * 20 for _ in range(10000))]
    said = record.new_paths()[1]
    command = [program("script"), said, "say", "exit:0", *words]
    ledger = record.new_paths()[0]
    subprocess.run([record.tool, "-o", ledger, "--", *command], check=True, capture_output=True)
    for view in ("report", "info", "blocks"):
        subprocess.run([record.tool, view, ledger], check=True, capture_output=True)


def mounted(in_namespace, record, script, *words):
    """A shell with mounts of its own runs the script: $1 is the tool, $2 a ledger, $3 script, $4
    where it says, and the steps are the rest of words."""
    ledger, said = record.new_paths()
    answer = in_namespace(
        script, record.tool, ledger, record.program("script"), said, *words,
        env=os.environ, cwd=record.folder,
    )  # fmt: skip
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    return ledger, said


RUN = 'tool=$1 ledger=$2; shift 2; '
SCRIPTS = {
    "no-proc-for-the-program": RUN + '"$tool" -q -o "$ledger" -- unshare -m sh -c '
    "'mount -t tmpfs none /proc && exec \"$@\"' sh \"$@\"",
    "read-only-home": "mkdir -p home && mount -t tmpfs -o ro none home && export HOME=$PWD/home "
    "XDG_CACHE_HOME=$PWD/home/.cache && " + RUN + '"$tool" -q -o "$ledger" -- "$@"',
    "noexec-runtime": "mkdir -p run && mount -t tmpfs -o noexec,mode=700 none run && "
    "export XDG_RUNTIME_DIR=$PWD/run && " + RUN + '"$tool" -q -o "$ledger" -- "$@"',
    "other-root": "mkdir -p jail && mount --rbind / jail && " + RUN + '"$tool" -q -o "$ledger" '
    '-- chroot jail "$@"',
    "namespaces": RUN + '"$tool" -q -o "$ledger" -- unshare -m -u -i -n "$@"',
    "pid-namespace": RUN + '"$tool" -q -o "$ledger" -- unshare -f -p --mount-proc "$@"',
    "user-namespace": RUN + '"$tool" -q -o "$ledger" -- unshare -r "$@"',
}  # fmt: skip


def test_the_agents_file_on_a_noexec_mount(in_namespace, mallograph, agent, tmp_path):
    """From where a child can no more load it: it runs in silence, and is counted."""
    (tmp_path / "place").mkdir()
    result = in_namespace(
        'mount -t tmpfs none place && cp "$1" "$2" place && place/mallograph -o x.mgp -- unshare -m '
        "sh -c 'mount -o remount,noexec place && uname -s'",
        mallograph, agent, env=os.environ, cwd=tmp_path)  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "Linux\n")
    assert result.stderr.startswith("mallograph: ")
    assert "1 process that ran unrecorded" in " ".join(result.stderr.split())


@pytest.mark.parametrize("mount, remedy", [
    ("-o ro none /dev/shm", "XDG_RUNTIME_DIR"), ("none /dev", "XDG_RUNTIME_DIR"),
    ("-o size=64k none /dev/shm && head -c 1M /dev/zero > /dev/shm/full 2>/dev/null", "Free space"),
], ids=["read-only", "none", "full"])  # fmt: skip
def test_no_shared_memory(in_namespace, mallograph, tmp_path, mount, remedy):
    env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    result = in_namespace(f'mount -t tmpfs {mount}; exec "$@"', mallograph, "-q", "touch", "begun",
                          env=env, cwd=tmp_path)  # fmt: skip
    assert result.returncode == 125
    assert remedy in result.stderr and result.stderr.count("\n") <= 4
    assert not (tmp_path / "begun").exists()


def test_shared_memory_that_fills_up(in_namespace, record):
    """By others, while a program is recorded: it goes on, and what is missing is counted."""
    ledger, said = record.new_paths()
    env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    result = in_namespace(
        'mount -t tmpfs -o size=40m none /dev/shm; tool=$1 ledger=$2; shift 2; "$tool" -q -o "$ledger" '
        "-- sh -c 'head -c 100M /dev/zero > /dev/shm/full 2>/dev/null; \"$@\"' sh \"$@\"",
        record.tool, ledger.with_suffix(".mgp"), record.program("script"), said, "make:100000:100",
        "say", env=env, cwd=record.folder)  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert read_said(said)[0]["allocations"] == 100000
    processes = report(record.tool, ledger.with_suffix(".mgp"), 0).processes
    kinds = {loss["kind"] for process in processes for loss in process["losses"]}
    assert kinds & {"missed_process", "stopped_file_full"}


@pytest.mark.parametrize("mib", [60, 100, 400, 2000])
def test_little_address_space(record, sanitized, mib):
    """ulimit -v, for the tool and the program."""
    if sanitized:
        pytest.skip("a sanitizer needs more")
    recording = record.run("script", *SOME, "say", preexec_fn=limits(AS=mib << 20))
    assert (recording.stdout, recording.stderr) == ("", "")
    assert_exact(recording.root, recording.said)


REUSE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void)
{
	void *kept[1000];
	struct stat st;
	for (int fd = 3; fd < 200; fd++)
		close(fd);
	for (int fd = 3; fd < 200; fd++) {
		char name[16];
		snprintf(name, sizeof(name), "own%d", fd);
		if (open(name, O_RDWR | O_CREAT | O_TRUNC, 0600) != fd || dprintf(fd, "%d", fd) < 1)
			return 3;
	}
	for (int round = 0; round < 200; round++)
		for (int i = 0; i < 1000; i++) {
			if (round) free(kept[i]);
			kept[i] = malloc(round * 100 + i);
		}
	for (int fd = 3; fd < 200; fd++) {
		char text[8] = "";
		if (fstat(fd, &st) || st.st_size > 3 || pread(fd, text, 7, 0) != st.st_size || atoi(text) != fd)
			return 4;
		close(fd);
	}
	return open("/dev/null", O_RDONLY) == 3 ? 0 : 5;
}
"""


def test_descriptors_that_are_used_again(run, mallograph, cc, tmp_path):
    """The program has closed whatever there may be, and opens files of its own under all numbers."""
    program = cc("reuse", REUSE, "-fno-builtin")
    assert run("-q", "-o", "x.mgp", program).returncode == 0
    root = report(mallograph, tmp_path / "x.mgp", 0).root
    assert root["allocations"] >= 200000 and root["losses"] == []


def test_no_proc_at_all(in_namespace, record, sanitized):
    """The tool needs it, and says so before anything is started."""
    if sanitized:
        pytest.skip("a sanitizer has its options from there")
    said = record.new_paths()[1]
    answer = in_namespace(
        'mount -t tmpfs none /proc && exec "$@"', record.tool, record.program("script"), said, "say",
        env=os.environ, cwd=record.folder,
    )  # fmt: skip
    assert answer.returncode == 125
    assert "/proc" in answer.stderr
    assert not said.exists()


@pytest.mark.parametrize("where", SCRIPTS)
def test_elsewhere(in_namespace, record, where):
    ledger, said = mounted(in_namespace, record, SCRIPTS[where], *SOME, "say")
    processes = report(record.tool, ledger, 0).processes
    (process,) = [one for one in processes if os.path.basename(one["exe"]) == "script"]
    assert_exact(process, read_said(said)[0])
