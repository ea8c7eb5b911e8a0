"""Forked processes: the parent stays exact, each child has a ledger of its own."""

import subprocess

import pytest

from ledger_file import Ledger
from oracle import PEAK, SITE_TOTALS, TOTALS, peak, totals

# What the report may call a child that was made so: vfork and posix_spawn are one to the kernel.
HOW = {
    "fork": ("fork",),
    "raw": ("fork",),
    "chain": ("fork",),
    "vfork_exec": ("vfork", "spawn", "exec"),
    "spawn": ("vfork", "spawn", "exec"),
}


def by_role(run):
    roles = {}
    for said in run.all_said:
        roles.setdefault(said.words["role"], []).append(said)
    return roles


def assert_all_exact(run, count):
    """Every process of the profile equals what it says of itself, and there are no others."""
    assert len(run.all_said) == count
    assert len(run.report.processes) == count
    for said in run.all_said:
        process = run.report.of_pid(said.pid)
        assert totals(process) == said.only(TOTALS), said.words
        assert peak(process) == said.only(PEAK), said.words
        assert process["inherited_frees"] == said["inherited"]
        assert process["unknown_frees"] == 0
        assert process["losses"] == []
    assert run.root["end"] == {"kind": "exit", "code": 0}


def assert_children(run, how):
    """Each child says of which process it is, and how it came."""
    ids = {p["pid"]: p["id"] for p in run.report.processes}
    for process in run.report.processes:
        if process["parent"] is None:
            assert process["how"] == "root"
        else:
            assert process["how"] in how
            assert process["parent"] == ids[process["ppid"]]


@pytest.mark.parametrize("how", HOW)
def test_processes_are_exact(record, how):
    run = record.run("forks", how, 20)
    assert_all_exact(run, 21)
    assert_children(run, HOW[how])


def test_children_free_what_they_inherited(record):
    """Some do, so that the count above is of something; by realloc too."""
    run = record.run("forks", "inherit", 30)
    assert_all_exact(run, 31)
    assert sum(said["inherited"] for said in run.all_said) > 30 * 100
    assert run.root["inherited_frees"] == 0
    info = subprocess.run([record.tool, "info", run.ledger], capture_output=True, text=True)
    assert "of a parent freed by 30 forked processes" in info.stdout


def test_what_a_grandparent_had_is_inherited(record):
    run = record.run("forks", "chain", 50)
    assert_all_exact(run, 51)
    assert sum(said["inherited"] for said in run.all_said) > 50


def test_a_chain_fifty_deep(record):
    run = record.run("forks", "chain", 50)
    assert_all_exact(run, 51)
    assert_children(run, ("fork",))


def test_forks_from_threads(record):
    run = record.run("forks", "threads", 10)
    roles = by_role(run)
    assert len(roles["child"]) == 40
    for said in roles["child"]:
        child = run.report.of_pid(said.pid)
        own = run.report.of_program(child)
        assert {k: own[k] for k in SITE_TOTALS} == said.only(SITE_TOTALS)
    (parent,) = roles["parent_of_threads"]
    own = run.report.of_program(run.root)
    assert {k: own[k] for k in SITE_TOTALS} == parent.only(SITE_TOTALS)


def test_handlers_of_forks(record):
    """What pthread_atfork's make before is the parent's, to be freed by both."""
    run = record.run("atforks", 0, 40)
    assert_all_exact(run, 41)
    assert [said["inherited"] for said in run.all_said] == [3] * 40 + [0]


def test_handlers_of_forks_from_threads(record):
    run = record.run("atforks", 6, 60)
    roles = by_role(run)
    assert len(roles["child"]) == 60
    for said in (*roles["child"], *roles["parent"]):
        process = run.report.of_pid(said.pid)
        own = run.report.of_program(process)
        assert {k: own[k] for k in SITE_TOTALS} == said.only(SITE_TOTALS)
        assert process["inherited_frees"] == said["inherited"]
        assert process["unknown_frees"] == 0
        assert process["losses"] == []


@pytest.mark.parametrize("how", ["handler", "handler_raw"])
def test_forks_in_a_handler(record, how):
    """A fork in the middle of a hook: that one call is the parent's, its child starts anew."""
    run = record.run("forks", how, 60)
    roles = by_role(run)
    assert len(roles["handler_child"]) == 60
    for said in roles["handler_child"]:
        child = run.report.of_pid(said.pid)
        more = child["allocations"] - said["allocations"]
        assert more in (0, 1)  # the call the fork came before
        assert child["frees"] - said["frees"] in (0, 1)
        assert child["live_blocks"] in (0, more)
        assert child["temporary"] in (said["temporary"], said["temporary"] + 1)
        assert child["losses"] == []
    (parent,) = roles["parent_of_handler"]
    keys = [key for key in TOTALS if key != "temporary"]
    assert {k: run.root[k] for k in keys} == parent.only(keys)
    assert peak(run.root) == parent.only(PEAK)
    assert run.root["losses"] == []


def test_many_forks(record):
    run = record.run("forks", "fork", 200)
    assert_all_exact(run, 201)


@pytest.mark.slow
def test_two_thousand_forks(record):
    run = record.run("forks", "fork", 2000, timeout=600)
    assert_all_exact(run, 2001)


def test_children_write_into_their_own_ledger(record):
    """By the second reader: as many ledgers as processes, each with its process's rows alone."""
    run = record.run("forks", "raw", 20)
    ledger = Ledger(run.ledger)
    assert len(ledger.processes) == 21
    for said in run.all_said:
        rows = ledger.of_pid(said.pid).rows
        assert sum(row.allocs for row in rows) == said["allocations"]
        assert sum(row.frees for row in rows) == said["frees"]
    assert ledger.session.missed == 0
