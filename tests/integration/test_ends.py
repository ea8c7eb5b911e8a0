"""How each process of a tree ended, as whoever waited for it learned it."""

import pytest

from oracle import SITE_TOTALS

LEARNING = (
    "wait waitpid waitpid_null wait3 wait4 waitid waitid_null polled looked handler threads "
    "vfork system popen systems middle"
).split()


def told(process):
    """As waitpid has it; None where the profile does not know."""
    end = process["end"]
    if end["code"] is None:
        return None
    return end["code"] << 8 if end["kind"] == "exit" else end["code"]


def ended(run, pid):
    """The last image of a pid."""
    return [p for p in run.report.processes if p["pid"] == pid][-1]


def children(run):
    return [said for said in run.all_said if "ends" in said.counts]


@pytest.mark.parametrize("how", LEARNING)
def test_every_end_is_told(record, how):
    run = record.run("ends", how)
    (root,) = [said for said in run.all_said if "learned" in said.counts]
    middles = 9 if how == "middle" else 0
    count = 36 if how in ("threads", "systems") else 9
    assert len(children(run)) == count
    assert root["learned"] == count
    for said in children(run):
        assert told(ended(run, said.pid)) == said["ends"], said.words
    assert [p["losses"] for p in run.report.processes] == [[]] * len(run.report.processes)
    assert sum(p["end"] == {"kind": "exit", "code": 42} for p in run.report.processes) == middles


def test_a_wait_that_was_cancelled_is_another_ones(record):
    run = record.run("ends", "cancelled")
    (child,) = children(run)
    assert told(ended(run, child.pid)) == child["ends"] == 7 << 8


@pytest.mark.parametrize("how", ["ignored", "nobody"])
def test_what_nobody_learned_is_not_known(record, how):
    run = record.run("ends", how)
    for said in children(run):
        end = ended(run, said.pid)["end"]
        assert end["code"] is None
        assert end["kind"] in ("exit", "lost")


@pytest.mark.parametrize(
    "how, came", [("vfork", "vfork"), ("waitpid", "fork"), ("popen", "spawn"), ("system", "spawn")]
)
def test_how_they_came(record, how, came):
    run = record.run("ends", how)
    (root, *others) = run.report.processes
    firsts = [p for p in others if p["how"] != "exec"]
    assert {p["how"] for p in firsts} == {came}
    assert {p["parent"] for p in firsts} == {root["id"]}
    by_id = {p["id"]: p for p in run.report.processes}
    for process in others:
        if process["how"] == "exec":
            assert by_id[process["parent"]]["pid"] == process["pid"]
            assert by_id[process["parent"]]["end"] == {"kind": "exec", "code": None}


def test_a_fork_that_execs_before_it_allocates(record):
    """Its parent is known even where the parent of its pid is gone, or was never recorded."""
    run = record.run("ends", "child", "0", before=["sh", "-c", '(exec "$0" "$@") & wait'])
    assert run.report.processes[-1]["how"] in ("spawn", "exec")
    assert run.report.processes[-1]["end"] == {"kind": "exit", "code": 0}
    for process in run.report.processes[1:]:
        assert process["parent"] is not None


def test_an_end_that_a_shell_learned(record, tmp_path):
    """Status and signal of what a script starts, and of what that starts."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nsh -c 'exit 3'\nsh -c 'kill -9 $$'\nuname -o\nexit 5\n")
    script.chmod(0o755)
    run = record.run(script, returncode=5)
    assert run.root["end"] == {"kind": "exit", "code": 5}
    ends = [(p["end"]["kind"], p["end"]["code"]) for p in run.report.processes[1:]]
    assert [end for end in ends if end[0] != "exec"] == [("exit", 3), ("signal", 9), ("exit", 0)]




# --- what is allocated before main and after it ------------------------------------------

EXITS = {"_exit": 7, "exit": 7, "last": 0, "nested": 7, "quick": 7, "return": 7, "signal": 7,
         "thread": 7, "threads": 7}  # fmt: skip


@pytest.mark.parametrize("how", EXITS)
def test_constructors_before_ours_and_what_runs_after_our_destructor(record, how):
    """A library that is initialised before the agent, and ends after it, has the counts."""
    run = record.run("exits", how, returncode=EXITS[how])
    found = run.report.by_function(run.root, record.library("early"))
    (made,) = [name for name in found if "early_make" in name]
    keys = [key for key in SITE_TOTALS if key != "temporary"]
    assert {key: found[made][key] for key in keys} == run.said.only(keys)
    assert run.said["allocations"] > 10
    in_resolver = run.report.of_program(run.root)
    assert (in_resolver["allocations"], in_resolver["allocated_bytes"]) == (1, 1000)
    assert run.root["end"] == {"kind": "exit", "code": EXITS[how]}
    assert run.root["unknown_frees"] == 0
    assert run.root["losses"] == []
    if how not in ("thread", "threads", "last"):
        assert run.root["threads"] == 1
