"""However a program ends, its profile is whole up to the last call that returned."""

import os
import random
import signal
import struct
import subprocess
import time

import pytest

from ledger_file import Ledger
from oracle import PEAK, SITE_TOTALS, TOTALS, peak, read_said, report, totals, wait_for

# how, the end in the report, the tool's exit status
DEATHS = [
    ("return", ("exit", 7), 7),
    ("exit", ("exit", 7), 7),
    ("_exit", ("exit", 7), 7),
    ("quick_exit", ("exit", 7), 7),
    ("exec_fails", ("exit", 7), 7),
    ("abort", ("signal", signal.SIGABRT), -signal.SIGABRT),
    ("segv", ("signal", signal.SIGSEGV), -signal.SIGSEGV),
    ("kill", ("signal", signal.SIGKILL), -signal.SIGKILL),
]


def end_of(process):
    return process["end"]["kind"], process["end"]["code"]


def assert_whole(process, said):
    assert totals(process) == said.only(TOTALS)
    assert peak(process) == said.only(PEAK)
    assert process["peak_error_bytes"] == 0
    assert process["losses"] == []
    assert process["unknown_frees"] == 0


@pytest.mark.parametrize("how, end, status", DEATHS, ids=[d[0] for d in DEATHS])
def test_death_loses_nothing(record, how, end, status):
    run = record.run("deaths", how, returncode=status)
    assert_whole(run.root, run.said)
    assert run.said["allocations"] == 1002
    assert end_of(run.root) == end
    assert run.root["how"] == "root"
    assert len(run.report.processes) == 1
    sums = run.report.by_function(run.root)
    assert sums["last_block"]["peak_bytes"] == sums["last_block"]["live_bytes"] == 1 << 20
    assert sums["small_block"]["allocations"] == 1001


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_killed_from_outside(record, number):
    tool, ledger, said_path = record.start("deaths", "wait")
    record.ready(said_path)
    (said,) = read_said(said_path)
    os.kill(said.pid, number)
    assert tool.wait(20) == -number
    root = report(record.tool, ledger).root
    assert_whole(root, said)
    assert end_of(root) == ("signal", number)


def test_exec_of_another_program(record):
    run = record.run("deaths", "exec_other", returncode=7)
    before, after = run.report.processes
    assert_whole(before, run.said)
    assert before["end"]["kind"] == "exec"
    assert (after["how"], after["parent"], after["pid"]) == ("exec", before["id"], before["pid"])
    assert os.path.basename(after["exe"]) == os.path.basename(os.path.realpath("/bin/sh"))
    assert end_of(after) == ("exit", 7)


def test_exec_of_itself(record):
    run = record.run("deaths", "exec_self", returncode=7)
    before, after = run.report.processes
    assert_whole(before, run.all_said[0])
    assert_whole(after, run.all_said[1])
    assert before["end"]["kind"] == "exec"
    assert (after["how"], after["parent"], after["pid"]) == ("exec", before["id"], before["pid"])


@pytest.mark.parametrize("how, status", [("cancel", 7), ("main_thread_first", 0)])
def test_threads_that_end_first(record, how, status):
    """With threads the C library allocates too: compared by the program's own sites."""
    run = record.run("deaths", how, returncode=status)
    assert run.report.of_program(run.root) == run.said.only((*SITE_TOTALS, *PEAK))
    assert end_of(run.root) == ("exit", status)


# --- killed at any instant ---------------------------------------------------------

STATE = ("allocations frees failed allocated_bytes temporary moved live_blocks live_bytes "
         "peak_blocks peak_bytes").split()  # fmt: skip
PART = struct.Struct("<qQQ40Q")
LARGEST = 3016  # the largest block `published` makes


def read_published(path):
    """[(pid, state after the last call that returned, state after the last one begun)]."""
    found = []
    for pid, started, finished, *numbers in PART.iter_unpack(path.read_bytes()):
        states = [dict(zip(STATE, numbers[i : i + 10])) for i in range(0, 40, 10)]
        assert started - finished in (0, 1)
        found.append((pid, states[finished & 3], states[started & 3]))
    return found


def same(process, state):
    keys = (*TOTALS, *PEAK)
    return all(process[key] == state[key] for key in keys)


def assert_within_one_call(process, done, begun):
    """Exactly before or after the call that did not return, or in the middle of that one."""
    if same(process, done) or same(process, begun):
        return True
    for key in ("allocations", "frees", "failed", "allocated_bytes", "temporary", *PEAK):
        assert process[key] in (done[key], begun[key]), key
    low, high = sorted((done["live_blocks"], begun["live_blocks"]))
    assert low - 1 <= process["live_blocks"] <= high
    low, high = sorted((done["live_bytes"], begun["live_bytes"]))
    assert low - LARGEST <= process["live_bytes"] <= high
    return False


def test_killed_at_any_instant_in_a_tree(record):
    """200 children, each killed at a random instant."""
    page = record.folder / "page"
    ledger = record.folder / "tree.mgl"
    run_published(record, ledger, page, 200)
    profile = report(record.tool, ledger)
    exact = total = 0
    for pid, done, begun in read_published(page):
        if pid == 0 or done["allocations"] == 0:
            continue  # killed before its first call had returned
        child = profile.of_pid(pid)
        assert child["parent"] == profile.root["id"]
        exact += assert_within_one_call(child, done, begun)
        total += 1
    # Or the test were as good as blind: in a call that did not return at nearly every death.
    assert exact >= total / 2 > 50
    assert profile.root["allocations"] == 0


def run_published(record, ledger, page, children):
    command = [record.tool, "-q", "-o", ledger, "--", record.program("published"), page]
    subprocess.run([*command, str(children), "7"], check=True, timeout=60)


def killed_once(record, page, ledger, after):
    command = [record.tool, "-q", "-o", ledger, "--", record.program("published"), page, "0", "3"]
    tool = subprocess.Popen(command)
    wait_for(lambda: page.exists() and page.stat().st_size and page.read_bytes()[8:16].strip(b"\0"))
    time.sleep(after)
    os.kill(PART.unpack(page.read_bytes())[0], signal.SIGKILL)
    assert tool.wait(20) == -signal.SIGKILL
    ((pid, done, begun),) = read_published(page)
    root = report(record.tool, ledger).root
    assert root["pid"] == pid
    assert done["allocations"] > 0
    return assert_within_one_call(root, done, begun)


def test_killed_at_any_instant(record):
    moments = random.Random(5)
    for i in range(15):
        killed_once(
            record, record.folder / f"{i}.page", record.folder / f"{i}.mgl", moments.random() / 20
        )


@pytest.mark.slow
def test_killed_at_any_instant_often(record):
    moments = random.Random(6)
    exact = [
        killed_once(
            record, record.folder / f"{i}.page", record.folder / f"{i}.mgl", moments.random() / 10
        )
        for i in range(200)
    ]
    assert sum(exact) >= 160


def test_second_reader_agrees(record):
    """The ledger as the tests read it by themselves says what the report says."""
    run = record.run("deaths", "kill", returncode=-signal.SIGKILL)
    (process,) = Ledger(run.ledger).processes
    rows = process.rows
    assert sum(r.allocs for r in rows) == run.said["allocations"]
    assert sum(r.frees for r in rows) == run.said["frees"]
    assert sum(r.bytes_in for r in rows) == run.said["allocated_bytes"]
    assert process.header.max == run.said["peak_bytes"]
    assert process.losses == {}
