"""Hooks that are interrupted: at every instruction of the agent's that a call comes to."""

import pytest

from ledger_file import Ledger
from oracle import SITE_TOTALS

KEPT = 500, 128  # what `stepped` holds at its end: blocks, and the size of each


def function_of(run, name):
    return {key: run.report.by_function(run.root)[name][key] for key in SITE_TOTALS}


def assert_published(run):
    """What has been published of live bytes agrees with the rows."""
    process = Ledger(run.ledger).of_pid(run.said.pid)
    held = sum(slot.delta for slot in process.slots)
    assert process.header.total + held == sum(r.bytes_in - r.bytes_out for r in process.rows)
    assert all(slot.op % 2 == 0 for slot in process.slots)
    return process


@pytest.mark.parametrize("how", ["jump", "alternate", "fiber"])
def test_jumps_out_of_a_hook_end_at_the_next(record, how):
    """Whatever the jump left, and from however deep a stack the next call comes: on the thread's
    own stack, on an alternate one, on a fiber's below the one that is gone."""
    run = record.run("stepped", how)
    assert run.said["acts"] > 500
    assert function_of(run, "after") == run.said.only(SITE_TOTALS)
    losses = run.report.losses(run.root)
    # A jump from before the hook began, or after it, leaves none.
    assert 0.9 * run.said["acts"] <= losses.pop("abandoned_calls") <= run.said["acts"]
    assert losses == {}
    process = assert_published(run)
    assert process.header.slot_count == 1
    # One thread's peak is exact, and here it is what is live at the end.
    assert run.root["peak_error_bytes"] == 0
    assert run.root["peak_bytes"] == run.root["live_bytes"] == process.header.max


def test_handlers_are_recorded_wherever_they_interrupt_the_agent(record):
    run = record.run("stepped", "nested")
    assert run.said["acts"] > 500
    made = function_of(run, "in_handler")
    assert made["allocations"] == made["frees"] == run.said["nested"]
    assert run.root["losses"] == []
    assert run.root["unknown_frees"] == 0
    assert (run.root["live_blocks"], run.root["live_bytes"]) == (KEPT[0], KEPT[0] * KEPT[1])
    assert_published(run)


def test_handlers_where_no_system_call_is_allowed(record):
    """A slot of its own cannot be had any more: the handler's calls are counted, no more."""
    run = record.run("stepped", "jailed")
    assert run.said["acts"] > 500
    losses = run.report.losses(run.root)
    assert losses["seccomp"] == 1
    # Those that came before the hook began, or after its end, are calls like any other.
    made = function_of(run, "in_handler")
    assert made["allocations"] == made["frees"] < run.said["nested"] / 10
    assert losses["nested_calls"] == 2 * (run.said["nested"] - made["allocations"])
    assert run.root["live_blocks"] == KEPT[0]


def test_handlers_inside_the_allocator_are_counted(record):
    """What they make is theirs; its free, later, is one of a block never seen."""
    run = record.run("stepped", "inside", env={"LD_PRELOAD": str(record.library("reentrant"))})
    acts = run.said["acts"]
    assert acts > 30
    assert run.report.losses(run.root) == {"nested_calls": acts}
    assert run.root["unknown_frees"] == acts
    made = function_of(run, "in_handler")
    assert made["allocations"] == made["frees"] == run.said["nested"] - acts
    assert (run.root["live_blocks"], run.root["live_bytes"]) == (KEPT[0], KEPT[0] * KEPT[1])
    assert_published(run)


def test_jumps_out_of_the_allocator_end_a_hook_too(record):
    env = {"LD_PRELOAD": str(record.library("reentrant"))}
    run = record.run("stepped", "jump_inside", env=env)
    assert run.said["acts"] > 30
    assert function_of(run, "after") == run.said.only(SITE_TOTALS)
    assert run.report.losses(run.root) == {"abandoned_calls": run.said["acts"]}
    assert run.root["peak_error_bytes"] == 0


def test_forks_no_hook_sees_leave_the_parent_its_ledger(record):
    """The child goes on in its parent's hook. It has a ledger of its own soon enough: what it does
    to its parent's is count some of those calls twice, where it comes between two stores."""
    run = record.run("stepped", "fork")
    parent = run.all_said[-1]
    acts = parent["acts"]
    assert acts > 300
    assert len(run.report.processes) == acts + 1
    for said in run.all_said[:-1]:
        child = run.report.of_pid(said.pid)
        assert child["allocations"] - said["allocations"] in (0, 1)
        assert child["live_blocks"] in (0, 1)
    after = run.report.by_function(run.root)["after"]
    assert {key: after[key] for key in SITE_TOTALS} == parent.only(SITE_TOTALS)
    assert abs(run.root["live_blocks"] - KEPT[0]) <= acts / 20
    losses = run.report.losses(run.root)
    assert losses.pop("missed_frees", 0) <= acts / 10
    assert losses.keys() <= {"damaged"}
    assert all(slot.op % 2 == 0 for slot in Ledger(run.ledger).of_pid(parent.pid).slots)
