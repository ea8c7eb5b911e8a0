"""The tool dies, or loses its terminal or whoever reads it: the program does not notice, and what was
recorded is read. (Its disk being full: test_output.py; amid a tree of processes: test_retire.py.)"""

import os
import pty
import random
import signal
import subprocess
import time

import pytest

from oracle import PEAK, TOTALS, peak, read_said, report, totals, wait_for

STEPS = ("make:500:100", "free:200", "churn:50", "tree:300")
GO_ON = "trap '' HUP; while ! [ -e {go} ]; do sleep 0.01; done; exec {program} {said} {steps} say exit:7"


def assert_exact(process, said):
    assert totals(process) == {**said.only(TOTALS), "temporary": process["temporary"]}
    assert peak(process) == said.only(PEAK)
    assert process["losses"] == []


@pytest.fixture
def patient(record):
    """A command that goes on once the file `go` is there, and ends with 7; and where it says what."""
    said, go = record.new_paths()[1], record.folder / "go"
    script = GO_ON.format(go=go, program=record.program("script"), said=said, steps=" ".join(STEPS))
    return ["sh", "-c", script], go, said


def last_of(record, profile):
    return report(record.tool, profile, 0).processes[-1]


def test_its_terminal_is_gone(record, patient):
    """Both are told so, and both go on."""
    command, go, said = patient
    profile = record.folder / "terminal.mgp"
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(record.tool, [record.tool, "-o", profile, "--", *command])
    wait_for(lambda: len(open(f"/proc/{pid}/task/{pid}/children").read().split()) == 1)
    time.sleep(0.1)
    os.close(terminal)
    time.sleep(0.1)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    go.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert_exact(last_of(record, profile), read_said(said)[0])


@pytest.mark.parametrize("full", [False, True], ids=["closed", "full"])
def test_nobody_takes_its_words(record, patient, full):
    """mallograph PROGRAM 2>&1 | head -n 0, and a standard error on a full disk."""
    command, go, said = patient
    profile = record.folder / "words.mgp"
    reads, writes = os.pipe()
    if full:
        os.close(writes)
        writes = os.open("/dev/full", os.O_WRONLY)
    tool = subprocess.Popen([record.tool, "-o", profile, "--", *command], stderr=writes)
    os.close(writes)
    os.close(reads)
    go.touch()
    assert tool.wait(60) == 7
    assert_exact(last_of(record, profile), read_said(said)[0])
    assert sorted(path.suffix for path in record.folder.iterdir() if path != go) == [".mgp", ".said"]


def sessions(runtime):
    return list((runtime / "mallograph").glob("*.mgl")) if (runtime / "mallograph").exists() else []


def recovers(record, profile, session, env):
    answer = subprocess.run([record.tool, "recover", "-o", profile, session], env=env,
                            capture_output=True, text=True)  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return "its processes still run" not in " ".join(answer.stderr.split())


def killed_once(record, runtime, after, number):
    """Whether the tool was still there."""
    said, profile = record.folder / f"{number}.said", record.folder / f"{number}.mgp"
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    command = ["sh", "-c", f'{record.program("script")} "$@"; sleep 0.03; :', "sh", said, *STEPS, "say"]
    tool = subprocess.Popen([record.tool, "-q", "-o", profile, "--", *command], env=env)
    time.sleep(after)
    tool.kill()
    killed = tool.wait() != 0
    # Its program is nobody's child now; it holds the session until it has ended.
    for session in sessions(runtime):
        wait_for(lambda: recovers(record, profile, session, env))
        assert sessions(runtime) == []
    if not profile.exists():
        assert killed and not said.exists()
        return killed
    found = [one for one in report(record.tool, profile, 0).processes if "script" in one["exe"]]
    for one in found:
        assert_exact(one, read_said(said)[0])
    assert found or not said.exists()
    return killed


@pytest.mark.parametrize("times", [12, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_at_any_instant(record, runtime, times):
    """From before there is a program to after there is a profile."""
    moments = random.Random(times)
    killed = [killed_once(record, runtime, moments.random() * 0.08, n) for n in range(times)]
    assert any(killed)
