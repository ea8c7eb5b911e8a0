"""Every entry point of the hooks at once, from many threads, with all that may come in between; every
count is the program's own (tests/programs/stress.cpp)."""

import os

import pytest

from ledger_file import Ledger
from oracle import function_at

KEYS = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes")
PLUGINS = ("libplugin_a.so", "libplugin_b.so")
OTHER_ALLOCATORS = {
    "libjemalloc.so.2": "lot", "libmimalloc.so.2": "lotn", "libtcmalloc_minimal.so.4": "lot"
}  # fmt: skip


def is_own(site):
    """Made by the program, be it through the C++ library's operator new."""
    for frame in site["stack"]:
        module = os.path.basename(frame["module"] or "")
        if not module.startswith("libstdc++"):
            return module == "stress"
        if not (function_at(frame["module"], frame["offset"] - 1) or "").startswith("_Zn"):
            return False
    return False


def is_plugged(site):
    return site["stack"] and os.path.basename(site["stack"][0]["module"] or "") in PLUGINS


def is_cut_in_a_throw(site):
    """From a handler that came to the last instructions of a throw, when the stack that led there
    is no more and the one it goes on with is not yet: nobody could walk that."""
    modules = [(frame["module"] or "") for frame in site["stack"]]
    return bool(modules) and not modules[-1] and any("libgcc_s" in one for one in modules)


def sums(report, process, belongs):
    found = dict.fromkeys(KEYS, 0)
    for site in report.sites_of(process):
        if belongs(site):
            for key in KEYS:
                found[key] += site[key]
    return found


def stressed(record, seed, steps, threads, what, env=None):
    plugins = [record.library("plugin_a"), record.library("plugin_b")]
    run = record.run("stress", seed, steps, threads, f"-{what}", *plugins, env=env, timeout=900)
    assert run.root["end"] == {"kind": "exit", "code": 0}
    (parent,) = [said for said in run.all_said if said.words["role"] == "parent"]
    return run, parent


def assert_exact(run, said, process, failed=True, exceptions=0):
    assert sums(run.report, process, is_own) == said.only(KEYS)
    assert process["inherited_frees"] == said["inherited"]
    if failed:
        assert process["failed"] == said["failed"]
    plugged = sums(run.report, process, is_plugged)
    assert plugged["allocations"] == said["plugin_blocks"]
    assert plugged["frees"] == said["plugin_freed"]
    assert process["unknown_frees"] == exceptions
    lost = run.report.losses(process)
    assert lost.keys() <= {"cut_stacks"}
    cut = [site["allocations"] for site in run.report.sites_of(process) if is_cut_in_a_throw(site)]
    assert lost.get("cut_stacks", 0) == sum(cut)


def assert_all_exact(run, parent, threads):
    assert_exact(run, parent, run.root)
    children = [said for said in run.all_said if said.words["role"] == "child"]
    assert len(children) == parent["children"]
    by_pid = {}
    for process in run.report.processes:
        by_pid.setdefault(process["pid"], []).append(process)
    for said in children:
        # A pid may come round in a long one: each is one of them.
        candidates = [p for p in by_pid[said.pid] if p["inherited_frees"] == said["inherited"]]
        assert_exact(run, said, candidates[0])
    # What it takes goes by sites and by blocks live at once, not by how long it ran.
    assert run.root["ledger_bytes"] <= (24 << 20) + threads * (1 << 20)
    process = Ledger(run.ledger).of_pid(parent.pid)
    assert all(slot.op % 2 == 0 for slot in process.slots)
    assert process.header.total + sum(slot.delta for slot in process.slots) == sum(
        row.bytes_in - row.bytes_out for row in process.rows
    )


@pytest.mark.parametrize("what", ["", "s", "f", "l", "t", "sflt"])
def test_a_short_one(record, what):
    run, parent = stressed(record, 1, 6000, 8, what)
    assert_all_exact(run, parent, 8)
    assert parent["children"] > 0 or "f" not in what
    assert parent["plugin_blocks"] > 0 or "l" not in what
    assert parent["handled"] > 0 or "s" not in what


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 18))
def test_a_long_one(record, seed):
    threads = (3, 8, 16, 40)[seed % 4]
    run, parent = stressed(record, seed, 600000 // threads, threads, "sflt")
    assert_all_exact(run, parent, threads)


@pytest.mark.parametrize("allocator", OTHER_ALLOCATORS)
def test_another_allocator(record, allocator):
    """As long as it is let alone: not every one bears a fork or a signal in its middle."""
    run, parent = stressed(
        record, 2, 6000, 8, OTHER_ALLOCATORS[allocator], env={"LD_PRELOAD": allocator}
    )
    if "cannot be preloaded" in run.stderr:
        pytest.skip(f"{allocator} is not here")
    # What its operator new throws is made inside of it, which is its own business.
    assert_exact(run, parent, run.root, failed=False, exceptions=parent["thrown"])


@pytest.mark.parametrize("seed", [3, 4])
def test_an_address_space_that_is_full_now_and_then(record, seed):
    """What fails is the program's; if it is the agent that got nothing, the report says so."""
    run, parent = stressed(record, seed, 6000, 8, "ms")
    losses = run.report.losses(run.root)
    if not losses:
        assert_exact(run, parent, run.root, failed=False)
        return
    assert losses.keys() <= {
        "stopped_no_memory", "unrecorded", "unshadowed", "missed_frees", "nested_calls", "cut_stacks"
    }  # fmt: skip
    assert sums(run.report, run.root, is_own)["allocations"] <= parent["allocations"]
