"""mmap and its kin against a program that keeps a map of its own pages."""

import pytest

from ledger_file import Ledger

MMAP, MREMAP, MUNMAP = 14, 15, 16


def calls(ledger, api):
    """[calls, failed, bytes] over all slots."""
    each = [slot.calls[3 * api : 3 * api + 3] for slot in ledger.slots]
    return [sum(column) for column in zip(*each, strict=True)]


@pytest.mark.parametrize("seed", range(1, 6))
def test_mappings_agree_with_the_program(record, seed):
    run = record.run("maps", seed)
    ledger = Ledger(run.ledger).of_pid(run.said.pid)
    lines = {line[0]: [int(n) for n in line[1:]] for line in run.said.lines if len(line) == 4}
    assert calls(ledger, MMAP) == lines["mmap"]
    assert calls(ledger, MUNMAP) == lines["munmap"]
    assert calls(ledger, MREMAP) == lines["mremap"]
    assert ledger.header.mapped_bytes == run.said["live_bytes"]
    assert ledger.header.mapped_peak == run.said["peak_bytes"]
    assert ledger.losses == {}
    assert run.root["mapped_bytes"] == run.said["live_bytes"]


def test_an_allocators_own_mappings_are_not_the_programs(record):
    """A block so large that malloc maps it is a block, and no mapping."""
    run = record.run("script", "make:3:10000000", "free:1", "say")
    assert run.root["mapped_bytes"] == 0
    assert run.root["live_bytes"] >= run.said["live_bytes"] == 20_000_000


@pytest.mark.parametrize("allocator", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_a_preloaded_allocators_own_neither(record, allocator):
    run = record.run("script", "make:3:10000000", "say", env={"LD_PRELOAD": allocator})
    if "cannot be preloaded" in run.stderr:
        pytest.skip(f"{allocator} is not here")
    assert run.report.of_program(run.root)["live_bytes"] == 30_000_000
    assert run.root["mapped_bytes"] < 30_000_000
