"""Everything at once for a while: threads, forks, programs executed, libraries that come and go,
signals; and every count is the program's own. SOAK_SECONDS and SOAK_SEEDS make more of it
(make soak)."""

import os

import pytest

from oracle import lost

KEYS = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes")
SECONDS = int(os.environ.get("SOAK_SECONDS", 0))
SEEDS = int(os.environ.get("SOAK_SEEDS", 1))


def own_counts(run, process, module=None):
    """The sums of the sites that begin in the program, or in a library of the given names."""
    sums = dict.fromkeys(KEYS, 0)
    for site in run.report.sites_of(process):
        innermost = site["stack"][0]["module"] if site["stack"] else None
        if innermost and os.path.basename(innermost) in (module or ("soak",)):
            for key in KEYS:
                sums[key] += site[key]
    return sums


def soak(record, seed, seconds, threads):
    plugins = [record.library("plugin_a"), record.library("plugin_b")]
    run = record.run("soak", seed, seconds, threads, *plugins, timeout=seconds * 20 + 120)
    parents = [said for said in run.all_said if said.words.get("role") == "parent"]
    children = [said for said in run.all_said if said.words.get("role") == "child"]
    (parent,) = parents
    assert len(children) == parent["children"] > 0
    assert own_counts(run, run.root) == parent.only(KEYS)
    plugged = own_counts(run, run.root, ("libplugin_a.so", "libplugin_b.so"))
    assert plugged["allocations"] == plugged["frees"] == parent["plugin_blocks"]
    by_pid = {}
    for process in run.report.processes:
        by_pid.setdefault(process["pid"], []).append(process)
    for said in children:
        assert own_counts(run, by_pid[said.pid][-1]) == said.only(KEYS)
    for process in run.report.processes:
        assert lost(process) == [], process
        assert process["unknown_frees"] == 0
        assert process["ledger_bytes"] <= 24 << 20
    assert run.root["end"] == {"kind": "exit", "code": 0}
    assert parent["grown"] <= 16 << 10  # what glibc keeps in its arenas comes and goes


def test_a_short_one(record):
    soak(record, 1, 2, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_long_one(record, seed):
    soak(record, seed, SECONDS or 15, 3 + seed % 10)
