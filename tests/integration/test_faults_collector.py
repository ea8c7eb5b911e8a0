"""Whatever is refused to the tool: no crash, a message, a right exit code, nothing left over."""

import json
import os
import re
import shutil
import subprocess

import pytest

PROGRAM = ["sh", "-c", "echo ran; exit 3"]


def check_outcome(result, directory, runtime, what):
    """A run under a fault did as it said."""
    told = " ".join(result.stderr.replace("fault: refused", "").split())
    if result.returncode == 3:
        assert result.stdout == "ran\n", what
    else:
        assert result.returncode in (125, 126, 127), (what, told)
        assert "mallograph: " in told, what
    left = [p.name for p in directory.iterdir() if p.name != "out.mgp"]
    assert left == [], what
    sessions = [p.name for p in runtime.rglob("*.mgl")]
    if sessions:
        reasons = "mallograph recover", "cannot remove the session file"
        assert any(reason in told for reason in reasons), (what, told)
        for path in runtime.rglob("*.mgl"):
            path.unlink()
    elif result.returncode == 3:
        assert (directory / "out.mgp").exists(), (what, told)
    (directory / "out.mgp").unlink(missing_ok=True)


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "place"
    path.mkdir()
    return path


@pytest.fixture
def by_hand_ledger(agent, tmp_path):
    env = {**os.environ, "LD_PRELOAD": str(agent), "MALLOGRAPH_OUT": str(tmp_path / "in.mgl")}
    subprocess.run(["ls"], env=env, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def short_of_memory(build, agent, tmp_path, sanitized):
    faulty = build / "tests" / "faults" / "mallograph-faults"
    if sanitized:
        pytest.skip("a sanitizer has an allocator of its own")
    shutil.copy(faulty, tmp_path / "mallograph")
    shutil.copy(agent, tmp_path)
    return tmp_path / "mallograph"


@pytest.mark.parametrize("more", ["", "+"])
@pytest.mark.parametrize("step", [397, pytest.param(31, marks=pytest.mark.slow)])
def test_allocations_refused_in_turn(short_of_memory, runtime, place, more, step):
    number = 0
    while True:
        # Finishing a profile takes thousands; what comes before it, each.
        number += 1 if number < 150 else step
        env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "FAULT_MEMORY": f"{number}{more}"}
        result = subprocess.run([short_of_memory, "-o", "out.mgp", *PROGRAM], cwd=place, env=env,
                                capture_output=True, text=True, timeout=30)
        if "fault: refused" not in result.stderr:
            break
        check_outcome(result, place, runtime, f"allocation {number}{more}")
    assert number > 1000
    assert result.returncode == 3


def figures(output):
    """What a report says but for the names of its frames, which a library short of memory costs."""
    if output.startswith(b"{"):
        report = json.loads(output)
        for site in report["sites"]:
            site["stack"] = [(frame["module"], frame["offset"]) for frame in site["stack"]
                             if not frame["inlined"]]
        return report
    return [line for line in output.splitlines() if not line.startswith(b"       ")]


