"""What recording costs in memory, by what the program says of its own."""

import pytest

from oracle import PEAK, TOTALS, peak, totals

PARTS = ("rss_anon", "rss_shmem", "rss_file")
MIB = 1 << 20


def resident(said):
    return sum(said[part] for part in PARTS)


def assert_added(record, blocks, replaced):
    native = record.native("live_blocks", blocks, replaced)[0]
    run = record.run("live_blocks", blocks, replaced, timeout=600)
    assert totals(run.root) == run.said.only(TOTALS)
    assert peak(run.root) == run.said.only(PEAK)
    added = resident(run.said) - resident(native)
    print(f"{blocks} blocks: {resident(native)} native, {added / resident(native):.1%} added")
    assert added <= 0.4 * resident(native)


def test_a_million_live_blocks(record):
    assert_added(record, 1_000_000, 300_000)


@pytest.mark.slow
def test_ten_million_live_blocks(record):
    assert_added(record, 10_000_000, 5_000_000)


def test_a_small_program(record):
    native = record.native("small")[0]
    run = record.run("small")
    assert totals(run.root) == run.said.only(TOTALS)
    assert peak(run.root) == run.said.only(PEAK)
    added = {part: run.said[part] - native[part] for part in PARTS}
    print(f"added: {added}")
    assert sum(added.values()) <= 3 * MIB


def test_churn_does_not_grow_the_ledger(record):
    """Bounded by stacks and live blocks, not by the length of the run."""
    short = record.run("script", "churn:1000", "say").root
    long = record.run("script", "churn:3000000", "say").root
    assert long["temporary"] == 3_000_000
    assert long["ledger_bytes"] - short["ledger_bytes"] <= 256 * 1024
