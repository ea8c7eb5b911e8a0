"""Kinds of process trees, each program with its own counts; who came from whom and how it ended."""

import os
import pathlib
import shutil
import subprocess

import pytest

import oracle
from oracle import PEAK, TOTALS, peak, totals, wait_for


def exact(process, said):
    assert totals(process) == said.only(TOTALS), said.words
    assert peak(process) == said.only(PEAK), said.words
    assert process["unknown_frees"] == 0
    assert process["losses"] == []


def all_exact(run, count=None):
    """Each process that said something is in the profile once, and exact."""
    assert count is None or len(run.all_said) == count
    for said in run.all_said:
        exact(images(run, said)[-1], said)


def images(run, said):
    return [p for p in run.report.processes if p["pid"] == said.pid]


def said_by(run, role):
    (found,) = [said for said in run.all_said if said.words["role"] == role]
    return found


def names(report):
    return [os.path.basename(p["exe"]) for p in report.processes]


def ends(report):
    return [(p["end"]["kind"], p["end"]["code"]) for p in report.processes]


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_program_that_executes_itself(record):
    """Every image is a process of the profile, all of one pid."""
    run = record.run("trees", "self", 10)
    assert len(run.all_said) == 11
    assert {p["pid"] for p in run.report.processes} == {run.all_said[0].pid}
    for said, process in zip(run.all_said, run.report.processes, strict=True):
        exact(process, said)
    assert [p["how"] for p in run.report.processes] == ["root"] + ["exec"] * 10
    assert [p["parent"] for p in run.report.processes] == [None, *range(1, 11)]
    assert ends(run.report) == [("exec", None)] * 10 + [("exit", 0)]


def test_wrapper_scripts(record, tmp_path):
    """A script that executes a script that executes env -i that executes the program."""
    inner = script(tmp_path / "inner", '#!/bin/sh\nexec env -i "$@"\n')
    outer = script(tmp_path / "outer", f'#!/bin/sh\nuname >/dev/null\nexec {inner} "$@"\n')
    run = record.run("trees", "many", 3, before=[outer])
    shell = os.path.basename(os.path.realpath("/bin/sh"))
    assert [n for n in names(run.report) if n != "uname"] == [shell, shell, "env"] + ["trees"] * 4
    all_exact(run, 4)
    root = images(run, said_by(run, "root"))
    assert [p["end"]["kind"] for p in root] == ["exec"] * 3 + ["exit"]


def test_a_shim_as_of_pyenv(record, tmp_path):
    """A script under the program's name finds the real one behind itself in PATH, and executes it."""
    shims, real = tmp_path / "shims", tmp_path / "real"
    shims.mkdir()
    real.mkdir()
    shutil.copy(record.program("trees"), real / "tool")
    script(
        shims / "tool",
        '#!/bin/sh\nset -e\nPATH=$(echo "$PATH" | sed "s|^[^:]*:||")\n'
        'found=$(command -v tool)\nexec "$found" "$@"\n',
    )
    run = record.run(
        "tool", "many", 3, before=["env", f"PATH={shims}:{real}:{os.environ['PATH']}"]
    )
    all_exact(run, 4)
    assert names(run.report).count("tool") == 4
    root = images(run, said_by(run, "root"))[-1]
    assert os.path.basename(root["exe"]) == "tool"
    assert root["end"] == {"kind": "exit", "code": 0}


def test_a_daemon(record):
    run = record.run("trees", "daemon")
    exact(run.root, said_by(run, "root"))
    daemon = said_by(run, "daemon")
    process = run.report.of_pid(daemon.pid)
    exact(process, daemon)
    assert process["how"] == "fork"
    parent = run.report.processes[process["parent"] - 1]
    assert parent["parent"] == run.root["id"]
    assert parent["end"] == {"kind": "exit", "code": 0}
    assert process["end"]["code"] is None  # its parent is gone: init learned it


def test_a_double_fork(record):
    """Its parent did nothing that is recorded: it comes from the root."""
    run = record.run("trees", "twice")
    all_exact(run, 2)
    process = run.report.of_pid(said_by(run, "grandchild").pid)
    assert process["parent"] == run.root["id"]


def test_a_subreaper_learns_an_orphans_end(record):
    run = record.run("trees", "orphan")
    all_exact(run, 2)
    process = run.report.of_pid(said_by(run, "grandchild").pid)
    assert process["end"] == {"kind": "exit", "code": 7}


