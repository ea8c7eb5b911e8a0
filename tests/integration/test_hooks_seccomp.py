"""seccomp: the agent never makes the call that kills."""

import pytest

COUNTS = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes")


def check(run, frozen):
    sums = run.report.of_program(run.root)
    assert {key: sums[key] for key in COUNTS} == run.said.only(COUNTS)
    assert run.report.losses(run.root).get("seccomp", 0) == int(frozen)


@pytest.mark.parametrize("jail", ["strict", "madvise", "mremap", "mmap"])
@pytest.mark.parametrize("how", ["", "-syscall"])
def test_a_jail_that_kills_is_outlived(record, jail, how):
    run = record.run("jailed", jail + how, 5000)
    check(run, frozen=True)


@pytest.mark.parametrize("jail", ["ptrace", "exec", "ptrace-syscall", "tsc"])
def test_what_the_agent_can_do_without_changes_nothing(record, jail):
    run = record.run("jailed", jail, 200_000)
    check(run, frozen=False)
    assert run.root["losses"] == []
