"""Threads of every kind, and what they allocate when all but they have ended: exact counts, and
memory bounded by what is live."""

import subprocess

import pytest

from ledger_file import Ledger
from oracle import SITE_TOTALS, lost

KEYS = [key for key in SITE_TOTALS if key != "temporary"]
OWN_NAMES = 128  # slots, before threads share them by names that are not the same


def assert_exact(run, sites=None):
    """The counts are the program's own, every free is known, nothing is lost."""
    found = run.report.of_program(run.root)
    if sites:
        by_name = run.report.by_function(run.root)
        found = {key: sum(by_name[site][key] for site in sites) for key in KEYS}
    assert {key: found[key] for key in KEYS} == run.said.only(KEYS)
    assert run.root["unknown_frees"] == 0
    assert lost(run.root) == []
    process = Ledger(run.ledger).of_pid(run.said.pid)
    assert all(slot.op % 2 == 0 for slot in process.slots)
    return process


@pytest.mark.parametrize("how", ["local", "registered", "tss", "rounds", "detached", "main_first"])
def test_destructors_of_threads(record, how):
    process = assert_exact(record.run("thread_ends", how, 200))
    # Detached ones, and the eight of main_first, may still be ending while the next ones start.
    assert process.header.slot_count <= (32 if how in ("detached", "main_first") else 3)


def test_destructors_of_all_kinds_at_once(record):
    process = assert_exact(record.run("thread_ends", "all", 800))
    assert process.header.slot_count <= 16 + 2


def test_cancelled_threads_clean_up(record):
    """In a sleep, a read, a printf, a wait, and between two calls."""
    process = assert_exact(record.run("thread_ends", "cancelled", 200))
    assert process.header.slot_count <= 3


@pytest.mark.parametrize("how", ["renamed", "smallest", "cloned", "vm", "asynchronous"])
def test_unusual_threads(record, how):
    run = record.run("thread_kinds", how, 200)
    assert_exact(run, ["made"])


def test_thread_ids_that_come_again(record):
    """Each finds the slot of the last one, whose id it has and who is gone all the same."""
    before = ["unshare", "--fork", "--pid", *([] if can_unshare() else ["--map-root-user"])]
    if subprocess.run([*before, "sh", "-c", "echo 9 >/proc/sys/kernel/ns_last_pid"]).returncode:
        pytest.skip("no pid namespace")
    run = record.run("thread_kinds", "reused", 300, before=before)
    (said,) = run.all_said
    (root,) = [p for p in run.report.processes if p["exe"].endswith("thread_kinds")]
    assert said["same"] == 299
    found = run.report.by_function(root)["made"]
    assert {key: found[key] for key in KEYS} == said.only(KEYS)
    assert root["losses"] == []
    (process,) = [p for p in Ledger(run.ledger).processes if p.header.pid == said.pid]
    assert process.header.slot_count == 2


def can_unshare():
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0


# --- names -----------------------------------------------------------------------------


def added_memory(record, run, *args):
    native = record.native(*args)[0]
    return sum(run.said[key] - native[key] for key in ("rss_anon", "rss_shmem", "rss_file"))


def named(record, how, count):
    run = record.run("thread_kinds", how, count, timeout=300)
    process = assert_exact(run, ["made"])
    names = [slot.name.rstrip(b"\0").decode() for slot in process.slots]
    assert sum(slot.adopted for slot in process.slots) == count + 1
    # Three blocks a thread stay, in 1 KiB of heap, one being aligned to 256 bytes; a slot has
    # tables of its own.
    added = added_memory(record, run, "thread_kinds", how, count)
    assert added < (4 << 20) + len(names) * (48 << 10) + count * 1024 // 4
    return run, names


def test_threads_by_names_of_their_own(record):
    """A slot each would be without bound: many share one, by what their names begin with."""
    run, names = named(record, "named", 3000)
    assert OWN_NAMES < len(names) <= OWN_NAMES + 2
    assert "conn-*" in names
    assert "thread_kinds" in names
    shown = subprocess.run(
        [record.tool, "hist", run.ledger, "--by", "thread"], capture_output=True, text=True
    ).stdout
    assert "conn-*" in shown


def test_threads_by_names_that_share_nothing(record):
    _, names = named(record, "strangers", 3000)
    assert 2 * OWN_NAMES < len(names) <= 2 * OWN_NAMES + 2
    assert any(name.endswith("*") for name in names)
    assert "thread_kinds" in names


@pytest.mark.slow
def test_a_hundred_thousand_threads_by_names_of_their_own(record):
    _, names = named(record, "named", 100000)
    assert len(names) <= OWN_NAMES + 2