def test_a_child_that_outlives_the_tool(record):
    """The tool ends with the root, says that a process still runs, and harms it not."""
    ledger, said_path = record.new_paths()
    go = pathlib.Path(f"{said_path}.go")
    command = [w for w in record.command(ledger, said_path, "trees", "outlives") if w != "-q"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tool:
        wait_for(lambda: said_path.exists() and "role ready" in said_path.read_text())
        # The child holds the pipe, so its end is not awaited.
        assert tool.wait(20) == 0
        child = [s for s in oracle.read_said(said_path) if s.words["role"] == "ready"][0]
        found = oracle.report(record.tool, ledger)
        process = found.of_pid(child.pid)
        assert process["end"]["kind"] == "running"
        assert process["allocations"] == child["allocations"]
        go.touch()
        wait_for(lambda: "role outlived" in said_path.read_text())
        assert "1 process still runs" in tool.stderr.read()
    wait_for(lambda: not os.path.exists(f"/proc/{child.pid}"))


def test_children_that_share_their_parents_memory(record):
    """Whatever is allocated there is the parent's. What they execute is a process of its own."""
    run = record.run("trees", "shared")
    assert names(run.report) == ["trees"] * 4
    all_exact(run, 4)
    assert [p["how"] for p in run.report.processes] == ["root"] + ["vfork"] * 3
    assert ends(run.report) == [("exit", 0)] * 4


def test_forks_that_no_hook_sees(record):
    run = record.run("trees", "bare")
    all_exact(run, 21)
    assert {p["how"] for p in run.report.processes[1:]} == {"fork"}
    assert {p["parent"] for p in run.report.processes[1:]} == {run.root["id"]}
    assert ends(run.report) == [("exit", 0)] * 21


def test_an_exec_by_way_of_syscall(record):
    run = record.run("trees", "syscall")
    assert len(run.report.processes) == 2
    for said, process in zip(run.all_said, run.report.processes, strict=True):
        exact(process, said)
    assert run.report.processes[1]["how"] == "exec"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a program away, and becomes somebody else")
def test_programs_that_drop_the_preload(record, program, tmp_path):
    """As sudo -u does: the loader ignores LD_PRELOAD in a setuid program. It is named."""
    likes_sudo = tmp_path / "likes_sudo"
    shutil.copy(program("execs"), likes_sudo)
    os.chown(likes_sudo, 65534, 65534)
    likes_sudo.chmod(0o4755)
    tmp_path.chmod(0o755)
    ledger = record.new_paths()[0]
    done = subprocess.run(
        [record.tool, "-q", "-o", ledger, "--", "sh", "-c",
         f"{likes_sudo} execv {program('show')} >/dev/null; uname -o; exit 6"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 6
    assert done.stdout == "GNU/Linux\n"
    found = oracle.report(record.tool, ledger)
    missed = [n for p in found.processes for n in p["losses"]]
    assert missed == [{"kind": "missed_process", "count": 1, "detail": f"{likes_sudo} (setuid)"}]
    assert "show" not in names(found)
    assert "uname" in names(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="chooses pids, in a namespace of its own")
def test_a_pid_that_is_used_again_and_again(record, in_namespace, tmp_path):
    count = 30
    ledger, said = record.new_paths()
    done = in_namespace(
        'exec unshare -p --fork --mount-proc "$@"', record.tool, "-q", "-o", ledger, "--",
        record.program("trees"), said, "reused", count, env=os.environ, cwd=tmp_path,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("pids cannot be chosen here")
    assert done.returncode == 0, done.stderr
    found = oracle.report(record.tool, ledger)
    reused = [p for p in found.processes if p["pid"] == 300]
    heard = [s for s in oracle.read_said(said) if s.pid == 300]
    assert len(heard) == count * 4 // 3
    assert [p["allocations"] for p in reused] == [s["allocations"] for s in heard]
    for process, one in zip(reused, heard, strict=True):
        exact(process, one)
    expected = []
    for i in range(count):
        end = ("exit", i % 100)
        came = {0: [("fork", end)], 1: [("fork", ("exec", None)), ("exec", end)],
                2: [("spawn", end)]}[i % 3]  # fmt: skip
        expected += came
    assert [(p["how"], (p["end"]["kind"], p["end"]["code"])) for p in reused] == expected
    exact(found.root, oracle.read_said(said)[-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a pid namespace")
def test_a_pid_namespace(record):
    """Its first process is 1 to itself and another to its parent, which learns how it ends."""
    before = ["unshare", "-p", "--fork", "--kill-child", "sh", "-c", '"$@"; (exec uname); exit 9', "sh"]
    if subprocess.run(["unshare", "-p", "--fork", "true"], check=False).returncode:
        pytest.skip("no pid namespace")
    run = record.run("trees", "many", 3, before=before, returncode=9)
    shell = [p for p in run.report.processes if p["pid"] == 1][-1]
    assert shell["end"] == {"kind": "exit", "code": 9}
    assert shell["parent"] is not None
    all_exact(run, 4)
    others = [p for p in run.report.processes if p["pid"] != 1]
    assert {p["end"]["code"] for p in others if p["end"]["kind"] != "exec"} <= {0, 1, 2, 9}
    assert None not in {p["end"]["code"] for p in others if p["end"]["kind"] != "exec"}


def many(record, count):
    run = record.run("trees", "many", count, timeout=900)
    found = run.report.processes
    assert len(found) == len(run.all_said) == count + 1
    # A pid may come again, but one child follows the other.
    for process, said in zip(found[1:], run.all_said, strict=False):
        assert process["pid"] == said.pid
        exact(process, said)
    assert [p["end"] for p in found[1:]] == [
        {"kind": "exit", "code": i % 200} for i in range(count)
    ]
    assert {p["parent"] for p in found[1:]} == {found[0]["id"]}
    exact(found[0], said_by(run, "root"))


def test_a_thousand_forks(record):
    many(record, 1000)


@pytest.mark.slow
def test_ten_thousand_forks(record):
    many(record, 10_000)
