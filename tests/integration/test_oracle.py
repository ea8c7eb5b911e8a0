"""A random mix of every entry point against the counts the program keeps itself."""

import pytest

from ledger_file import Ledger
from oracle import PEAK, SITE_TOTALS, TOTALS, peak, report, session_of, totals

SITE_NUMBERS = (
    "allocations frees allocated_bytes temporary moved live_blocks live_bytes peak_blocks "
    "peak_bytes lifetime"
).split()
OTHER_ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}


def said_sites(said):
    return {name: dict(zip(SITE_NUMBERS, numbers)) for name, numbers in said.rows("site")}


def said_classes(said):
    """{function: {low: (allocations, peak_blocks, peak_bytes)}}."""
    found = {}
    for name, (low, *counts) in said.rows("class"):
        found.setdefault(name, {})[low] = tuple(counts)
    return found


def assert_sites(profile, process, said, keys):
    found = profile.by_function(process)
    expected = said_sites(said)
    assert found.keys() == expected.keys()
    for name, site in expected.items():
        assert {k: found[name][k] for k in keys} == {k: site[k] for k in keys}, name
        sizes = {low: counts[0] for low, counts in said_classes(said)[name].items()}
        assert found[name]["sizes"] == sizes, name


def assert_ledger(ledger, said, with_peak):
    """What report --json does not tell, by the tests' own reader."""
    found = ledger.by_function()
    for name, site in said_sites(said).items():
        assert found[name]["moved"] == site["moved"], name
        if with_peak:
            assert found[name]["lifetime"] == site["lifetime"], name
            assert found[name]["classes"] == said_classes(said)[name], name


def assert_exact(profile, process, said):
    """One thread, and a C library that allocates nothing: everything equals."""
    assert totals(process) == said.only(TOTALS)
    assert peak(process) == said.only(PEAK)
    assert process["peak_error_bytes"] == 0
    assert_sites(profile, process, said, (*SITE_TOTALS, *PEAK))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_thread(record, seed):
    run = record.run("oracle_mix", seed, 20000, 1)
    assert_exact(run.report, run.root, run.said)
    assert run.root["losses"] == []
    assert run.root["unknown_frees"] == 0
    assert_ledger(Ledger(run.ledger).of_pid(run.said.pid), run.said, with_peak=True)


@pytest.mark.parametrize("seed", [11, 12])
def test_eight_threads(record, seed):
    run = record.run("oracle_mix", seed, 20000, 8)
    keys = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes", "temporary")
    assert run.report.of_program(run.root) | {"peak_blocks": 0, "peak_bytes": 0} == run.said.only(
        (*SITE_TOTALS, *PEAK)
    )
    assert run.root["failed"] == run.said["failed"]
    assert run.root["unknown_frees"] == 0
    assert_sites(run.report, run.root, run.said, keys)
    assert_ledger(Ledger(run.ledger).of_pid(run.said.pid), run.said, with_peak=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_eight_threads_long(record, seed):
    run = record.run("oracle_mix", seed, 200000, 8)
    assert_sites(run.report, run.root, run.said, SITE_TOTALS)
    assert run.root["failed"] == run.said["failed"]


def assert_peak_of_seeds(record, first, count):
    """Small runs, one child of the program each: peak and composition in every one."""
    run = record.run("oracle_mix", first, 300, 1, count, 20000, 64, timeout=600)
    ledger = Ledger(run.ledger)
    by_pid = {p["pid"]: p for p in run.report.processes}
    assert len(run.all_said) == count
    sites = {}
    for site in run.report.sites:
        sites.setdefault(site["process"], []).append(site)
    ledgers = {p.header.pid: p for p in ledger.processes}
    for said in run.all_said:
        process = by_pid[said.pid]
        assert peak(process) == said.only(PEAK), said.pid
        assert totals(process) == said.only(TOTALS), said.pid
        assert sum(s["peak_bytes"] for s in sites[process["id"]]) == said["peak_bytes"]
        assert_ledger(ledgers[said.pid], said, with_peak=True)


def test_peak_of_many_seeds(record):
    assert_peak_of_seeds(record, 1000, 200)


@pytest.mark.slow
def test_peak_of_thousands_of_seeds(record):
    assert_peak_of_seeds(record, 5000, 5000)


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("name", ["alloc8", *OTHER_ALLOCATORS])
def test_other_allocators(record, name, threads):
    """Blocks 8 bytes apart, and whatever the others do: every free finds its block."""
    env = {"LD_PRELOAD": OTHER_ALLOCATORS.get(name) or str(record.library(name))}
    if name != "alloc8":
        env["FOREIGN_ALLOCATOR"] = "1"
    if record.native("oracle_mix", 1, 10, 1, env=env) == []:
        pytest.skip(f"{name} is not here")
    run = record.run("oracle_mix", 21, 20000, threads, env=env)
    assert_sites(run.report, run.root, run.said, SITE_TOTALS)
    assert run.root["failed"] == run.said["failed"]
    assert run.root["unknown_frees"] == 0
    assert "occupied" not in run.report.losses(run.root)


def test_counters_pass_32_bits(record):
    """A live ledger's counters put just below 2^32: the agent counts on, and so do readers."""
    start = (1 << 32) - 5
    process, path, said_path = record.start(
        "script", "churn:10", "wait", "churn:20", "say", stdin=-1, text=True
    )
    record.ready(said_path)
    live = Ledger(session_of(process.pid))
    (row,) = [r for r in live.processes[0].rows if r.temporaries]
    assert row.temporaries == 10
    for name in ("temporaries", "allocs", "frees"):
        setattr(row, name, start)
    for name in ("bytes_in", "bytes_out"):
        setattr(row, name, start * 100)
    process.communicate("\n")
    assert process.returncode == 0
    (site,) = report(record.tool, path).sites
    assert site["temporary"] == site["allocations"] == site["frees"] == start + 20
    assert site["allocated_bytes"] == (start + 20) * 100
    assert site["live_blocks"] == site["live_bytes"] == 0
