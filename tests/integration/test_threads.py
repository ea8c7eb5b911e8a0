"""Many threads: exact counts, slots taken over, temporaries by thread and block, bounded peaks."""

import pytest

from ledger_file import Ledger
from oracle import SITE_TOTALS




def assert_program_exact(run):
    found = run.report.of_program(run.root)
    assert {key: found[key] for key in SITE_TOTALS} == run.said.only(SITE_TOTALS)
    assert run.root["unknown_frees"] == 0
    losses = run.report.losses(run.root)
    assert not losses.keys() & {"occupied", "unrecorded", "unshadowed", "nested_calls"}


@pytest.mark.parametrize(
    "how, count",
    [
        ("turn", 2000),
        ("once", 300),
        ("crowd", 64),
        ("handover", 3000),
        ("inherit", 200),
        ("exiting", 300),
    ],
)
def test_exact(record, how, count):
    run = record.run("threads", how, count)
    assert_program_exact(run)
    if how == "handover":
        # Or the test shows nothing: blocks at the address of the thread's own last one.
        assert run.said["same_address"] > count * 0.9


def test_slots_are_taken_over(record):
    """121 threads in turn leave the rows of two, not of 121."""
    run = record.run("threads", "turn", 121)
    assert_program_exact(run)
    process = Ledger(run.ledger).of_pid(run.said.pid)
    assert process.header.slot_count <= 3
    assert sum(slot.adopted for slot in process.slots) >= 121
    assert run.root["threads"] in (121, 122)
    assert len(process.rows) < 60


def test_threads_are_counted(record):
    run = record.run("threads", "once", 40)
    assert run.root["threads"] in (40, 41)


def assert_bounded(record, count):
    """Memory is bounded by what is live, here two blocks a thread, not by threads ever."""
    run = record.run("threads", "turn", count, timeout=300)
    assert_program_exact(run)
    native = record.native("threads", "turn", count)[0]
    added = sum(run.said[k] - native[k] for k in ("rss_anon", "rss_shmem", "rss_file"))
    assert added < (3 << 20) + count * 2 * 24
    assert Ledger(run.ledger).of_pid(run.said.pid).header.slot_count <= 3


def test_short_threads_cost_no_memory(record):
    assert_bounded(record, 5000)


@pytest.mark.slow
def test_a_hundred_thousand_threads_in_turn(record):
    assert_bounded(record, 100000)


@pytest.mark.slow
def test_a_thousand_threads_at_once(record):
    run = record.run("threads", "once", 1000)
    assert_program_exact(run)
    native = record.native("threads", "once", 1000)[0]
    added = sum(run.said[k] - native[k] for k in ("rss_anon", "rss_shmem", "rss_file"))
    assert added < 1000 * 128 * 1024


# --- peaks ---------------------------------------------------------------------------


def bound(peak, threads):
    """What threads hold back at most, each below one step, and the first what it was allowed to
    while it was alone; twice, for what is shown may be as much below the largest published."""

    def step(count):
        return min(max(peak // (64 * count), 1024), 65536)

    return 2 * (threads * step(threads) + step(1))


def assert_peak_within_bound(run, threads):
    error = run.root["peak_error_bytes"]
    found = run.report.of_program(run.root)["peak_bytes"]
    assert abs(found - run.said["peak_bytes"]) <= error
    assert error <= bound(run.root["peak_bytes"], threads + 1)
    # The sum of the sites is what is printed.
    printed = sum(s["peak_bytes"] for s in run.report.sites_of(run.root))
    assert printed == run.root["peak_bytes"]


@pytest.mark.parametrize("how", ["serial", "withheld"])
@pytest.mark.parametrize("threads", [4, 16, 64])
def test_peak_within_its_bound(record, how, threads):
    """Every call under one lock, or all waiting: the true peak is known to the byte."""
    run = record.run("threads", how, threads)
    assert_program_exact(run)
    assert_peak_within_bound(run, threads)


@pytest.mark.parametrize("threads", [4, 16, 64])
def test_peak_of_threads_without_a_lock(record, threads):
    run = record.run("threads", "loose", threads)
    error = run.root["peak_error_bytes"]
    found = run.report.of_program(run.root)
    assert found["peak_bytes"] + error >= run.said["peak_low"]
    assert found["peak_bytes"] - error <= run.said["peak_high"]
    assert error <= bound(run.root["peak_bytes"], threads + 1)