@pytest.mark.parametrize("step", [397, pytest.param(31, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", [["report", "in.mgl"], ["report", "--json", "in.mgl"],
                                     ["env"], ["--help"]])
def test_commands_short_of_memory(short_of_memory, by_hand_ledger, runtime, tmp_path, command, step):
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    wanted = subprocess.run([short_of_memory, *command], cwd=tmp_path, env=env, check=True,
                            capture_output=True).stdout
    number = 0
    while True:
        number += 1 if number < 150 else step
        result = subprocess.run([short_of_memory, *command], cwd=tmp_path, timeout=30,
                                env={**env, "FAULT_MEMORY": str(number)}, capture_output=True)
        if b"fault: refused" not in result.stderr:
            break
        if result.returncode == 0:
            # stdio does without a buffer of its own.
            assert figures(result.stdout) == figures(wanted), number
        else:
            assert result.returncode == 125 and b"mallograph: " in result.stderr, number
    assert result.returncode == 0


@pytest.mark.parametrize("step", [397, pytest.param(31, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", [
    ["report", "--tree"], ["report", "--json"], ["blocks"], ["hist"], ["info"],
    ["query", "SELECT * FROM v_site"]])
def test_profile_commands_short_of_memory(short_of_memory, run, runtime, tmp_path, command, step):
    assert run("-q", "-o", "in.mgp", "ls").returncode == 0
    words = [short_of_memory, *command, "in.mgp"]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    wanted = subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True).stdout
    number = 0
    while True:
        number += 1 if number < 50 else step
        result = subprocess.run(words, cwd=tmp_path, env={**env, "FAULT_MEMORY": str(number)},
                                timeout=30, capture_output=True)
        if b"fault: refused" not in result.stderr:
            break
        if result.returncode == 0:
            assert result.stdout == wanted, number
        else:
            assert result.returncode == 125 and b"mallograph: " in result.stderr, number
    assert result.returncode == 0


# What can fail, as what. Each call of the tool's own is refused in turn.
SYSCALLS = {
    "openat": "EMFILE", "pipe2": "EMFILE", "signalfd4": "EMFILE", "clone,clone3,fork,vfork": "EAGAIN",
    "write": "ENOSPC", "pwrite64": "ENOSPC", "pread64": "EIO", "ftruncate": "ENOSPC",
    "linkat": "EDQUOT", "renameat,renameat2": "EIO", "mkdir": "EROFS", "flock": "ENOLCK", "lseek": "EIO",
    "fstat,newfstatat,statx": "EIO", "mmap": "ENOMEM", "fcntl": "EMFILE", "unlinkat": "EIO",
    "access,faccessat,faccessat2": "EACCES", "readlink": "ENOENT", "statfs,fstatfs": "EIO",
    "poll,ppoll": "ENOMEM", "madvise": "ENOMEM", "fallocate": "ENOSPC", "prlimit64": "EPERM",
    "dup3,dup2": "EIO", "close_range": "EINVAL",
}


@pytest.fixture
def traced(mallograph, runtime, place, sanitized):
    if sanitized or not shutil.which("strace"):
        pytest.skip("needs strace, and no sanitizer")

    def run(*options):
        return subprocess.run(
            ["strace", "-qq", *options, mallograph, "-o", "out.mgp", *PROGRAM], cwd=place,
            capture_output=True, text=True, timeout=30, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})

    return run


@pytest.mark.parametrize("most", [10, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("calls", SYSCALLS)
def test_system_calls_refused_in_turn(traced, runtime, place, tmp_path, calls, most):
    log = tmp_path / "log"
    assert traced("-o", log, "-e", f"trace=openat,{calls}").returncode == 3
    (place / "out.mgp").unlink()
    lines = log.read_text().splitlines()
    # The loader's own come before main opens /dev/null to keep 0, 1 and 2 taken.
    main = next(i for i, line in enumerate(lines) if '"/dev/null"' in line)
    names = tuple(calls.split(","))
    matching = [i for i, line in enumerate(lines) if re.match(r"\w+", line)[0] in names]
    turns = [(number, at) for number, at in enumerate(matching, 1) if at >= main]
    for number, at in turns[:: -(-len(turns) // most) or 1]:
        result = traced("-o", "/dev/null", "-e", f"inject={calls}:error={SYSCALLS[calls]}:when={number}")
        check_outcome(result, place, runtime, f"{lines[at]} as {SYSCALLS[calls]}")


@pytest.mark.parametrize("limit", [["-n", "16"], ["-n", "20"], ["-s", "64"]])
@pytest.mark.parametrize("sites", ["20", "6000"])
def test_the_tool_is_given_little(run, build, limit, sites, tmp_path):
    """What it needs for names must not cost the profile."""
    shell = ["sh", "-c", f'ulimit {" ".join(limit)} && exec "$@"', "sh"]
    result = run("-q", "-o", "x.mgp", build / "bench" / "sites", sites, "60000", "1000", "0.3",
                 before=shell)
    assert result.returncode == 0, result.stderr
    said = run("query", "select count(*) >= %s, sum(allocs) >= 60000 from site" % sites, "x.mgp",
               text=True).stdout
    assert said.split()[-2:] == ["1", "1"], said
